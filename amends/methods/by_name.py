"""Methods and solvers by their names, for a config or a command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import signature
from typing import Any

from amends.errors import BadInput, nearest
from amends.methods import table


def _made_by(names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    return {name: getattr(import_module(table.HOMES[name]), name) for name in names}


IDENTIFY = _made_by(table.names("identify"))
TREAT = _made_by(table.names("treat"))
BY_NAME = IDENTIFY | TREAT
SOLVERS = _made_by(table.SOLVERS)


def named(name: str, solver: str | None = None, **options: Any) -> Any:
    """A method by its name, for a config or a command line; `solver` goes to linear influence and to Newton
    removal, whose step is then searched for unless its size is among the `options`."""
    maker = BY_NAME[name]
    if solver is not None and name in ("linear", "newton"):
        options = {"solver": SOLVERS[solver](), **options}
    if name == "newton" and "gamma" not in options:
        options = {"line_search": True, **options}
    known = list(signature(maker).parameters)
    for option in options:
        if option not in known:
            raise BadInput(f"{name} has no option {option}; {nearest(option, known)}")
    return maker(**options)
