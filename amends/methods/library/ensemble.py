"""Any method over several models, or over draws around one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amends.editors import Each
from amends.errors import BadInput
from amends.methods.base import Method
from amends.methods.library.ewc import ewc
from amends.remember import Members


def ensemble(
    of: Method | None = None, models: Sequence[Any] = (), samples: int = 4, scale: float = 0.1, seed: int = 0
) -> Method:
    """Any method over several models: the one given and `models` (modules or state dicts), or over
    `samples` draws around it. Scores are averaged.

    Treating models gives one module that averages their predictions; treating samples moves the
    model as far as they moved on average."""
    of = ewc() if of is None else of
    if not isinstance(of, Method):
        raise BadInput(f"of is {of!r}; ensemble; pass a method with an editor, for example amends.methods.ewc()")
    members = Members(of.remember, tuple(models), 0 if models else samples, scale, seed)
    return of._replace(remember=members, editor=Each(of.editor))
