"""A repair in two halves: identified first, gone on with later; and causes a person picked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends.algorithm.identify import Identified
from amends.algorithm.options import Options
from amends.algorithm.problem import Problem
from amends.errors import BadInput
from amends.evidence.prepare import prepare
from amends.progress import Progress

QUICK = amends.methods.fine_tune(epochs=2)


def first_half(model, train, failures, remaining, **options):
    """The search a repair begins with."""
    given = prepare(model, None, None, 256, train=train, failures=failures, remaining=remaining)
    with torch.no_grad():
        return Problem.of(given, Options(**options)).search((), Progress())


def test_going_on_from_a_search_is_the_whole_repair(planted):
    model, train, failures, remaining, _ = planted
    whole = amends.repair(model, train, failures, remaining, treat_with=QUICK, seed=3)
    search = first_half(model, train, failures, remaining, seed=3)
    after = amends.repair(
        model, train, failures, remaining, identify_with=search.influence.identified, treat_with=QUICK, seed=3
    )
    assert after.metrics == whole.metrics
    assert after.causes.equals(whole.causes)
    assert np.array_equal(search.part.query, whole.query_positions)


def test_a_search_shows_all_of_train_and_positions_in_the_given_failures(planted):
    model, train, failures, remaining, _ = planted
    search = first_half(model, train, failures, remaining)
    frame = search.frame()
    assert sorted(frame["index"]) == list(range(len(train[1])))
    assert {j for row in frame["conflicts_with"] for j in row} <= set(search.part.query.tolist())


def test_scores_of_other_data_are_refused(planted):
    model, train, failures, remaining, _ = planted
    short = np.zeros(3)
    with pytest.raises(BadInput, match="scores of 3 examples"):
        amends.repair(model, train, failures, remaining, identify_with=Identified(short, short, short))


def test_what_a_person_picked_is_removed_and_nothing_else(planted):
    model, train, failures, remaining, wrong = planted
    picked = np.flatnonzero(wrong)[:-1]
    noise = np.random.default_rng(0).random(len(wrong))
    results = [
        amends.repair(
            model, train, failures, remaining, identify_with=noise, remove=given, learn=False,
            treat_with=amends.methods.fine_tune(epochs=10),
        ) for given in (picked, np.isin(np.arange(len(wrong)), picked))
    ]  # fmt: skip
    for made in results:
        assert made.verdict != "not repaired"
        assert sorted(made.removed) == picked.tolist()
        assert made.causes["score"].is_monotonic_decreasing
    assert results[0].metrics == results[1].metrics
