"""What a caller may ask of a repair, checked before anything is computed."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amends.algorithm.selection import fraction, indices, top
from amends.errors import BadInput, kind_of
from amends.evidence.factor import Factor
from amends.evidence.params import large
from amends.methods import Default, Method


@dataclass(frozen=True, eq=False)
class Keep:
    """For `keep`: a labelled set, and the `least` share of it that must be right in the end."""

    data: Any
    least: float


@dataclass(frozen=True, eq=False)
class Options:
    """How a repair is to be done, in the words of `amends.repair`. `least` has the names of the sets to keep, and the
    accuracy each must end with where the user says."""

    identify_with: Any = None
    treat_with: Any = None
    learn: bool | None = None
    remove: Any = None
    holdout: float = 0.5
    group_by: Any = None
    floor: float | None = None
    broken_costs: float = 1.0
    seed: int = 0
    budget: str | float = "default"
    least: Mapping[str, float | None] = field(default_factory=dict)
    anyway: bool = False  # go on where the setup looks broken
    trust: bool = False  # code that a run made elsewhere names was run
    unsafe_pickle: bool = False  # weights were unpickled
    whole: bool = False  # failures and right examples are all of one evaluation set

    @property
    def allowed(self) -> tuple[str, ...]:
        """What the user allowed that is refused otherwise."""
        return tuple(name for name in ("anyway", "trust", "unsafe_pickle") if getattr(self, name))

    def __post_init__(self) -> None:
        if not isinstance(self.learn, bool | None):
            raise BadInput(
                f"learn is {self.learn!r}; it must be True, False or None; pass None to let the evidence decide"
            )
        if self.floor is not None and not _is_share(self.floor):
            raise BadInput(
                f"floor is {self.floor!r}; it must be from 0 to 1; pass the share of remaining that may be lost"
            )

        if not isinstance(self.anyway, bool):
            raise BadInput(
                f"anyway is {self.anyway!r}; it must be True or False; pass True to go on though the setup looks broken"
            )
        costs = self.broken_costs
        if isinstance(costs, bool) or not isinstance(costs, numbers.Real) or not 0 <= float(costs) < float("inf"):
            raise BadInput(
                f"broken_costs is {costs!r}; it must be 0 or more; pass how many fixed examples a broken one costs"
            )


def sets_to_keep(keep: Any) -> tuple[dict[str, Any], dict[str, float | None]]:
    """Further labelled sets by the names messages use, and the accuracy each must end with where the user says."""
    keep = (keep,) if isinstance(keep, Keep) else keep
    if not isinstance(keep, Mapping | Sequence) or isinstance(keep, str | bytes):
        raise BadInput(f"keep is {kind_of(keep)}; pass a list of labelled sets, or sets by name")
    if not isinstance(keep, Mapping) and any(hasattr(k, "shape") for k in keep):
        raise BadInput("keep is one set, expected a list of labelled sets; write keep=[(x, y)]")
    given = {f"keep[{name!r}]": k for name, k in (keep.items() if isinstance(keep, Mapping) else enumerate(keep))}
    for name, k in given.items():
        if isinstance(k, Keep) and not _is_share(k.least):
            raise BadInput(f"least of {name} is {k.least!r}; it must be from 0 to 1; pass the share that must be right")
    sets = {name: k.data if isinstance(k, Keep) else k for name, k in given.items()}
    return sets, {name: float(k.least) if isinstance(k, Keep) else None for name, k in given.items()}


def _is_share(value: Any) -> bool:
    return isinstance(value, numbers.Real) and 0 <= float(value) <= 1


def removal(remove: Any, size: int, names: np.ndarray | None = None) -> int | np.ndarray | None:
    """A count, a share of train, the positions themselves, or None to let the curve decide."""
    if remove is None:
        return None
    if getattr(remove, "shape", None) == ():  # a number in an array or a tensor
        remove = remove.item()
    if isinstance(remove, numbers.Real) and not isinstance(remove, bool):
        whole = isinstance(remove, numbers.Integral)
        if remove < 0:
            raise BadInput(f"remove is {remove!r} (top or fraction in a config); give a count or a share of 0 or more")
        if whole and int(remove) > size:
            raise BadInput(f"remove is {remove} (top in a config), but train has {size} examples; give fewer")
        gone = len(top(np.zeros(size), int(remove)) if whole else fraction(np.zeros(size), float(remove)))
        if gone == size:
            raise BadInput(f"remove is {remove!r}; that is all of train; leave something to learn from")
        return gone
    if (isinstance(remove, Sequence | np.ndarray) and not isinstance(remove, str)) or hasattr(remove, "__array__"):
        return indices(remove, size, names)
    raise BadInput(
        f"remove is {remove!r}; it must say what to remove; pass a count, a share of train, positions in it, or None"
    )


def treatment(given: Any, learn: bool | None, seed: int, train: Factor) -> tuple[Method, bool | None]:
    """The treatment that only forgets, with which the curve is drawn, and whether to learn from the query
    once that is done: yes, no, or None where the judgement decides."""
    ours, method = isinstance(given, Default), given
    if isinstance(given, Default):
        method = given.treating(seed, len(train), large(train.network.params))
    if not isinstance(method, Method):
        raise BadInput(
            f"treat_with is {given!r}; it does not treat; pass a method that does, for example amends.methods.newton()"
        )
    if not method.forget:  # there is nothing but learning in it
        return method if learn is None else method._replace(learn=bool(learn)), False
    wanted = learn if learn is not None or ours else method.learn
    return method._replace(learn=False), None if wanted is None else bool(wanted)


def alternatives(given: Any, seed: int, train: Factor) -> tuple[Method, ...]:
    """The treatments that the default may choose in place of its usual one."""
    if not isinstance(given, Default):
        return ()
    return given.otherwise(seed, len(train), large(train.network.params))
