"""Several patches on one model: put on in order, one of them taken out, and whether one depends on another."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from amends.errors import BadInput
from amends.patches.patch import Patch, State


def with_all(given: State, patches: Sequence[Patch], where: str) -> dict[str, Tensor]:
    """The tensors that differ once the patches are put on, one after the other."""
    state, moved = dict(given), {}
    for patch in patches:
        new = patch.put_on(state, where)
        state, moved = {**state, **new}, {**moved, **new}
    return moved


def without(given: State, patch: Patch, later: Sequence[Patch], where: str) -> dict[str, Tensor]:
    """The tensors that differ once a patch is taken out from under `later` ones, which are put on again."""
    state, moved = dict(given), {}
    for one in (*reversed(later), patch):
        new = one.take_off(state, where)
        state, moved = {**state, **new}, {**moved, **new}
    for number, one in enumerate(later, 1):
        try:
            new = one.put_on(state, where)
        except BadInput as e:
            raise BadInput(
                f"patch {number} of the later ones does not say that it holds without this one; {where}; take it off "
                "as well, or make it again with amends patch --beside"
            ) from e
        state, moved = {**state, **new}, {**moved, **new}
    return moved
