"""From a repair to its patch: short if the verdict stays the same, exact if it would not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from amends.algorithm.curve import CAUSES, LEARNED
from amends.algorithm.objective import Objective
from amends.algorithm.split import Split
from amends.algorithm.verdict import NOT
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import Params
from amends.patches.guards import Guards
from amends.patches.judged import Judge
from amends.patches.names import tensors, tied
from amends.patches.patch import Patch, State, between
from amends.patches.small import Small, by_name_in_files
from amends.patches.stack import ends_at, next_to, with_base
from amends.progress import Progress

REFUSED = "its report says why, and causes.csv ranks the examples for you to decide"
POINT = 0.01  # of accuracy: what a set to keep may lose by default


@dataclass(frozen=True, eq=False)
class Repaired:
    """A finished repair: the data under the model as it came, how it was split, the weights at the end, its metrics."""

    given: Mapping[str, Factor]
    split: Split
    after: Params
    metrics: Mapping[str, Any]
    floor: float | None = None
    least: Mapping[str, float | None] = field(default_factory=dict)  # sets to keep, and the accuracy each must have
    about: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)  # of its tensors, where it was computed in others

    def patch(self, exact: bool = False, progress: Progress | None = None) -> Patch:
        """The smallest patch with the same verdict; with `exact`, the one that gives the very weights, to the bit."""
        if exact or self.metrics["verdict"] == NOT:
            return self._exact
        small = self._small(progress or Progress())
        if small is None or self._as_long(small):
            return _with_reason(self._exact, "no smaller form answers like the repaired weights")
        judged = self.judge(self.weights_of(small))
        if judged["verdict"] != self.metrics["verdict"]:
            why = judged.get("why", "it fixes less")
            return _with_reason(self._exact, f"in a smaller form it would be {judged['verdict']}, since {why}")
        return replace(small, bases=(replace(small.bases[0], judged=judged), *small.bases[1:]))

    def beside(self, patch: Patch, other: Patch) -> tuple[Patch, dict[str, Any]]:
        """Judges the repair again on weights without the `other` patch, or with it: the patch, which may be put on
        those weights too if the verdict is the same, and a report with the other's name, `holds` and the figures."""
        state = self.before
        before = next_to(state, patch, other)
        after = {**before, **ends_at(patch, state, before)}
        start, end = (in_network(s, self.network) for s in (before, after))
        given = {name: replace(f, network=replace(f.network, params=start)) for name, f in self.given.items()}
        judged = replace(self, given=given).judge(end)
        report = {"name": other.about.get("name", ""), "holds": judged["verdict"] == self.metrics["verdict"], **judged}
        return (with_base(patch, before, after, judged) if report["holds"] else patch), report

    @cached_property
    def before(self) -> dict[str, Tensor]:
        """The tensors of the model as it came."""
        return _cpu(tensors(self.network.module), self.dtypes)

    @cached_property
    def _exact(self) -> Patch:
        return exact_patch(self.network, self.after, self.metrics, self.about, self.dtypes)

    def _as_long(self, small: Patch) -> bool:
        """Whether the exact form is no longer. It takes more than a byte for each weight that moved, so it is made only
        if the small form has at least as many bytes."""
        moved = sum(int((v != self.after[k].to(v)).sum()) for k, v in self.network.params.items())
        return small.size >= moved and small.size >= self._exact.size

    @property
    def network(self) -> Network:
        return self.given["train"].network

    @cached_property
    def judge(self) -> Judge:
        """Judges other weights on the data that judged the repair."""
        allowed = POINT if self.floor is None else float(self.floor)
        keep = {
            name: (self.given[name], self.metrics["keep"][name]["before"] - allowed if low is None else float(low))
            for name, low in self.least.items()
        }
        return Judge(self.split.sets(dict(self.given)), self.metrics, self.floor, keep)

    def weights_of(self, patch: Patch, where: State | None = None) -> Params:
        """The trainable parameters once the patch is on the model, or on other weights of it."""
        state = self.before if where is None else where
        return in_network({**state, **patch.put_on(state, "model")}, self.network)

    @property
    def shorter(self) -> Small:
        """The short forms, and what each costs on the examples that guarded the repair."""
        split, given = self.split, dict(self.given)
        sets, failures = split.sets(given), given["failures"]
        guards = Guards(
            failures[split.query], split.guarding(given), sets.share, self.after,
            not_by_heart(self.metrics, sets.asked),
            failures[split.unasked] if len(split.unasked) else None,
        )  # fmt: skip
        return Small(self.network.params, guards, given["train"], self.metrics.get("seed", 0))

    def _small(self, progress: Progress) -> Patch | None:
        network, moves = self.network, self.shorter(progress)
        if moves is None:
            return None
        names, before = by_name_in_files(network.module), self.before
        ends = {names[k]: v.cpu() for k, v in self.after.items() if not (k in moves and moves[k] is None)}
        after = _cpu({**before, **ends}, self.dtypes)
        patch = between(before, after, {names[k]: v for k, v in moves.items() if v is not None})
        return replace(patch, about=self.about)


def exact_patch(
    network: Network, after: Params, metrics: Mapping[str, Any], about: Mapping[str, Any],
    dtypes: Mapping[str, torch.dtype] | None = None,
) -> Patch:  # fmt: skip
    """The patch from the weights of a network to others, to the bit, in its dtypes or those named. BadInput where
    nothing was repaired."""
    if metrics["verdict"] == NOT:
        raise BadInput(f"there is no patch, since nothing was repaired; {about.get('name', 'repair')}; {REFUSED}")
    names, before = by_name_in_files(network.module), tensors(network.module)
    ends = {names[k]: v for k, v in after.items()}
    patch = between(_cpu(before, dtypes), _cpu({**before, **ends}, dtypes))
    return replace(patch, bases=(replace(patch.bases[0], judged=judged_by_run(metrics)),), about=about)


def not_by_heart(metrics: Mapping[str, Any], share: float) -> float:
    """The part of the gain on the guarding examples that was there before the repair learned from them: the rest may be
    known by heart, and nobody else would miss it. 1 where nothing was learned."""
    worth, gains = Objective(share).worth, {}
    for row in metrics.get("curve", ()):
        if row["removed"] == metrics["removed"]:
            guard = row.get("guard")
            gains[row["by"]] = worth(row["query"], guard) - worth(0.0, None if guard is None else 1.0)
    if not metrics.get("learned") or not gains.keys() >= {CAUSES, LEARNED} or gains[LEARNED] <= 0:
        return 1.0
    return min(max(gains[CAUSES] / gains[LEARNED], 0.0), 1.0)


def judged_by_run(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict and figures of the run, for a patch that gives exactly its weights."""
    figures = ("verdict", "holdout", "remaining", "overall", "fixed", "newly_broken", "p_value")
    return {name: metrics[name] for name in figures if metrics.get(name) is not None}


def in_network(state: State, network: Network) -> Params:
    """The trainable parameters among the tensors of a model's files."""
    names = by_name_in_files(network.module)
    return {k: state[names[k]].to(p) for k, p in network.params.items()}


def about_repair(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of a repair that its patch keeps."""
    names = ("verdict", "reason", "fixed", "newly_broken", "learned", "budget", "seed")
    return {name: metrics[name] for name in names if name in metrics} | {
        name: metrics[name] for name in ("query", "holdout", "remaining", "overall") if metrics.get(name)
    }


def _cpu(state: State, dtypes: Mapping[str, torch.dtype] | None = None) -> dict[str, Tensor]:
    """On the CPU, in other dtypes where these are named; tied tensors stay tied."""
    again, others = tied(state), dtypes or {}
    moved = {k: v.detach().to("cpu", others.get(k, v.dtype)) for k, v in state.items() if k not in again}
    return {name: moved[again.get(name, name)] for name in state}


def _with_reason(patch: Patch, why: str) -> Patch:
    return replace(patch, about={**patch.about, "exact": why})
