"""The verdict in words, rule by rule, on numbers made up for it."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from amends.algorithm.curve import CAUSES, NOTHING, NOTHING_LEARNED, RANDOM, CurvePoint, Fit, with_outcomes
from amends.algorithm.sets import Sets
from amends.algorithm.verdict import NOT, PARTLY, REPAIRED, Against, Floors, floors_of, verdict_of
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor


class Pair:
    """A comparison whose p-values are known."""

    def __init__(self, ours, theirs, p=0.001, by=NOTHING, whole=0.001, remaining=1.0, ahead=0.001):
        self.causes, self.control = point(CAUSES, ours, remaining=remaining), point(by, theirs)
        self.p_value, self.whole, self.ahead = p, whole, ahead


def point(by=CAUSES, holdout=0.6, kept=(), remaining=1.0):
    return CurvePoint(by, 9, (Fit({}, holdout, 1.0, kept, holdout, remaining),))


def row(before, after, n):
    return {"before": before, "after": after, "n": n}


def said(holdout=0.6, remaining=1.0, n=40, floors=None, chosen=None, against=None, **options):
    """A repair that is one in every respect, but for what is given."""
    metrics = {
        "holdout": row(0.0, holdout, n),
        "remaining": None if remaining is None else row(1.0, remaining, 400),
        "overall": row(0.9, options.get("overall", 0.95), n + 400),
        "query": row(0.0, options.get("query", 0.6), 40),
    }
    metrics["holdout"]["before"] = options.get("before", 0.0)
    floors = floors or Floors(0.99, (), 0.99, 0.0)
    against = [Pair(0.6, 0.1), Pair(0.6, 0.1, by=RANDOM)] if against is None else against
    return verdict_of(metrics, floors, options.get("final", chosen or point()), against, options.get("tried", True),
                      options.get("safe", True))  # fmt: skip


def test_half_of_the_holdout_is_repaired_and_less_is_partly():
    assert said() == (REPAIRED, "60% of the holdout failures are right, and what worked still works")
    fell = said(remaining=0.93, floors=Floors(0.9, (), 0.9, 0.0))
    assert fell == (
        REPAIRED,
        "60% of the holdout failures are right, and 93.0% of what worked still works, within the floor",
    )
    assert said(0.5)[0] == REPAIRED
    assert said(0.49) == said(0.499) == (PARTLY, "49% of the holdout failures are right, short of 50%")
    assert "was not looked at" in said(remaining=None)[1]


def test_few_to_judge_with_are_said_to_be_few():
    assert said(n=20)[1] == said()[1]
    assert said(n=19) == (REPAIRED, f"{said()[1]}, though 19 are too few to be sure")
    assert said(0.4, n=19)[1].endswith("though 19 are too few to be sure")


def test_without_a_holdout_the_query_is_judged():
    assert said(n=0, query=0.7)[1].startswith("70% of the query failures are right")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"before": 1.0, "holdout": 1.0}, "right already; were failures and remaining swapped"),
        ({"tried": False}, "no training example stands against"),
        ({"final": None, "safe": False}, "accuracy falls below 0.990 on remaining"),
        ({"final": None}, "no number of removed examples gains over removing nothing"),
        ({"remaining": 0.98}, "accuracy on remaining would be 0.980, below 0.990"),
        (
            {
                "chosen": point(kept=(0.8, 0.7)),
                "floors": Floors(0.9, (0.8, 0.75), 0.9, names=("keep['day']", "keep['night']")),
            },
            r"accuracy on keep\['night'\] would be 0.700, below 0.750",
        ),
        ({"overall": 0.9}, "does not help"),
        ({"before": 0.6}, "does not help"),
        (
            {"against": [Pair(0.6, 0.1), Pair(0.6, 0.6, by=RANDOM)]},
            r"a control does as well \(removed: random; accuracy on holdout 0.600",
        ),
        (
            {"against": [Pair(0.6, 0.1, 0.051)]},
            r"the gain over a control \(removed: nothing\) may be chance \(p = 0.05\)",
        ),
        (
            {"against": [Pair(0.6, 0.1), Pair(0.6, 0.1, by=RANDOM, whole=0.3, remaining=0.985)]},
            r"remaining to 0.985, below 0.990, and breaks about as many examples as it fixes beside a control",
        ),
        ({"against": [Pair(0.6, 0.1), Pair(0.6, 0.7, by=NOTHING_LEARNED)]}, "a control does as well"),
    ],
)
def test_one_reason_is_enough_against_it(options, reason):
    verdict, why = said(**options)
    assert verdict == NOT
    assert re.search(reason, why), why


def test_what_few_failures_say_may_be_chance():
    """Tested in one direction and less strictly, with the right examples and without."""
    assert said(n=19, against=[Pair(0.6, 0.1, 0.5, ahead=1 / 8, whole=1 / 4)])[0] == REPAIRED  # three of three
    for less in ({"ahead": 0.13}, {"whole": 0.26}):
        assert said(n=19, against=[Pair(0.6, 0.1), Pair(0.6, 0.1, by=RANDOM, **less)]) == (
            NOT,
            "the gain over a control (removed: random) may be chance: 19 failures are too few to tell; give 40 or more",
        )
    assert said(n=20, against=[Pair(0.6, 0.1, ahead=0.5, whole=0.5)])[0] == REPAIRED
    assert said(n=19, against=[Pair(0.6, 0.6, 0.5)])[0] == NOT


def test_what_the_causes_add_to_learning_need_not_be_beyond_chance():
    assert said(against=[Pair(0.6, 0.1), Pair(0.6, 0.5, 0.5, by=NOTHING_LEARNED, whole=0.5)])[0] == REPAIRED


def test_only_below_the_floor_must_what_is_fixed_outweigh_what_breaks():
    assert said(against=[Pair(0.6, 0.1, whole=0.3, remaining=0.99)])[0] == REPAIRED
    assert said(against=[Pair(0.6, 0.1, whole=0.05, remaining=0.985)])[0] == REPAIRED
    assert said(against=[Pair(0.6, 0.1, whole=0.3, remaining=0.985, by=NOTHING_LEARNED)])[0] == REPAIRED
    assert said(against=[Pair(0.6, 0.1, whole=0.3, remaining=None)])[0] == REPAIRED
    assert said(against=[Pair(0.6, 0.1, whole=0.3, remaining=0.0)])[0] == NOT


def test_what_is_fixed_must_outweigh_what_breaks_beyond_chance():
    """A threshold moved from 1 to 0: six failures fixed, and none, five or six right examples broken."""
    thetas = [{"weight": torch.tensor([[0.0], [1.0]]), "bias": torch.tensor([0.0, -at])} for at in (1.0, 0.0)]
    network = Network.of(nn.Linear(1, 2), Categorical())
    failures = factor(network, torch.full((6, 1), 0.5), torch.ones(6, dtype=torch.long), "failures")
    points = [CurvePoint(by, 9, (Fit(t, 0.0, 1.0),)) for by, t in zip((NOTHING, CAUSES), thetas, strict=True)]

    def pair_with(rest):
        control, causes = with_outcomes(points, Sets(failures, failures, failures[:0], rest, 6, 20))
        return Against(causes, control)

    for broken, expected in ((0, 1 / 2**6), (5, 0.5), (6, 1.0)):
        x = torch.cat([torch.full((broken, 1), 0.5), torch.full((20, 1), -0.5)])
        rest = factor(network, x, torch.zeros(len(x), dtype=torch.long), "remaining")
        pair = pair_with(rest)
        assert pair.p_value == 2 / 2**6
        assert pair.whole == expected
    assert pair_with(None).whole == 1 / 2**6


def test_our_floor_allows_for_noise_and_the_user_s_does_not():
    """Of 400 at .99, 1.64 standard errors are .0082."""
    ours, theirs = Floors(0.99, (), 0.99, 1.64), Floors(0.99, (), 0.99, 0.0)
    assert said(remaining=0.9825, floors=ours)[0] == REPAIRED
    assert said(remaining=0.98, floors=ours)[0] == NOT
    assert said(remaining=0.9825, floors=theirs)[0] == NOT


def test_our_floor_counts_from_the_control_and_the_user_s_from_the_model():
    kept = {"keep[0]": None, "keep[1]": None}
    ours = floors_of(0.97, None, [1.0, 0.8, None], kept)
    assert (ours.guard, ours.keep) == (pytest.approx(0.96), pytest.approx((0.79, -0.01)))
    theirs = floors_of(0.97, 0.05, [1.0, 0.8, None], kept)
    assert (theirs.guard, theirs.keep) == (pytest.approx(0.95), pytest.approx((0.75, -0.05)))
    judged = ours.with_judge(0.96, None, 1.0)
    assert (judged.judge, judged.guard) == (pytest.approx(0.95), ours.guard)
    assert judged.slack > 0
    judged = theirs.with_judge(0.96, 0.05, 1.0)
    assert (judged.judge, judged.slack) == (pytest.approx(0.95), 0.0)
