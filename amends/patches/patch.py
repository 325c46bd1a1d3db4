"""A patch: what leads from the weights of one model to other weights of it, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from amends.errors import BadInput, kind_of
from amends.models import module_of
from amends.patches.codes import Damaged
from amends.patches.moves import Move, back, forward, stepped
from amends.patches.names import digest, dtype_name, fitted, some, tensors, tied, widened

State = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Layer:
    """A tensor that moves; to the bit where there is no `move`. `changed` is the share of its weights that differ
    afterwards, `moved` the size of the difference over the size of the weights."""

    shape: tuple[int, ...]
    changed: float
    moved: float
    move: Move | None = None

    @property
    def kind(self) -> str:
        return "exact" if self.move is None else self.move.about["kind"]


@dataclass(frozen=True, eq=False)
class Base:
    """Weights the patch may be put on: digests of all tensors `before` it, and `after` it of those that move. `ways`
    hold what the moves alone cannot restore. `judged` holds the verdict and the figures of the patch on them."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    ways: Mapping[str, bytes]
    judged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def end(self) -> dict[str, str]:
        """The digest of every tensor after the patch."""
        return {**self.before, **self.after}


@dataclass(frozen=True, eq=False, repr=False)
class Patch:
    """The difference between two states of a model, which `amends.apply` puts on it and `revert` takes off again.

    `layers` are the tensors it moves, by name; the first of `bases` are the weights it was made for. `about` says
    where it comes from: verdict and figures, what was removed or relabelled, recipe and versions.
    """

    layers: Mapping[str, Layer]
    bases: tuple[Base, ...]
    tied: Mapping[str, str] = field(default_factory=dict)  # further names of tensors, and the first
    stored: Mapping[str, str] = field(default_factory=dict)  # narrower dtypes in the file that was repaired
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Any) -> Patch:
        """From a file that `amends patch` or `save` wrote; BadInput where it is damaged or not a patch."""
        from amends.patches.store import read_patch

        return read_patch(Path(path))

    def save(self, path: Any) -> Path:
        """Writes a safetensors file; one that exists is left as it is."""
        from amends.patches.store import save_patch

        return save_patch(self, Path(path))

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file."""
        from amends.patches.store import as_bytes

        return as_bytes(self)

    @property
    def exact(self) -> bool:
        """Whether it leads to the repaired weights to the bit. It leads back to the bit in any case."""
        return all(layer.move is None for layer in self.layers.values())

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.data)

    def __repr__(self) -> str:
        verdict = self.about.get("verdict", "")
        return f"Patch({len(self.layers)} layers, {self.size:,} bytes{f', {verdict}' if verdict else ''})"

    def revert(self, model: Any, later: Sequence[Any] = ()) -> Any:
        """A copy of a model the patch was applied to, as it was before, to the bit.

        `later` are patches that were applied after it, in their order: they are taken off and put on again, if they
        say that they do not depend on this one.
        """
        from amends.patches.stack import without

        return changed(model, lambda state: without(state, self, [as_patch(p) for p in later], "model"))

    def is_on(self, given: State, where: str) -> bool:
        """Whether the weights have the patch on them."""
        known = self.bases[0].before
        fit = fitted(given, known, self.tied, where)
        digests = {name: digest(widened(value, known[name])) for name, value in fit.state.items()}
        return any(digests == base.end for base in self.bases)

    def put_on(self, given: State, where: str) -> dict[str, Tensor]:
        """The tensors that move, by the names given, after the patch."""
        state, names, base = self._known(given, where, after=False)
        return self._moved(state, names, base, where, forward)

    def take_off(self, given: State, where: str) -> dict[str, Tensor]:
        """The tensors that move, by the names given, as they were before the patch."""
        state, names, base = self._known(given, where, after=True)
        moved = self._moved(state, names, base, where, back)
        for name, dtype in self.stored.items():
            for alias in names.get(name, ()):
                narrow = moved[alias].to(getattr(torch, dtype)) if alias in moved else None
                if narrow is not None and torch.equal(narrow.to(moved[alias].dtype), moved[alias]):
                    moved[alias] = narrow
        return moved

    def _moved(
        self, state: State, names: Mapping[str, Sequence[str]], base: Base, where: str, go: Any
    ) -> dict[str, Tensor]:
        moved = {}
        for name, layer in self.layers.items():
            try:
                value = go(state[name], layer.move, base.ways.get(name, b""))
            except (Damaged, RuntimeError, ValueError) as e:
                raise BadInput(f"the patch does not fit {name} ({e}); {where}; make the patch again") from e
            moved |= dict.fromkeys(names[name], value)
        return moved

    def _known(self, given: State, where: str, after: bool) -> tuple[State, Mapping[str, list[str]], Base]:
        """The tensors under the names and in the dtypes the patch knows, and the base they match."""
        first = self.bases[0].before
        fit = fitted(given, first, self.tied, where)
        state = {name: widened(value, first[name]) for name, value in fit.state.items()}
        digests = {name: digest(value) for name, value in state.items()}
        for base in self.bases:
            if digests == (base.end if after else base.before):
                return state, fit.names, base
        for base in self.bases:
            if digests == (base.before if after else base.end):
                problem = "is not applied to these weights" if after else "is applied to these weights already"
                todo = "there is nothing to revert" if after else "revert it first, or leave it out"
                raise BadInput(f"the patch {problem}; {where}; {todo}")
        wanted = self.bases[0].end if after else first
        differ = sorted(name for name in wanted if digests[name] != wanted[name])
        todo = "take off what was applied after it first" if after else "give the weights it was made for"
        raise BadInput(f"the patch is for other weights: {some(differ)} {_differs(differ)}; {where}; {todo}")


def _differs(names: Sequence[str]) -> str:
    return "differs" if len(names) == 1 else "differ"


def apply(model: Any, patch: Any) -> Any:
    """A copy of the model with a patch on it; yours is untouched.

    `patch` is a file that `amends patch` wrote, or what `amends.Patch.read` returns. A model with other weights than
    the patch was made for is refused, with the names of the layers that differ. `patch.revert` is the way back.
    """
    read = as_patch(patch)
    return changed(model, lambda state: read.put_on(state, "model"))


def as_patch(patch: Any) -> Patch:
    if isinstance(patch, Patch):
        return patch
    if not isinstance(patch, str | Path):
        raise BadInput(f"patch is {kind_of(patch)}; pass a file that amends patch wrote, or amends.Patch.read(file)")
    return Patch.read(patch)


def changed(model: Any, change: Callable[[State], State]) -> Any:
    """A copy of the caller's model, with the tensors that `change` returns in place of its own."""
    opened = module_of(model)
    module = deepcopy(opened.module)
    state = tensors(module)
    for name, value in change(state).items():
        if value.dtype != state[name].dtype:
            want, has = dtype_name(value.dtype), dtype_name(state[name].dtype)
            raise BadInput(f"{name} is {has}, but the patch is of {want} weights; model; load the model in {want}")
        with torch.no_grad():
            state[name].copy_(value)
    return opened.back(module)


def between(before: State, after: State, moves: Mapping[str, Move] | None = None) -> Patch:
    """The patch from one state of a model to another: to the bit, or by `moves` to wherever these lead."""
    again = tied(before)
    first = {name: value for name, value in before.items() if name not in again}
    digests = {name: digest(value) for name, value in first.items()}
    ends = {name: digest(after[name]) for name in first}
    layers, ways = {}, {}
    for name in (name for name in first if digests[name] != ends[name]):
        move = None if moves is None else moves.get(name)
        end, ways[name] = stepped(first[name], after[name], move)
        layers[name], ends[name] = _layer(first[name], end, move), digest(end)
    return Patch(layers, (Base(digests, {name: ends[name] for name in layers}, ways),), again)


def _layer(before: Tensor, after: Tensor, move: Move | None) -> Layer:
    a, b = (t.detach().cpu() for t in (before, after))
    share = float((a != b).double().mean()) if a.numel() else 0.0
    if not (a.is_floating_point() or a.is_complex()):
        return Layer(tuple(a.shape), share, 0.0, move)
    wide = torch.complex128 if a.is_complex() else torch.float64
    size, far = float(a.to(wide).norm()), float((b.to(wide) - a.to(wide)).norm())
    return Layer(tuple(a.shape), share, far / size if size else far, move)
