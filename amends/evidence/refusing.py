"""Finds the example that a model fails on. An error of the forward pass names it, whatever batch it was in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import CheckpointError

from amends.data.inputs import Inputs, each
from amends.errors import AmendsError, BadInput, first_line
from amends.evidence.room import refused

if TYPE_CHECKING:
    from amends.evidence.factor import Factor


@contextmanager
def named(part: Factor) -> Iterator[None]:
    """If the model cannot take one of the examples, raise a BadInput that names it. Other errors pass unchanged."""
    try:
        yield
    except CheckpointError as e:
        raise BadInput(
            "forward calls torch.utils.checkpoint, which amends cannot differentiate; model; switch it off, as for "
            "evaluation"
        ) from e
    except Exception as e:
        if isinstance(e, AmendsError) or refused(e) or part.network.sharded:
            raise
        first = _first(part)
        if first is None:
            raise
        row, why = first
        name = f"{part.examples.name}[{int(part.examples.rows[row])}]"
        raise BadInput(f"the model cannot take an example ({why}); {name}; correct it or drop it") from e


def _first(part: Factor) -> tuple[int, str] | None:
    """The position of the first example that the model cannot take with its original weights, and the error; None if
    there is none."""
    for at, x, y, _ in part.tiles():
        if _error(part, x) is None:
            continue
        for i in range(len(y)):
            why = _error(part, each(x, lambda t, i=i: t[i : i + 1]))
            if why is not None:
                return at.start + i, why
    return None


def _error(part: Factor, x: Inputs) -> str | None:
    try:
        with torch.no_grad():
            part.network.outputs(part.network.params, x)
    except Exception as e:
        return None if refused(e) else first_line(e)
    return None
