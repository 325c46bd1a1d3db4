"""Whether model and data belong together, looked at before anything is computed: the model as it was handed in, forward
alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from amends.algorithm.belong import (
    LEAST,
    differently_prepared,
    logits,
    of_evaluation,
    of_train,
    readings,
    right_share,
    some_of,
)
from amends.algorithm.sets import HELD_OUT
from amends.algorithm.split import Split
from amends.errors import BadInput, many
from amends.evaluation.agreement import ERRORS
from amends.evaluation.predictions import class_targets
from amends.evidence.factor import Factor
from amends.nearness.copies import shared
from amends.settings import JUDGING

ANYWAY = "or go on with anyway=True, --anyway on the command line"
PROVABLE = ceil(log2(1 / JUDGING.chance))  # a repair must fix so many beyond a control, and lose none, to pass the test


@dataclass(frozen=True)
class Setup:
    """The share of train and of the evaluation set that is right, of how many that were looked at; what looks
    broken (`alarms`), and what a person should know before anything is computed (`notes`)."""

    right: Mapping[str, dict[str, Any]]
    alarms: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The accuracies in one line."""
        rows = (
            f"{row['right']:.1%} of {'the evaluation set' if name == 'evaluation' else name}"
            + ("" if row["n"] == row["of"] else f" ({row['n']:,} of {row['of']:,} looked at)")
            for name, row in self.right.items()
        )
        return f"the model is right for {' and '.join(rows)}"

    def check(self, anyway: bool) -> Setup:
        """BadInput where something looks broken, unless the user goes on anyway."""
        if self.alarms and not anyway:
            raise BadInput(f"{self.alarms[0]}, {ANYWAY}")
        return self


def setup_of(sets: Mapping[str, Factor], split: Split, learning: bool | None, outweighed: bool, whole: bool) -> Setup:
    """`outweighed` says that the failures are too many to be learned unless the user insists, and `whole` that the held
    out sets are all of one evaluation set, so that their accuracy is the model's own."""
    train = some_of(sets["train"])
    held = {name: some_of(sets[name]) for name in HELD_OUT if name in sets}
    counts = {name: len(sets[name]) for name in held}
    shares = {name: right_share(data) for name, data in held.items()}
    outputs = logits(train)
    alone = right_share(train, outputs)
    seen, total = sum(len(data) for data in held.values()), sum(counts.values())
    rows = {
        "train": {"right": alone, "n": len(train), "of": len(sets["train"])},
        "evaluation": {"right": sum(counts[n] * shares[n] for n in held) / total, "n": seen, "of": total},
    }
    leaked = int(shared(sets["failures"], sets["train"]).sum())
    alarms = [*_names(train), *_learned(leaked, counts["failures"]), *of_train(train, outputs)]
    alarms += _not_remaining(held, sets["failures"])
    if whole and not alarms:
        alarms += of_evaluation(held, counts)
    notes = [
        *train.network.notes,
        *([] if alarms else readings(train, outputs)),
        *differently_prepared(train, held),
        *_less_of_train(rows),
        *_some_learned(leaked, counts["failures"]),
        *_shown(split),
        *_to_be_learned(split, learning, outweighed, len(sets["train"])),
    ]
    return Setup(rows, tuple(alarms), tuple(notes))


def _less_of_train(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A model knows what it was trained on at least as well as the rest."""
    (a, n), (b, m) = ((row["right"], row["n"]) for row in rows.values())
    error = (a * (1 - a) / n + b * (1 - b) / m) ** 0.5
    if min(n, m) >= LEAST and b - a > ERRORS * error:
        yield (
            f"the model is right for {a:.1%} of train and {b:.1%} of the evaluation set: train has wrong labels that "
            "the model did not learn, or the two are swapped"
        )


def _names(train: Factor) -> Iterator[str]:
    names = len(train.examples.classes)
    if not names or not class_targets(train):
        return
    outputs = train[:1].outputs(train.network.params).shape[-1]
    if names > outputs:
        yield (
            f"there are {names} names of classes, but the model has {outputs} outputs; classes; "
            "give one name for each output, in their order"
        )


def _learned(leaked: int, failures: int) -> Iterator[str]:
    if leaked > failures / 2:
        yield (
            f"{leaked:,} of the {many(failures, 'failure')} are training examples, label and all; failures; "
            "give held-out examples that the model did not learn from"
        )


def _not_remaining(held: Mapping[str, Factor], failures: Factor) -> Iterator[str]:
    """What fails cannot be what should stay right."""
    both = int(shared(held["remaining"], failures).sum()) if "remaining" in held else 0
    if both and both > len(held["remaining"]) / 2:
        yield (
            f"{both:,} of the {many(len(held['remaining']), 'example')} of remaining are failures too; remaining; "
            "give held-out examples that the model gets right"
        )


def _some_learned(leaked: int, failures: int) -> Iterator[str]:
    if leaked:
        are = many(leaked, "is a training example", "are training examples")
        yield f"of the {many(failures, 'failure')} {are}, label and all; what was learned from cannot judge"


def _shown(split: Split) -> Iterator[str]:
    """What can be shown with so few failures."""
    number = len(np.unique(split.failures_first[split.holdout]))
    judge = many(number, "failure judges", "failures judge")
    if 0 < number < PROVABLE:
        yield (
            f"only {judge}, and fewer than {PROVABLE} cannot show a repair by themselves; "
            f"give {2 * JUDGING.enough_failures} failures or more"
        )
    elif 0 < number < JUDGING.enough_failures:
        yield (
            f"only {judge}: by themselves they show a repair only if it fixes {PROVABLE} more than its controls do; "
            f"give {2 * JUDGING.enough_failures} failures or more"
        )


def _to_be_learned(split: Split, learning: bool | None, outweighed: bool, train: int) -> Iterator[str]:
    if learning is False:
        return
    q, g = len(split.query), len(split.guard)
    if outweighed:
        yield (
            f"failures are not learned from: {many(q, 'failure')}, which count twice, would outweigh "
            f"{many(train, 'training example')} and {many(g, 'right example')}; give more right examples, or learn=True"
        )
        return
    beside = f" and {many(g, 'right example')}" if g else ""
    yield (
        f"{many(q, 'failure')}{beside} {'will' if learning else 'may'} be learned from: do not test the repaired "
        "model on them again (failures.csv marks the failures); "
        "learn=False, --no-learn on the command line, only forgets"
    )
