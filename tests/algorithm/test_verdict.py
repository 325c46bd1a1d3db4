"""The verdict in words, rule by rule, on numbers made up for it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

from amends.algorithm.curve import CAUSES, NOTHING, RANDOM, CurvePoint, Fit, Limits, with_outcomes
from amends.algorithm.objective import Objective
from amends.algorithm.sets import Sets
from amends.algorithm.verdict import NOT, PARTLY, REPAIRED, Against, verdict_of
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor


class Pair(Against):
    """A comparison whose gain and p-value are known."""

    def __init__(self, gain=0.1, p=0.001, by=NOTHING):
        vars(self).update(causes=point(CAUSES), control=point(by), gain=gain, p_value=p)


def point(by=CAUSES, kept=()):
    return CurvePoint(by, 9, (Fit({}, 0.6, 1.0, kept, 0.6, 1.0),))


def row(before, after, n):
    return {"before": before, "after": after, "n": n}


def said(holdout=0.6, remaining=1.0, n=40, limits=None, chosen=None, against=None, **options):
    """A repair that is one in every respect, but for what is given."""
    metrics = {
        "holdout": row(options.get("before", 0.0), holdout, n),
        "remaining": None if remaining is None else row(1.0, remaining, 400),
        "query": row(0.0, options.get("query", 0.6), 40),
        "witnesses": {"holdout": options.get("witnesses", n), "query": 40},
    }
    against = [Pair(), Pair(by=RANDOM)] if against is None else against
    return verdict_of(
        metrics, Objective(0.1, options.get("costs", 1.0)), limits or Limits(), options.get("final", chosen or point()),
        against, options.get("tried", True), options.get("safe", True),
    )  # fmt: skip


def test_half_of_the_holdout_is_repaired_and_less_is_partly():
    assert said() == (REPAIRED, "60% of the holdout failures are right, and all of what worked still works")
    assert said(remaining=0.97)[1] == "60% of the holdout failures are right, and 97.0% of what worked still works"
    assert said(0.5)[0] == REPAIRED
    assert said(0.49) == said(0.499) == (
        PARTLY, "49% of the holdout failures are right, short of 50%, and all of what worked still works"
    )  # fmt: skip
    assert "was not looked at" in said(remaining=None)[1]


def test_few_to_judge_with_are_said_to_be_few():
    assert said(n=20)[1] == said()[1]
    assert said(n=19) == (REPAIRED, f"{said()[1]}, though 19 are too few to be sure")
    assert said(0.4, n=19)[1].endswith("though 19 are too few to be sure")
    assert said(witnesses=19)[1].endswith("though 19 are too few to be sure")


def test_without_a_holdout_the_query_is_judged():
    assert said(n=0, query=0.7)[1].startswith("70% of the query failures are right")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tried": False}, "^nothing was found: no training example conflicts with the failures$"),
        (
            {"final": None, "safe": False, "limits": Limits(0.99)},
            "^something would be broken: .* falls below 0.990 on remaining$",
        ),
        ({"final": None}, "^the examples found do not help: none of the numbers .* did better than removing nothing$"),
        ({"final": None, "n": 19}, "^cannot tell: none of the numbers .* nothing, and only 19 failures judge"),
        (
            {"remaining": 0.98, "limits": Limits(None, 0.99)},
            "^something would be broken: accuracy on remaining would be 0.980, below 0.990$",
        ),
        (
            {
                "chosen": point(kept=(0.8, 0.7)),
                "limits": Limits(keep=(0.8, 0.75), names=("keep['day']", "keep['night']")),
            },
            r"accuracy on keep\['night'\] would be 0.700, below 0.750",
        ),
        ({"remaining": 0.93}, "^something would be broken: removing the examples found breaks as much as it fixes$"),
        ({"remaining": 0.98, "costs": 4.0}, "breaks as much as it fixes"),
        ({"before": 0.6}, "^the examples found do not help: removing them fixes nothing$"),
        (
            {"against": [Pair(), Pair(0.0, by=RANDOM)]},
            r"^the examples found do not help: removing as many at random does as well$",
        ),
        (
            {"against": [Pair(0.0)], "n": 1},
            r"^cannot tell: removing nothing does as well, and only 1 failure judges; give 40",
        ),
        (
            {"against": [Pair(p=0.051)]},
            r"^the examples found do not .* gain over removing nothing may be chance \(p = 0.051\)$",
        ),
        (
            {"against": [Pair(p=0.2)], "n": 19},
            "^cannot tell: .*, and only 19 failures judge; give 40 or more$",
        ),
        (
            {"against": [Pair(p=0.06), Pair(p=0.2, by=RANDOM)]},
            r"removing as many at random may be chance \(p = 0.20",
        ),
        ({"against": [Pair(p=0.2)], "witnesses": 3}, r"only 3 failures judge \(37 more are copies"),
        ({"against": [Pair(), Pair(0.0, by=CAUSES)]}, "it gains nothing"),
    ],
)
def test_one_reason_is_enough_against_it(options, reason):
    verdict, why = said(**options)
    assert verdict == NOT
    assert re.search(reason, why), why


def test_there_is_no_limit_on_what_breaks_unless_the_user_sets_one():
    """Of 10 % failures 60 % are fixed and of the rest 6 % broken: .06 − .054 is still a gain."""
    assert said(remaining=0.94)[0] == REPAIRED
    assert said(remaining=0.94, limits=Limits(None, 0.95))[0] == NOT


def test_what_learning_adds_need_not_be_beyond_chance():
    assert said(against=[Pair(), Pair(0.01, 0.5, by=CAUSES)])[0] == REPAIRED


def threshold(at):
    """Calls 1 what is above."""
    return {"weight": torch.tensor([[0.0], [1.0]]), "bias": torch.tensor([0.0, -at])}


def judged(controls, causes, broken, **first):
    """Six failures at .5, as many right examples there as are `broken`, and twenty below."""
    network = Network.of(nn.Linear(1, 2), Categorical())
    failures = factor(network, torch.full((6, 1), 0.5), torch.ones(6, dtype=torch.long), "failures")
    x = torch.cat([torch.full((broken, 1), 0.5), torch.full((20, 1), -0.5)])
    rest = factor(network, x, torch.zeros(len(x), dtype=torch.long), "remaining")
    points = [CurvePoint(by, 9, tuple(Fit(threshold(at), 0.0, 1.0) for at in fits))
              for by, fits in ((NOTHING, controls), (CAUSES, causes))]  # fmt: skip
    control, moved = with_outcomes(points, Sets(failures, failures, failures[:0], rest, 6, len(x), first))
    return Against(moved, control, Objective(6 / (6 + len(x))))


@pytest.mark.parametrize(("broken", "expected"), [(0, 1 / 2**6), (5, 0.5), (6, 0.613)])
def test_what_is_fixed_must_outweigh_what_breaks_beyond_chance(broken, expected):
    """A threshold moved from 1 to 0 fixes all six failures."""
    pair = judged([1.0], [0.0], broken)
    assert pair.p_value == pytest.approx(expected, abs=1e-3)
    assert pair.gain == pytest.approx((6 - broken) / (26 + broken))


def test_copies_are_one_coin():
    """Six failures that are copies of two: the gain is the same, but it is that of two coins."""
    pair = judged([1.0], [0.0], 0, holdout=np.array([0, 0, 0, 0, 4, 4]))
    assert pair.gain == pytest.approx(6 / 26)
    assert pair.p_value == pytest.approx(1 / 2**2)
    assert judged([1.0], [0.0], 6, remaining=np.array([0] * 6 + list(range(6, 26)))).p_value == pytest.approx(65 / 128)


def test_all_fits_are_compared():
    """Two of three fits move the threshold: two thirds of the gain, and as sure, since all failures agree."""
    pair = judged([1.0, 1.0, 1.0], [0.0, 0.0, 1.0], 0)
    assert pair.gain == pytest.approx(6 / 26 * 2 / 3)
    assert pair.p_value == pytest.approx(1 / 2**6)
    assert judged([1.0], [0.0, 0.0, 1.0], 0).gain == pytest.approx(6 / 26 * 2 / 3), "where one has fewer fits too"
    assert judged([0.0, 1.0], [0.0, 1.0], 4).p_value == 1.0
