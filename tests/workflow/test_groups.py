"""Failures of one kind at a time, and few of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import amends
from amends.errors import BadInput
from amends.evaluation.predictions import right
from tests.worlds import POOL, QUICK, TRAIN, TRAINED, cheaply, learned, lines, sorted_out

# --- groups, and few failures --------------------------------------------------------------------------------


def test_failures_may_be_grouped_by_clusters(planted, result):
    found = amends.repair(*planted[:4], **cheaply(result, group_by="clusters"))
    names = set(found.metrics["groups"])
    assert len(names) > 1
    assert names <= {f"cluster {i}" for i in range(1, 9)}
    assert sum(row["n"] for row in found.metrics["groups"].values()) == found.metrics["holdout"]["n"]


def test_another_word_for_groups_is_refused_in_one_line(planted):
    with pytest.raises(BadInput, match="group_by is 'nonsense'; it is no way to group; pass 'clusters'") as caught:
        amends.repair(*planted[:4], group_by="nonsense")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("number", "warned"), [(38, True), (40, False)])
def test_too_few_to_judge_with_are_warned_of(planted, result, number, warned):
    net, train, failures, remaining, _ = planted
    few = tuple(v[:number] for v in failures)
    options = cheaply(result, treat_with=amends.methods.fine_tune(epochs=1), group_by=["all"] * number)
    found = amends.repair(net, train, few, remaining, **options)
    assert found.metrics["holdout"]["n"] == number // 2
    assert [w for w in found.metrics["warnings"] if "too few" in w] == (
        [f"only {number // 2} failures judge the repair, too few to be sure; give 40 or more"] if warned else []
    )


def test_ten_failures_are_searched_and_judged_with(planted):
    net, train, failures, remaining, wrong = planted
    ones = failures[1] == 1
    ten = tuple(v[ones][:10] for v in failures)
    found = amends.repair(net, train, ten, remaining, treat_with=amends.methods.fine_tune(epochs=2))
    assert found.metrics["query"]["n"] == found.metrics["holdout"]["n"] == 5
    assert found.metrics["warnings"][0].startswith("only 5 failures judge the repair, too few to be sure")
    assert found.verdict == "not repaired" or "too few to be sure" in found.metrics["reason"]
    assert wrong[found.influence.top(10)].mean() > 3 * wrong.mean()


# --- one kind of failure at a time -----------------------------------------------------------------------


def test_one_group_is_repaired_and_the_other_left_alone(planted):
    """The causes are the labels that stand against that group."""
    _net, (_, given), *_, wrong = planted
    result = amends.repair(*planted[:4], group_by=amends.Groups(only="1→7"))
    m = result.metrics
    assert result.verdict != "not repaired", result
    assert m["rounds"][0]["groups"] == ["1→7"]
    assert m["holdout"]["n"] == m["groups"]["1→7"]["n"] < sum(row["n"] for row in m["groups"].values())
    assert m["groups"]["1→7"]["after"] > 0.4
    assert m["groups"]["1→7"]["after"] > m["groups"]["9→4"]["after"]
    assert (given[result.removed] == 7).double().mean() > 0.7
    assert wrong[result.removed].mean() > 0.5
    assert set(result.causes["group"]) <= {"1→7", ""}


def test_groups_are_repaired_in_the_order_given(planted):
    """Each from where the last ended, and what was removed stays removed."""
    options = {"remove": 10, "identify_with": amends.methods.ewc(), "learn": False}
    both = amends.repair(*planted[:4], group_by=amends.Groups(only=["9→4", "1→7"]), **options)
    first = amends.repair(*planted[:4], group_by=amends.Groups(only="9→4"), **options)
    assert [r["groups"] for r in both.metrics["rounds"]] == [["9→4"], ["1→7"]]
    assert both.metrics["rounds"][0] == first.metrics["rounds"][0]
    assert list(both.removed[: len(first.removed)]) == list(first.removed)
    assert len(set(both.removed)) == len(both.removed) == both.metrics["removed"] == len(both.causes)
    assert list(both.causes["rank"]) == list(range(1, len(both.removed) + 1))
    assert both.metrics["holdout"]["n"] == sum(both.metrics["groups"][g]["n"] for g in ("9→4", "1→7"))


def test_sets_to_keep_may_have_names(planted):
    net, train, failures, (x, y) = planted[:4]
    zeros = x[y == 0], y[y == 0]
    result = amends.repair(
        net, train, failures, (x, y), keep={"zeros": zeros}, identify_with=amends.methods.ewc(), remove=5
    )
    assert result.metrics["keep"]["keep['zeros']"]["before"] == 1.0


def test_a_group_that_cannot_be_split_is_named():
    net, train, failures, remaining = lines()
    names = ["one"] + ["rest"] * 29
    with pytest.raises(BadInput, match=r"the group one has 1 failure, which cannot be split"):
        amends.repair(net, train, failures, remaining, group_by=amends.Groups(names, "one"), **QUICK)
    with pytest.raises(BadInput, match="no failure is in the group 'none'; group_by; choose from one, rest"):
        amends.repair(net, train, failures, remaining, group_by=amends.Groups(names, "none"), **QUICK)
    with pytest.raises(BadInput, match="each once"):
        amends.repair(net, train, failures, remaining, group_by=amends.Groups(names, ["rest", "rest"]), **QUICK)


def test_names_of_groups_may_be_numbers(planted, result):
    kinds = [i % 2 for i in range(len(planted[2][1]))]
    for only in (1, [1], np.array([1]), {1}):
        found = amends.repair(*planted[:4], **cheaply(result, group_by=amends.Groups(kinds, only), learn=False))
        assert [r["groups"] for r in found.metrics["rounds"]] == [["1"]]


# --- several rounds ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alternating(planted, result):
    """Two groups that differ in nothing: what repairs one repairs the other."""
    names = ["ab"[i % 2] for i in range(len(planted[2][1]))]
    return amends.repair(*planted[:4], **cheaply(result, group_by=amends.Groups(names, ["a", "b"])))


def test_a_group_that_an_earlier_round_repaired_is_not_called_unexplained(alternating):
    first, second = alternating.metrics["rounds"]
    now = alternating.metrics["groups"]["b"]
    assert first["verdict"] == "repaired"
    assert now["after"] >= 0.5
    assert second["verdict"] != "not repaired"
    assert second["fixed"] == now["fixed"]
    assert "does not explain" not in alternating.metrics["reason"]


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
    found = amends.repair(*planted[:4], group_by=amends.Groups(labels, several), floor=floor, **options)
    assert len(found.metrics["rounds"]) == len(several) > 2
    assert found.metrics["remaining"]["after"] >= 1 - floor
    floors = {(r.floors.guard, r.floors.judge) for r in found.rounds}
    assert floors == {(1 - floor, 1 - floor)}


# --- few failures, and nothing wrong ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 11, 16])
def test_few_failures_of_a_clean_model_are_not_taken_for_a_sign(seed):
    """Each of these was called repaired while a gain of one example was enough."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))[: TRAIN + POOL]
    x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    net = learned(x[TRAINED], y[TRAINED], seed)
    found = amends.repair(net, (x[TRAINED], y[TRAINED]), *sorted_out(net, x, y))
    assert found.metrics["holdout"]["n"] < 20
    assert found.verdict == "not repaired", found


# --- sets to keep ----------------------------------------------------------------------------------------


def test_a_set_to_keep_may_be_asked_to_be_right_to_a_share(planted, result):
    net, train, failures, (x, y) = planted[:4]
    zeros = x[y == 0], y[y == 0]
    options = cheaply(result, treat_with=amends.methods.fine_tune(epochs=10), learn=False)
    found = amends.repair(net, train, failures, (x, y), keep={"zeros": amends.Keep(zeros, 0.5)}, **options)
    assert found.verdict == "repaired"
    assert found.rounds[0].floors.keep == (0.5,)
    wrong = zeros[0], (zeros[1] + 1) % 10
    found = amends.repair(net, train, failures, (x, y), keep={"never": amends.Keep(wrong, 0.5)}, **options)
    assert found.metrics["reason"] == "accuracy on keep['never'] would be 0.000, below 0.500"
    with pytest.raises(
        BadInput, match=r"least of keep\[0\] is 2; it must be from 0 to 1; pass the share that must be right"
    ):
        amends.repair(net, train, failures, (x, y), keep=[amends.Keep(zeros, 2)], **options)


@pytest.mark.parametrize("learn", ["no", 2, [False]])
def test_whether_to_learn_is_yes_or_no(planted, learn):
    with pytest.raises(BadInput, match=r"learn is .*; it must be True, False or None"):
        amends.repair(*planted[:4], learn=learn)


def test_few_right_examples_are_warned_of(planted, result):
    net, train, failures, (x, y) = planted[:4]
    for number, warned in ((38, True), (40, False)):
        at = torch.arange(number)
        found = amends.repair(net, train, failures, (x[at], torch.zeros_like(y[at])), **cheaply(result, learn=False))
        said = f"only {number // 2} right examples judge the repair, too few to be sure; give 40 or more"
        assert (said in found.metrics["warnings"]) == warned


@pytest.mark.parametrize(("fixed", "others", "verdict"), [(2, 6, "not repaired"), (3, 6, "partly repaired"),
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
        assert told.p_value == 2 / 2**fixed
        assert "right since a was repaired" in told.reason
    gone_on = replace(second, after=nothing).since([first], split.sets(result.given))
    assert gone_on.verdict == "not repaired", "a control does as well"
    unhelped = second.since([replace(first, verdict="not repaired")], split.sets(result.given))
    assert unhelped.verdict == "not repaired"


def test_rounds_without_a_holdout_count_the_query(planted, result):
    options = cheaply(result, learn=False, holdout=0, group_by=amends.Groups(only=["9→4", "1→7"]))
    rounds = amends.repair(*planted[:4], **options).metrics["rounds"]
    assert all(r["fixed"] > 0 for r in rounds if r["verdict"] != "not repaired")
