"""The sets a repair is measured on, and a model on them before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.evaluation.predicted import Predicted
from amends.evaluation.predictions import class_targets, given, labels, right
from amends.evaluation.statistics import (
    BeforeAfter,
    by_label,
    calibration,
    confusion,
    interval,
    interval_together,
    overall,
    paired_together,
)
from amends.evidence.factor import Factor
from amends.evidence.params import Params

MOST_CLASSES = 100  # a table of more is no longer read


@dataclass(frozen=True, eq=False)
class Sets:
    """Failures searched with (`query`) and judged with (`holdout`), those of `other_groups`, which are only shown, and
    the right examples that judge (`remaining`); with how many failures and right examples the user gave, and how many
    of these failures are of `others`, groups that are not repaired. `first` says of which example of its set each one
    is a copy, where there are copies."""

    query: Factor
    holdout: Factor
    other_groups: Factor
    remaining: Factor | None
    failures: int
    right_ones: int
    first: Mapping[str, np.ndarray] = field(default_factory=dict)
    others: int = 0

    @property
    def share(self) -> float:
        """Of the failures among all the user gave."""
        return self.failures / (self.failures + self.right_ones)

    @property
    def asked(self) -> float:
        """The share of the failures to repair among these and the right examples."""
        return (self.failures - self.others) / (self.failures - self.others + self.right_ones)

    @property
    def judged_on(self) -> str:
        """The name of the failures the verdict is about."""
        return "holdout" if len(self.holdout) else "query"

    @property
    def judging(self) -> Factor:
        """The failures the verdict is about."""
        return getattr(self, self.judged_on)

    @cached_property
    def before(self) -> dict[str, np.ndarray]:
        """What is right in each set with the weights the network came with, example by example."""
        return {name: one.right for name, one in self.start.items()}

    @cached_property
    def start(self) -> dict[str, Predicted]:
        """The predictions of the given model on each set."""
        return self.predicted(self.query.network.params)

    def predicted(self, theta: Params) -> dict[str, Predicted]:
        """The predictions of the model with weights θ on each set."""
        sets = {"query": self.query, "holdout": self.holdout, "other_groups": self.other_groups}
        sets |= {} if self.remaining is None else {"remaining": self.remaining}
        return {name: Predicted(data, theta) for name, data in sets.items()}

    def outcome(self, theta: Params) -> Outcome:
        return Outcome(self, theta)


HELD_OUT = ("failures", "remaining", "unnamed")  # all that was given beside train and the sets to keep


@dataclass(frozen=True, eq=False)
class Outcome:
    """The model with weights θ beside the model as it came. Each set is predicted once, when it is first asked for."""

    sets: Sets
    theta: Params

    @property
    def here(self) -> Params:
        """θ on the device of the network; the weights of a large model are kept on the CPU."""
        device = self.sets.query.network.device
        return {k: v.to(device) for k, v in self.theta.items()}

    @cached_property
    def query(self) -> BeforeAfter:
        return self._of("query")

    @cached_property
    def holdout(self) -> BeforeAfter:
        return self._of("holdout")

    @cached_property
    def other_groups(self) -> BeforeAfter:
        return self._of("other_groups")

    @cached_property
    def remaining(self) -> BeforeAfter | None:
        return None if self.sets.remaining is None else self._of("remaining")

    def evaluation(self, others: Sequence[Factor]) -> dict[str, Any]:
        """Everything held out that was given, whatever it was used for: the sets, and the `others`."""
        pairs = [pair for pair in (self.query, self.holdout, self.other_groups, self.remaining) if pair is not None]
        for data in others:
            before = right(data, data.network.params)
            pairs.append(BeforeAfter(before, before if self._unchanged else right(data, self.here)))
        return reduce(BeforeAfter.then, pairs).summary

    @property
    def _unchanged(self) -> bool:
        return self.theta is self.sets.query.network.params

    @cached_property
    def _predicted(self) -> dict[str, Predicted]:
        return self.sets.start if self._unchanged else self.sets.predicted(self.theta)

    def _of(self, name: str) -> BeforeAfter:
        return BeforeAfter(self.sets.before[name], self._predicted[name].right, self.sets.first.get(name))

    @property
    def judging(self) -> BeforeAfter:
        """The failures the verdict is about."""
        return getattr(self, self.sets.judged_on)

    @cached_property
    def failed(self) -> BeforeAfter:
        """All failures that were held out, those of other groups too."""
        return self.holdout.then(self.other_groups)

    @cached_property
    def overall(self) -> dict[str, Any]:
        """Failures and right examples in the proportion the user gave."""
        return overall(self._all_failed, self.remaining, self.sets.share)

    @property
    def _all_failed(self) -> BeforeAfter:
        return self.failed if len(self.failed) else self.query

    @property
    def summary(self) -> dict[str, Any]:
        """Accuracies before and after on every set, with its size."""
        pairs = {"query": self.query, "holdout": self.holdout, "remaining": self.remaining}
        accuracies = {name: None if pair is None else pair.summary for name, pair in pairs.items()}
        witnesses = {name: pair.witnesses for name, pair in pairs.items() if pair is not None}
        return {**accuracies, "overall": self.overall, "witnesses": witnesses}

    def metrics(self, seed: int) -> dict[str, Any]:
        """What metrics.json says of every set; `fixed_at` and `broken_at` are positions in holdout and remaining."""
        rest = self.remaining
        named = {"query": self.query, "holdout": self.holdout} | ({} if rest is None else {"remaining": rest})
        named = {name: pair for name, pair in named.items() if len(pair)}
        parts = [(1.0, self._all_failed)]
        if rest is not None and len(rest):
            parts = [(self.sets.share, self._all_failed), (1 - self.sets.share, rest)]
        whole = parts[0][1] if len(parts) == 1 else parts[0][1].then(parts[1][1])
        return {
            **self.summary,
            "fixed": self.holdout.fixed,
            "newly_broken": 0 if rest is None else rest.broken,
            "intervals": {name: interval(float(p.after.mean()), p.alone) for name, p in named.items()}
            | {"overall": interval_together(parts)},
            "changes": {name: paired_together([(1.0, p)], seed) for name, p in named.items()}
            | {"overall": paired_together(parts, seed)},
            "p_values": {name: p.p_value for name, p in named.items()} | {"overall": whole.p_value},
            "fixed_at": np.flatnonzero(~self.holdout.before & self.holdout.after).tolist(),
            "broken_at": [] if rest is None else np.flatnonzero(rest.before & ~rest.after).tolist(),
        }

    @cached_property
    def _with_classes(self) -> list[str]:
        """What was judged, holdout and remaining, where its targets are classes; else nothing."""
        sets = {n: self._predicted[n].data for n in ("holdout", "other_groups", "remaining") if n in self._predicted}
        judged = {name: data for name, data in sets.items() if len(data)}
        return list(judged) if all(map(class_targets, judged.values())) else []

    def classes(self) -> dict[str, dict[str, Any]]:
        """Every class of what was judged, holdout and remaining together; nothing where there are none."""
        if not self._with_classes:
            return {}
        names = np.concatenate([labels(self._predicted[name].data) for name in self._with_classes])
        return by_label(names, reduce(BeforeAfter.then, (getattr(self, name) for name in self._with_classes)))

    def confusion(self) -> dict[str, Any]:
        """Of what was judged, rows true and columns predicted; nothing where there are no classes or too many."""
        if not self._with_classes:
            return {}
        sides = [[side[name] for name in self._with_classes] for side in (self.sets.start, self._predicted)]
        first = sides[0][0].data
        count, names = first[:1].outputs(first.network.params).shape[-1], list(first.examples.classes)
        if not 0 < count <= MOST_CLASSES:
            return {}
        true = np.concatenate([given(one.data) for one in sides[0]])
        before, after = (
            confusion(true, np.concatenate([one.classes for one in side]), count).tolist() for side in sides
        )
        shown = names if len(names) == count else [str(k) for k in range(count)]
        return {"confusion": {"classes": shown, "before": before, "after": after}}

    def calibration(self) -> dict[str, Any] | None:
        """Before and after, with failures and right examples in the proportion the user gave."""
        s = self.sets
        failed = s.holdout + s.other_groups if len(s.other_groups) else s.holdout
        if s.remaining is None or not all(len(data) and class_targets(data) for data in (failed, s.remaining)):
            return None
        mixed = (s.failures / len(failed)) * failed + (s.right_ones / len(s.remaining)) * s.remaining
        before, after = (calibration(mixed, self._outputs(mixed, side)) for side in (s.start, self._predicted))
        return None if before is None else {"before": before, "after": after}

    def _outputs(self, mixed: Factor, side: Mapping[str, Predicted]) -> Tensor:
        """For all that was judged; anew where an example is in two of the sets, and in `mixed` once."""
        known = torch.cat([side[name].outputs for name in self._with_classes])
        return known if len(known) == len(mixed) else mixed.outputs(side["holdout"].here)
