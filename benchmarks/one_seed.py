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
    """One seed of a setting. Rows that exist already are not computed again, those for which `skip` is true are left
    out, and each is stored once it is computed. Seconds are kept only if nothing else runs at the same time
    (`alone`)."""

    world: World
    rows: Rows
    skip: Callable[[str], bool]
    store: Callable[[Rows], None]
    alone: bool
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    def make(self) -> None:
        """Compute the rows of all three tables."""
        world = self.world
        self.rows["base"] = {"accuracy": world.accuracy, "wrong": int(world.wrong.sum()), "fitted": fitted(world),
                             "failures": len(world.sets["query"][1]) + len(world.sets["holdout"][1])}  # fmt: skip
        first = None
        if world.large and any(self.wanted(f"repair: {name}") for name in REPAIRS):
            first = timed(self.first_half)  # the first half of every repair, computed once
        treatments = {
            name: ranked_by for name, (ranked_by, _) in TREATING.items()
            if self.wanted(f"treat: {name}") and (ranked_by != "wrong" or world.wrong.any())
        }  # fmt: skip
        needed = {RANKED_BY[ranked_by] for ranked_by in treatments.values() if ranked_by in RANKED_BY}
        for name in IDENTIFYING:
            if name in needed:  # the first half of a repair has seen failures that judge treatments here
                self.identify(name)
            elif self.wanted(f"identify: {name}"):
                self.identify(name, first if name == "default" else None)
        for name, ranked_by in treatments.items():
            if self.wanted(f"treat: {name}") and RANKED_BY.get(ranked_by, "random") in {*self.scores, "random"}:
                self.treat(name)
        for name in [name for name in REPAIRS if self.wanted(f"repair: {name}")]:
            self.repair(name, first)

    def wanted(self, row: str) -> bool:
        return row not in self.rows and not self.skip(row)

    @property
    def batch_size(self) -> int:
        return 256 if self.world.large else 1024

    def seconds(self, taken: float) -> dict[str, float]:
        return {"seconds": taken} if self.alone else {}

    def identify(self, name: str, begun: tuple[Influence, float] | None = None) -> None:
        """A row of the first table, and scores for the second. `begun` holds an influence and its seconds if they are
        known already."""
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
        world, (ranked_by, make) = self.world, TREATING[name]
        causes, method = CAUSES[ranked_by](world, self.scores, round(world.share * len(world.wrong))), make(world)
        shown = joined(world, "query", "guard") if name.endswith("right ones too") else world.sets["query"]
        with half(world):
            model, taken = timed(
                lambda: treat(
                    world.net, world.train, causes, failures=shown, remaining=world.sets["guard"], method=method,
                    batch_size=self.batch_size,
                )
            )  # fmt: skip
        self.rows[f"treat: {name}"] = {**world.accuracies(model), **self.seconds(taken)}
        self.store(self.rows)

    def repair(self, name: str, begun: tuple[Influence, float] | None) -> None:
        """A row of the third table. If the first half of the repair is known, it is used, and its seconds are added."""
        known_influence, seconds_before = (
            ({}, 0.0) if begun is None else ({"identify_with": begun[0].identified}, begun[1])
        )
        options = {**self.to_repair(), "batch_size": self.batch_size, **known_influence, **REPAIRS[name]}
        with half(self.world):
            result, taken = timed(lambda: amends.repair(self.world.net, self.world.train, **options))
        m = result.metrics
        self.rows[f"repair: {name}"] = {k: m[k]["after"] for k in ("query", "holdout", "remaining", "overall")} | {
            "removed": m["removed"], "repaired": float(m["verdict"] != "not repaired"),
            "of them wrong": float(self.world.wrong[result.removed].mean()) if m["removed"] else 0.0,
            "verdict": f"{m['verdict']}: {m['reason']}", "learned": m["learned"],
            **self.seconds(seconds_before + taken),
        }  # fmt: skip
        self.store(self.rows)

    def to_repair(self) -> dict[str, Any]:
        """The options of a repair as a user would give them; the halves have the same sizes as in the other rows."""
        failures, right_ones = joined(self.world, "query", "holdout"), joined(self.world, "guard", "remaining")
        share = len(self.world.sets["holdout"][1]) / len(failures[1])
        return {"failures": failures, "remaining": right_ones, "holdout": share}

    def first_half(self) -> Influence:
        """The influence a repair begins with. The failures that judge stay unread."""
        options = self.to_repair()
        sets = prepare(
            self.world.net, None, None, self.batch_size, train=self.world.train, failures=options["failures"],
            remaining=options["remaining"],
        )  # fmt: skip
        with torch.no_grad():
            return Problem.of(sets, Options(holdout=options["holdout"])).search((), Progress()).influence


def joined(world: World, *names: str) -> tuple[torch.Tensor, ...]:
    return tuple(torch.cat(part) for part in zip(*(world.sets[k] for k in names), strict=True))


def half(world: World) -> Any:
    """A context: bfloat16 where autocast allows it, while weights are tuned. Identifying always runs without it."""
    on = world.large and world.train[0].is_cuda
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if on else nullcontext()


def finite_edit(method: Any) -> bool:
    return not isinstance(getattr(method, "editor", None), type(methods.grad_dot().editor))


def fitted(world: World) -> float:
    """The share of wrong labels that the model predicts."""
    if not world.wrong.any():
        return 0.0
    x, y = world.train
    with torch.no_grad():
        return float((outputs(world.net, x).argmax(1) == y).cpu().numpy()[world.wrong].mean())
