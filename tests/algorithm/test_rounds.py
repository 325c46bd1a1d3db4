"""One round after the other: suspects among the failures, and what earlier rounds did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import amends
from amends.algorithm import judgement
from amends.algorithm.curve import LEARNED, Rule
from amends.algorithm.rounds import suspects_of
from amends.evaluation.predictions import right
from amends.evidence.prepare import prepare
from tests.algorithm.points import kinds_of_points
from tests.worlds import cheaply, nonsense_digits, same_weights


def test_what_an_edit_comes_to_see_as_labelled_is_no_suspect():
    net, train, failures, remaining = nonsense_digits()
    guard = prepare(net, None, None, 256, train=train, remaining=remaining)["remaining"]
    influence = amends.identify(net, train, failures, method=amends.methods.grad_dot())
    never, always = (suspects_of(replace(influence, unseen=np.full(40, p)), guard) for p in (0.0, 0.06))
    assert len(never) > 20
    assert len(always) == 0
    assert len(suspects_of(influence, guard)) == len(suspects_of(replace(influence, unseen=np.zeros(40)), None)) == 0


def test_real_failures_are_not_called_wrong(result):
    assert len(result.metrics["suspects"]) < 0.1 * result.metrics["query"]["n"]


def test_what_was_learned_in_vain_is_given_up_for_what_was_only_forgotten(planted, result, monkeypatch):
    """Unless somebody asked for it: then it is no repair."""
    judging = judgement.verdict_of
    monkeypatch.setattr(
        judgement, "verdict_of", lambda m, o, held, final, *rest: ("not repaired", "no") if final.by == LEARNED
        else judging(m, o, held, final, *rest),
    )  # fmt: skip
    monkeypatch.setattr(Rule, "safe", lambda self, point: True)
    monkeypatch.setattr(Rule, "worth", lambda self, p: float(getattr(p, "by", "") == LEARNED and p.removed > 0))
    asked = amends.repair(*planted[:4], **cheaply(result, learn=True))
    assert asked.verdict == "not repaired"
    assert same_weights(asked.model, planted[0])
    repair, only = (amends.repair(*planted[:4], **cheaply(result, learn=learn)) for learn in (None, False))
    assert LEARNED in kinds_of_points(repair)
    assert repair.metrics["reason"] == f"{only.metrics['reason']}; learning from the failures too was tried, but no"
    assert repair.verdict == only.verdict != "not repaired"
    assert repair.metrics["learned"] is False
    assert same_weights(repair.model, only.model)
    assert repair.metrics["p_value"] == only.metrics["p_value"]


@pytest.fixture(scope="module")
def alternating(planted, result):
    """Two groups that differ in nothing: what repairs one repairs the other."""
    names = ["ab"[i % 2] for i in range(len(planted[2][1]))]
    return amends.repair(*planted[:4], **cheaply(result, group_by=amends.Groups(names, ["a", "b"])))


def test_a_group_that_an_earlier_round_repaired_is_not_called_past_help(alternating):
    first, second = alternating.metrics["rounds"]
    now = alternating.metrics["groups"]["b"]
    assert first["verdict"] == "repaired"
    assert now["after"] >= 0.5
    assert second["verdict"] != "not repaired"
    assert second["fixed"] == now["fixed"]
    assert "do not help" not in alternating.metrics["reason"]


def test_the_control_of_several_rounds_is_that_of_the_model_handed_in(alternating, result):
    """Judged with the failures of all of them."""
    (control,) = alternating.metrics["controls"].values()
    assert (control["by"], control["removed"]) == ("nothing", 0)
    assert control["holdout"] == pytest.approx(result.metrics["controls"]["nothing"]["holdout"], abs=0.1)
    assert control["holdout"] < alternating.metrics["holdout"]["after"]


@pytest.mark.parametrize("floor", [0.005, 0.01])
def test_what_several_rounds_lose_does_not_add_up(planted, floor):
    """A floor counts from the model handed in."""
    labels = [f"true {y}" for y in planted[2][1].tolist()]
    several = [name for name in sorted(set(labels)) if labels.count(name) >= 4]
    several.sort(key=labels.count, reverse=True)
    options = {"identify_with": amends.methods.functional(), "learn": False, "seed": 3}
    repair = amends.repair(*planted[:4], group_by=amends.Groups(labels, several), floor=floor, **options)
    assert len(repair.metrics["rounds"]) == len(several) > 2
    assert repair.metrics["remaining"]["after"] >= 1 - floor
    limits = {(r.limits.guard, r.limits.judge) for r in repair.rounds}
    assert limits == {(1 - floor, 1 - floor)}


@pytest.mark.parametrize(("fixed", "others", "verdict"), [(4, 6, "not repaired"), (5, 6, "partly repaired"),
                                                        (6, 2, "repaired")])  # fmt: skip
def test_what_an_earlier_round_fixed_must_be_beyond_chance(result, fixed, others, verdict):
    data, nothing = result.given["failures"], result.rounds[0].points[0].theta
    alone = right(data, nothing)  # those that training on would fix tell nothing
    now_right = np.array([i for i in result.metrics["fixed_at"] if not alone[i]])
    still_wrong = np.setdiff1d(result.split.holdout, [*result.metrics["fixed_at"], *np.flatnonzero(alone)])
    split = replace(result.split, holdout=np.concatenate([now_right[:fixed], still_wrong[:others]]))
    part = replace(result.split, group=np.full(len(data), "a", dtype=object))
    first = replace(result.rounds[0], search=replace(result.rounds[0].search, part=part), verdict="repaired")
    second = replace(result.rounds[0], verdict="not repaired", reason="no more", p_value=1.0)
    told = second.since([first], split.sets(result.given))
    assert (told.verdict, told.fixed) == (verdict, (fixed, fixed + others))
    if verdict == "not repaired":
        assert told.reason == "no more"
    else:
        assert told.p_value == pytest.approx(1 / 2**fixed)
        assert "right since the repair of a" in told.reason
    gone_on = replace(second, after=nothing).since([first], split.sets(result.given))
    assert gone_on.verdict == "not repaired", "a control does as well"
    unhelped = second.since([replace(first, verdict="not repaired")], split.sets(result.given))
    assert unhelped.verdict == "not repaired"


def test_rounds_without_a_holdout_count_the_query(planted, result):
    options = cheaply(result, learn=False, holdout=0, group_by=amends.Groups(only=["9→4", "1→7"]))
    rounds = amends.repair(*planted[:4], **options).metrics["rounds"]
    assert all(r["fixed"] > 0 for r in rounds if r["verdict"] != "not repaired")
