"""Warnings about a repair, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from amends.algorithm.curve import NOTHING
from amends.algorithm.split import Split
from amends.errors import many
from amends.evaluation.predictions import class_targets, right
from amends.evaluation.words import judged_on
from amends.evidence.factor import Factor
from amends.methods.library.scores import Given
from amends.nearness.copies import shared
from amends.settings import JUDGING


def warnings_of(
    split: Split, given: Mapping[str, Factor], metrics: Mapping[str, Any], suspects: np.ndarray, identify_with: Any
) -> list[str]:
    """All warnings, the most important first."""
    return [
        *_not_failures(split, given), *_wrong_before(given, metrics), *_learned(given), *_copied(split),
        *_no_holdout(metrics), *_too_few(metrics),
        *suspect_labels(suspects, split, given["failures"]), *_found_elsewhere(identify_with),
    ]  # fmt: skip


def risks(allowed: Sequence[str]) -> list[str]:
    """Warnings about what was run because the user allowed it."""
    lines = {
        "trust": "code that a run made elsewhere names was run; --trust; look at its run.toml and at the code",
        "unsafe_pickle": "the weights were unpickled, which runs any code in them; --unsafe-pickle; "
        "save them as safetensors",
    }
    return [lines[name] for name in allowed if name in lines]


def _found_elsewhere(identify_with: Any) -> list[str]:
    """A warning about scores that were handed over: nothing says which failures they were found with."""
    if not (isinstance(identify_with, list | Given) or hasattr(identify_with, "__array__")):
        return []
    return [
        "the scores were made elsewhere; identify_with; if failures given here were used for them, the verdict may be "
        "too good; give other failures"
    ]


def anyway_fixed(controls: Mapping[str, Mapping[str, Any]], on: str) -> list[str]:
    """For the verdict: a sentence if training on fixes most failures with nothing removed; else nothing."""
    share = controls.get(NOTHING, {}).get(on) or 0.0
    if share < JUDGING.mostly:
        return []
    return [
        f"with nothing removed the same treatment fixes {share:.0%} of the failures, a sign that training was not "
        "finished, or that inputs are prepared in another way than in training"
    ]


def _wrong_before(given: Mapping[str, Factor], metrics: Mapping[str, Any]) -> Iterator[str]:
    """For classes only: a sequence or a number is seldom right to the last digit."""
    row = metrics.get("remaining")
    if not row or not class_targets(given["train"]):
        return
    wrong = round((1 - row["before"]) * row["n"])
    if wrong:
        judging = f"{wrong:,} of the {many(row['n'], 'example')} of remaining that judge"
        yield f"the model got {judging} wrong before the repair; give only examples that it gets right"


def _not_failures(split: Split, given: Mapping[str, Factor]) -> Iterator[str]:
    known, n = len(split.already), len(split.group)
    if known:
        right_ones = f"{known:,} of the {many(n, 'failure')}"
        yield f"the model already gets {right_ones} right: they do not search and do not count as fixed; drop them"
    others = int((~right(given["unnamed"], given["unnamed"].network.params)).sum()) if "unnamed" in given else 0
    if others:
        yield (
            f"the model gets {many(others, 'more example')} of the evaluation set wrong that no failure names; "
            "only the row evaluation counts them"
        )


def _learned(given: Mapping[str, Factor]) -> Iterator[str]:
    """A warning if the model was trained on most of the right examples: it knows them by heart, wrong labels too."""
    rest = given.get("remaining")
    known = 0 if rest is None else int(shared(rest, given["train"]).sum())
    if rest is not None and known > len(rest) / 2:
        yield (
            f"{known:,} of the {many(len(rest), 'right example')} are training examples, label and all; remaining; "
            "give held-out examples that the model did not learn from"
        )


def _copied(split: Split) -> Iterator[str]:
    at = np.concatenate([split.query, split.holdout])
    copies = len(at) - len(np.unique(split.failures_first[at]))
    if copies:
        are = many(copies, "is a copy", "are copies")
        yield (
            f"of the {len(at)} failures, {are} or near copies of others, and copies count once in tests and intervals; "
            "give other failures"
        )


def _no_holdout(metrics: Mapping[str, Any]) -> Iterator[str]:
    if judged_on(metrics) == "query":
        judge = many(metrics["query"]["n"], "failure that judges was", "failures that judge were")
        yield f"the {judge} searched with, so they do not prove a repair; holdout; hold some out"


def _too_few(metrics: Mapping[str, Any]) -> Iterator[str]:
    for name, what in ((judged_on(metrics), "failure"), ("remaining", "right example")):
        number = metrics["witnesses"].get(name, JUDGING.enough_failures)
        if number < JUDGING.enough_failures:
            judge = many(number, f"{what} judges", f"{what}s judge")
            yield f"only {judge} the repair, too few to be sure; give {2 * JUDGING.enough_failures} or more"


def suspect_labels(suspects: np.ndarray, split: Split, failed: Factor, where: str = "metrics['suspects']") -> list[str]:
    """A warning where failures searched with seem to have a wrong label themselves; `where` lists them."""
    if not len(suspects):
        return []
    names = failed.examples.names()
    known = "" if names is None else f" ({names[suspects[0]]})"
    seem = many(len(suspects), "seems", "seem")
    return [
        f"of the {many(len(split.query), 'failure')} searched with, {seem} to have a wrong label, "
        f"such as failures[{suspects[0]}]{known}; {where} lists them; correct or drop them, and look at the others too"
    ]
