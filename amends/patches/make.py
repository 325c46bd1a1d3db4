"""From a repair to its patch: short where the verdict stands, to the bit where it would not."""

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
POINT = 0.01  # of accuracy: what a set to keep may lose where nobody says otherwise


@dataclass(frozen=True, eq=False)
class Repaired:
    """A repair that has ended: evidence under the model as it came, how it was split, the weights it ended with, and
    what it says of itself."""

    given: Mapping[str, Factor]
    split: Split
    after: Params
    metrics: Mapping[str, Any]
    floor: float | None = None
    least: Mapping[str, float | None] = field(default_factory=dict)  # sets to keep, and what each must end with
    about: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)  # of its tensors, where it was computed in others

    def patch(self, exact: bool = False, progress: Progress | None = None) -> Patch:
        """As small as it can be while the verdict stands; with `exact`, to the repaired weights to the bit."""
        if exact or self.metrics["verdict"] == NOT:
            return self._exact
        small = self._small(progress or Progress())
        if small is None or self._as_long(small):
            return _told(self._exact, "no smaller form answers like the repaired weights")
        judged = self.judge(self.weights_of(small))
        if judged["verdict"] != self.metrics["verdict"]:
            why = judged.get("why", "it fixes less")
            return _told(self._exact, f"in a smaller form it would be {judged['verdict']}, since {why}")
        return replace(small, bases=(replace(small.bases[0], judged=judged), *small.bases[1:]))

    def beside(self, patch: Patch, other: Patch) -> tuple[Patch, dict[str, Any]]:
        """Whether the repair holds without another patch below it, or with it there: judged again with these weights
        in the place of the model as it came. Where its verdict stands, the patch may be put on them as well."""
        state = self.before
        before = next_to(state, patch, other)
        after = {**before, **ends_at(patch, state, before)}
        start, end = (in_network(s, self.network) for s in (before, after))
        given = {name: replace(f, network=replace(f.network, params=start)) for name, f in self.given.items()}
        judged = replace(self, given=given).judge(end)
        told = {"name": other.about.get("name", ""), "holds": judged["verdict"] == self.metrics["verdict"], **judged}
        return (with_base(patch, before, after, judged) if told["holds"] else patch), told

    @cached_property
    def before(self) -> dict[str, Tensor]:
        """The tensors of the model as it came."""
        return _cpu(tensors(self.network.module), self.dtypes)

    @cached_property
    def _exact(self) -> Patch:
        return exact_patch(self.network, self.after, self.metrics, self.about, self.dtypes)

    def _as_long(self, small: Patch) -> bool:
        """As the exact form, which takes more than a byte for each weight that moved and so need not be made to see
        that one of fewer bytes is shorter."""
        moved = sum(int((v != self.after[k].to(v)).sum()) for k, v in self.network.params.items())
        return small.size >= moved and small.size >= self._exact.size

    @property
    def network(self) -> Network:
        return self.given["train"].network

    @cached_property
    def judge(self) -> Judge:
        """Of what judged the repair."""
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
        """The short forms there are, and what each of them costs by what guarded the repair."""
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
        made = between(before, after, {names[k]: v for k, v in moves.items() if v is not None})
        return replace(made, about=self.about)


def exact_patch(
    network: Network, after: Params, metrics: Mapping[str, Any], about: Mapping[str, Any],
    dtypes: Mapping[str, torch.dtype] | None = None,
) -> Patch:  # fmt: skip
    """From the weights of a network to others, to the bit, in its dtypes or in those that are named. BadInput where
    nothing was repaired."""
    if metrics["verdict"] == NOT:
        raise BadInput(f"there is no patch, since nothing was repaired; {about.get('name', 'repair')}; {REFUSED}")
    names, before = by_name_in_files(network.module), tensors(network.module)
    ends = {names[k]: v for k, v in after.items()}
    made = between(_cpu(before, dtypes), _cpu({**before, **ends}, dtypes))
    return replace(made, bases=(replace(made.bases[0], judged=judged_by_run(metrics)),), about=about)


def not_by_heart(metrics: Mapping[str, Any], share: float) -> float:
    """Of what a repair gained on what guards it, the part that it had gained before it learned from that as well: the
    rest may be known by heart, and nobody else would miss it. All of it where nothing of it was learned."""
    worth, gains = Objective(share).worth, {}
    for row in metrics.get("curve", ()):
        if row["removed"] == metrics["removed"]:
            guard = row.get("guard")
            gains[row["by"]] = worth(row["query"], guard) - worth(0.0, None if guard is None else 1.0)
    if not metrics.get("learned") or not gains.keys() >= {CAUSES, LEARNED} or gains[LEARNED] <= 0:
        return 1.0
    return min(max(gains[CAUSES] / gains[LEARNED], 0.0), 1.0)


def judged_by_run(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What came of the repair, for a patch that leads to its very weights."""
    figures = ("verdict", "holdout", "remaining", "overall", "fixed", "newly_broken", "p_value")
    return {name: metrics[name] for name in figures if metrics.get(name) is not None}


def in_network(state: State, network: Network) -> Params:
    """The trainable parameters among the tensors of a model's files."""
    names = by_name_in_files(network.module)
    return {k: state[names[k]].to(p) for k, p in network.params.items()}


def about_repair(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What a patch says of the repair it holds."""
    names = ("verdict", "reason", "fixed", "newly_broken", "learned", "budget", "seed")
    return {name: metrics[name] for name in names if name in metrics} | {
        name: metrics[name] for name in ("query", "holdout", "remaining", "overall") if metrics.get(name)
    }


def _cpu(state: State, dtypes: Mapping[str, torch.dtype] | None = None) -> dict[str, Tensor]:
    """On the processor, in other dtypes where these are named; names of one tensor stay names of one."""
    again, others = tied(state), dtypes or {}
    moved = {k: v.detach().to("cpu", others.get(k, v.dtype)) for k, v in state.items() if k not in again}
    return {name: moved[again.get(name, name)] for name in state}


def _told(patch: Patch, why: str) -> Patch:
    return replace(patch, about={**patch.about, "exact": why})
