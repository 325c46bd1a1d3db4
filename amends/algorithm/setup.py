"""Whether model and data belong together, looked at before anything is computed: the model as it was handed in, forward
alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from amends.algorithm.sets import HELD_OUT
from amends.algorithm.split import Split
from amends.algorithm.verdict import CHANCE, TELLING
from amends.data.splits import halves, some
from amends.errors import BadInput, many
from amends.evaluation.agreement import better_order, beyond_guessing, far_better, fitted_anew, near_chance
from amends.evaluation.predictions import class_targets, given, predicted, right
from amends.evidence.factor import Factor
from amends.nearness.copies import shared
from amends.nearness.neighbours import features

LOOKED_AT = 1000  # examples of a set, drawn at random where it has more
LEAST = 30  # examples below which no test of a setup is worth making
NAMED = 6  # outputs that a message names
ANYWAY = "or go on with anyway=True, --anyway on the command line"
PROVABLE = ceil(log2(1 / CHANCE))  # failures fixed beyond a control, none lost, that luck alone does not fix


@dataclass(frozen=True)
class Setup:
    """The share of train and of the evaluation set that is right, of how many that were looked at; what looks
    broken (`alarms`), and what a person should know before anything is computed (`notes`)."""

    right: Mapping[str, dict[str, Any]]
    alarms: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def told(self) -> str:
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


def setup_of(sets: Mapping[str, Factor], split: Split, learning: bool | None, whole: bool) -> Setup:
    """`whole` says that what is held out is all of one evaluation set, so that its accuracy is the model's own."""
    train = _some(sets["train"])
    held = {name: _some(sets[name]) for name in HELD_OUT if name in sets}
    counts = {name: len(sets[name]) for name in held}
    shares = {name: float(right(data, data.network.params).mean()) for name, data in held.items()}
    alone = float(right(train, train.network.params).mean())
    seen, total = sum(len(data) for data in held.values()), sum(counts.values())
    rows = {
        "train": {"right": alone, "n": len(train), "of": len(sets["train"])},
        "evaluation": {"right": sum(counts[n] * shares[n] for n in held) / total, "n": seen, "of": total},
    }
    leaked = int(shared(sets["failures"], sets["train"]).sum())
    alarms = [*_names(train), *_learned(leaked, counts["failures"]), *_of_train(train)]
    if whole and not alarms:
        alarms += _of_evaluation(held, counts)
    notes = [
        *train.network.told,
        *_some_learned(leaked, counts["failures"]),
        *_shown(split),
        *_to_be_learned(split, learning),
    ]
    return Setup(rows, tuple(alarms), tuple(notes))


def _some(data: Factor) -> Factor:
    return data[some(np.arange(len(data)), LOOKED_AT, 0)]


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


def _some_learned(leaked: int, failures: int) -> Iterator[str]:
    if leaked:
        are = many(leaked, "is a training example", "are training examples")
        yield f"of the {many(failures, 'failure')} {are}, label and all; what was learned from cannot judge"


def _of_train(train: Factor) -> Iterator[str]:
    """Of the questions below the first that has an answer: they have one cause."""
    if not class_targets(train) or len(train) < LEAST:
        return
    y, said = given(train), predicted(train, train.network.params)
    yield from _order(train, y, said, "train")
    if better_order(y, said, _halves(y)) is not None:
        return
    anew = fitted_anew(features(train, train.network.params).cpu().numpy(), y, _halves(y))
    if far_better(y, said, anew):
        yield (
            f"the model is right for {(said == y).mean():.1%} of train, and a last layer fitted anew to what it sees "
            f"would be for {(anew == y).mean():.1%}: a model that was trained on this data knows more of it; model; "
            "check its weights, how inputs are prepared (mean, std, size) and the order of classes"
        )
    elif near_chance(y, said):
        yield _guessing(y, said, "train")


def _of_evaluation(held: Mapping[str, Factor], many: Mapping[str, int]) -> Iterator[str]:
    """The same two questions, with failures and right examples in the proportion they have."""
    if not all(class_targets(data) for data in held.values()):
        return
    share = min(len(data) / many[name] for name, data in held.items())
    parts = [data[: max(1, round(share * many[name]))] for name, data in held.items()]
    y = np.concatenate([given(data) for data in parts])
    said = np.concatenate([predicted(data, data.network.params) for data in parts])
    if len(y) < LEAST:
        return
    found = list(_order(parts[0], y, said, "evaluation"))
    yield from found
    if not found and near_chance(y, said):
        yield _guessing(y, said, "evaluation")


def _order(data: Factor, y: np.ndarray, said: np.ndarray, name: str) -> Iterator[str]:
    order = better_order(y, said, _halves(y))
    if order is None:
        return
    names = data.examples.classes
    called = [str(k) if k >= len(names) else names[k] for k in range(len(order))]
    moved = [f"output {k} as {called[c]}" for k, c in enumerate(order) if k != c]
    more = f" and {len(moved) - NAMED} more" if len(moved) > NAMED else ""
    yield (
        f"classes and outputs of the model seem to be in another order: the model is right for "
        f"{(said == y).mean():.1%} of {name}, and with {', '.join(moved[:NAMED])}{more} for "
        f"{(order[said] == y).mean():.1%}; classes; give them in the order of the outputs"
    )


def _guessing(y: np.ndarray, said: np.ndarray, name: str) -> str:
    blind = beyond_guessing(y, said)[2]
    return (
        f"the model is right for {(said == y).mean():.1%} of {name}, and guessing would be for {blind:.1%}; {name}; "
        "check that weights, inputs and labels belong together"
    )


def _halves(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return halves(y, 0)


def _shown(split: Split) -> Iterator[str]:
    """What can be shown with so few failures."""
    number = len(np.unique(split.failures_first[split.holdout]))
    judge = many(number, "failure judges", "failures judge")
    if 0 < number < PROVABLE:
        yield (
            f"{judge}, and fewer than {PROVABLE} cannot show a repair: it will end in “cannot tell”; "
            f"give {2 * TELLING} failures or more"
        )
    elif 0 < number < TELLING:
        yield (
            f"{judge}: a repair is shown only if it fixes {PROVABLE} of them beyond its controls and breaks nothing; "
            f"give {2 * TELLING} failures or more"
        )


def _to_be_learned(split: Split, learning: bool | None) -> Iterator[str]:
    if learning is False:
        return
    q, g = len(split.query), len(split.guard)
    beside = f" and {many(g, 'right example')}" if g else ""
    yield (
        f"{many(q, 'failure')}{beside} {'will' if learning else 'may'} be learned from: do not test the repaired "
        "model on them again (failures.csv marks the failures); "
        "learn=False, --no-learn on the command line, only forgets"
    )
