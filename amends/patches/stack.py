"""Several patches on one model: putting them on, taking one out, and other weights that one may be put on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from amends.errors import BadInput, many
from amends.patches.moves import forward, stepped
from amends.patches.names import digest
from amends.patches.patch import Base, Patch, State


def with_all(given: State, patches: Sequence[Patch], where: str) -> dict[str, Tensor]:
    """The tensors that differ once the patches are put on, one after the other."""
    state, moved = dict(given), {}
    for number, patch in enumerate(patches):
        new = patch.put_on(state, f"{where} with {many(number, 'patch', 'patches')} on" if number else where)
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


def next_to(state: State, patch: Patch, other: Patch) -> dict[str, Tensor]:
    """From the weights a patch is made for, those without the other patch if that is below it, or with the other patch
    if that begins at the same weights. BadInput if neither is so."""
    mine = patch.bases[0].before
    for base in other.bases:
        if base.end == mine:
            return {**state, **other.take_off(state, "model")}
        if base.before == mine:
            return {**state, **other.put_on(state, "model")}
    raise BadInput(
        "the other patch neither ends nor begins at the weights this one is for; --beside; give the one directly below "
        "it, or one that is for the same weights"
    )


def ends_at(patch: Patch, before: State, other: State) -> dict[str, Tensor]:
    """The tensors of a patch on weights other than its own: each moves by as much as it did there."""
    own = {**before, **patch.put_on(before, "model")}
    moved = {}
    for name, layer in patch.layers.items():
        if layer.move is not None:
            moved[name] = forward(other[name], layer.move, b"")
        else:
            far = own[name].cpu().double() - before[name].cpu().double()
            moved[name] = (other[name].cpu().double() + far).to(other[name].dtype)
    return moved


def with_base(patch: Patch, before: State, after: State, judged: Mapping[str, Any]) -> Patch:
    """A copy of the patch that may be put on other weights as well."""
    first = patch.bases[0].before
    digests = {name: digest(before[name]) for name in first}
    ways = {name: stepped(before[name], after[name], layer.move)[1] for name, layer in patch.layers.items()}
    base = Base(digests, {name: digest(after[name]) for name in patch.layers}, ways, judged)
    return replace(patch, bases=(*patch.bases, base))
