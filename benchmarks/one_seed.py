"""The rows of one seed of a setting: every method identifies, treats or repairs, and is measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from rows import CAUSES, IDENTIFYING, RANKED_BY, REPAIRS, TREATING, Rows
from timing import timed
from worlds import World, outputs

import amends
from amends import methods
from amends.algorithm.identify import Influence, identify
from amends.algorithm.options import Options
from amends.algorithm.problem import Problem
from amends.algorithm.treat import treat
from amends.errors import NotConverged, OutOfMemory
from amends.evaluation.rankings import average_precision, precision_at, ranking_area
from amends.evidence.prepare import prepare
from amends.progress import Progress


@dataclass(frozen=True, eq=False)
class OneSeed:
    """Those of its `rows` that are there already are not made again, those that `skip` names are left out, and each is
    stored when it is made. Seconds are kept where nothing else runs beside it."""

    world: World
    rows: Rows
    skip: Callable[[str], bool]
    store: Callable[[Rows], None]
    alone: bool
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    def make(self) -> None:
        """The rows of all three tables."""
        world = self.world
        self.rows["base"] = {"accuracy": world.accuracy, "wrong": int(world.wrong.sum()), "fitted": fitted(world),
                             "failures": len(world.sets["query"][1]) + len(world.sets["holdout"][1])}  # fmt: skip
        begun = None
        if world.large and any(self.wanted(f"repair: {name}") for name in REPAIRS):
            begun = timed(self.first_half)  # what a repair begins with, and is not searched for again
        treatments = {
            name: by for name, (by, _) in TREATING.items()
            if self.wanted(f"treat: {name}") and (by != "wrong" or world.wrong.any())
        }  # fmt: skip
        needed = {RANKED_BY[by] for by in treatments.values() if by in RANKED_BY}
        for name in IDENTIFYING:
            if name in needed:  # what a repair begins with has seen failures that judge treatments here
                self.identify(name)
            elif self.wanted(f"identify: {name}"):
                self.identify(name, begun if name == "default" else None)
        for name, by in treatments.items():
            if self.wanted(f"treat: {name}") and RANKED_BY.get(by, "random") in {*self.scores, "random"}:
                self.treat(name)
        for name in [name for name in REPAIRS if self.wanted(f"repair: {name}")]:
            self.repair(name, begun)

    def wanted(self, row: str) -> bool:
        return row not in self.rows and not self.skip(row)

    @property
    def batch_size(self) -> int:
        return 256 if self.world.large else 1024

    def seconds(self, taken: float) -> dict[str, float]:
        return {"seconds": taken} if self.alone else {}

    def identify(self, name: str, begun: tuple[Influence, float] | None = None) -> None:
        """A row of the first table, and scores for the second; `begun` are an influence and its seconds where they are
        known."""
        world, method = self.world, IDENTIFYING[name](self.world)
        try:
            influence, taken = begun or timed(
                lambda: identify(
                    world.net, world.train, world.sets["query"], world.sets["guard"], method=method,
                    batch_size=self.batch_size,
                )
            )  # fmt: skip
        except (NotConverged, OutOfMemory) as e:
            self.rows[f"identify: {name}"] = {"refused": str(e)}
            return
        weighed = influence.scores if name.startswith("default") else influence.raw * -influence.before
        self.scores.update({name: influence.scores, f"{name}, times loss": weighed})
        if not world.wrong.any():
            return
        row = {"AP": average_precision(influence.scores, world.wrong),
               "AUC": ranking_area(influence.scores, world.wrong),
               "P@100": precision_at(100, influence.scores, world.wrong),
               "AP × loss": average_precision(weighed, world.wrong), **self.seconds(taken)}  # fmt: skip
        if begun is None and influence.edited is not None and finite_edit(method):
            row |= world.accuracies(influence.train.network.module_with(influence.edited.mean, world.net))
        self.rows.setdefault(f"identify: {name}", row)
        self.store(self.rows)

    def treat(self, name: str) -> None:
        """A row of the second table."""
        world, (by, make) = self.world, TREATING[name]
        causes, method = CAUSES[by](world, self.scores, round(world.share * len(world.wrong))), make(world)
        taught = joined(world, "query", "guard") if name.endswith("right ones too") else world.sets["query"]
        with half(world):
            model, taken = timed(
                lambda: treat(
                    world.net, world.train, causes, failures=taught, remaining=world.sets["guard"], method=method,
                    batch_size=self.batch_size,
                )
            )  # fmt: skip
        self.rows[f"treat: {name}"] = {**world.accuracies(model), **self.seconds(taken)}
        self.store(self.rows)

    def repair(self, name: str, begun: tuple[Influence, float] | None) -> None:
        """A row of the third table, from what it begins with where that is known, with its seconds."""
        known, before = ({}, 0.0) if begun is None else ({"identify_with": begun[0].identified}, begun[1])
        options = {**self.to_repair(), "batch_size": self.batch_size, **known, **REPAIRS[name]}
        with half(self.world):
            result, taken = timed(lambda: amends.repair(self.world.net, self.world.train, **options))
        m = result.metrics
        self.rows[f"repair: {name}"] = {k: m[k]["after"] for k in ("query", "holdout", "remaining", "overall")} | {
            "removed": m["removed"], "repaired": float(m["verdict"] != "not repaired"),
            "of them wrong": float(self.world.wrong[result.removed].mean()) if m["removed"] else 0.0,
            "verdict": f"{m['verdict']}: {m['reason']}", "learned": m["learned"], **self.seconds(before + taken),
        }  # fmt: skip
        self.store(self.rows)

    def to_repair(self) -> dict[str, Any]:
        """What a user would give, split into halves of the sizes the other rows have."""
        failures, right_ones = joined(self.world, "query", "holdout"), joined(self.world, "guard", "remaining")
        share = len(self.world.sets["holdout"][1]) / len(failures[1])
        return {"failures": failures, "remaining": right_ones, "holdout": share}

    def first_half(self) -> Influence:
        """The influence a repair begins with: what judges stays unread."""
        asked = self.to_repair()
        given = prepare(
            self.world.net, None, None, self.batch_size, train=self.world.train, failures=asked["failures"],
            remaining=asked["remaining"],
        )  # fmt: skip
        with torch.no_grad():
            return Problem.of(given, Options(holdout=asked["holdout"])).search((), Progress()).influence


def joined(world: World, *names: str) -> tuple[torch.Tensor, ...]:
    return tuple(torch.cat(part) for part in zip(*(world.sets[k] for k in names), strict=True))


def half(world: World) -> Any:
    """bfloat16 where autocast allows, while weights are tuned; identifying does not take part in it."""
    on = world.large and world.train[0].is_cuda
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if on else nullcontext()


def finite_edit(method: Any) -> bool:
    return not isinstance(getattr(method, "editor", None), type(methods.grad_dot().editor))


def fitted(world: World) -> float:
    """The share of the wrong labels the model gives back."""
    if not world.wrong.any():
        return 0.0
    x, y = world.train
    with torch.no_grad():
        return float((outputs(world.net, x).argmax(1) == y).cpu().numpy()[world.wrong].mean())
