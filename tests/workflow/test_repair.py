"""What a repair claims, on digits with something to find and with nothing."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.autograd.forward_ad import unpack_dual
from torch.utils.data import Dataset

import amends
from amends.algorithm.curve import LEARNED, NOTHING, RANDOM
from amends.data import split
from amends.errors import BadInput
from tests.worlds import (
    POOL,
    TRAIN,
    TRAINED,
    cheaply,
    clean_digits,
    learned,
    nonsense_digits,
    right,
    same_weights,
    sorted_out,
)


def test_planted_flips_are_repaired(planted, result):
    net, _, _, _, wrong = planted
    metrics = result.metrics
    assert result.verdict in ("repaired", "partly repaired"), result
    assert metrics["removed"] == len(result.removed) > 0
    assert wrong[result.removed].mean() > 3 * wrong.mean()
    assert metrics["holdout"]["after"] > max(metrics["controls"][by]["holdout"] for by in (NOTHING, RANDOM)) + 0.2
    assert metrics["overall"]["after"] > metrics["overall"]["before"]
    assert metrics["p_value"] <= 0.05
    assert not same_weights(result.model, net)
    json.dumps(metrics)


def untouched(result, net):
    assert result.verdict == "not repaired", result
    assert same_weights(result.model, net)
    assert result.metrics["removed"] == len(result.removed) == 0
    for name in ("query", "holdout", "remaining", "overall"):
        assert result.metrics[name]["before"] == result.metrics[name]["after"]
    assert result.metrics["fixed_at"] == result.metrics["broken_at"] == result.metrics["duplicates"] == []
    assert result.metrics["learned"] is False


def test_clean_data_is_not_repaired():
    clean = clean_digits()
    untouched(amends.repair(*clean), clean[0])


def test_failures_that_no_data_explains_are_not_repaired_and_named():
    nonsense = nonsense_digits()
    result = amends.repair(*nonsense)
    untouched(result, nonsense[0])
    query = set(result.rounds[0].search.part.query.tolist())
    assert set(result.metrics["suspects"]) <= query
    assert len(result.metrics["suspects"]) > 0.7 * len(query)
    assert any("seem to have a wrong label" in w for w in result.metrics["warnings"])


def test_who_counted_what_was_copied_and_who_is_suspected(planted, result):
    members = result.metrics["identified_with"]
    assert [row["name"] for row in members] == [h.name for h in result.influence.members]
    assert sum(row["weight"] for row in members) == pytest.approx(1.0)
    assert all(set(row) == {"name", "found", "unseen", "weight", "refused", "wrong"} for row in members)
    assert result.metrics["duplicates"] == amends.nearness.copies.duplicates(result.influence.train, result.removed)
    assert set(result.metrics["suspects"]) <= set(result.rounds[0].search.part.query.tolist())
    assert not any("too few" in w for w in result.metrics["warnings"])
    assert len(planted[2][0]) - len(result.rounds[0].search.part.query) >= 20


def test_copies_among_the_causes_are_told(planted, result):
    """The first cause, listed twice: both have the same score, and both are removed."""
    net, (x, y), failures, remaining, _ = planted
    first = int(result.removed[0])
    twice = torch.cat([x, x[first : first + 1]]), torch.cat([y, y[first : first + 1]])
    scores = np.append(result.influence.scores, result.influence.scores[first])
    repair = amends.repair(net, twice, failures, remaining, identify_with=scores, remove=45)
    assert repair.verdict != "not repaired", repair
    assert [first, TRAIN] in repair.metrics["duplicates"]


SEEN: list[tuple[list[int], bool]] = []  # ids of one forward pass, and whether it was differentiated


class Watched(nn.Module):
    """The last input is an id, which the net does not use."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        weight = self.net[0].weight
        flows = torch.is_grad_enabled() or unpack_dual(weight).tangent is not None
        SEEN.append((x[:, -1].long().tolist(), flows))
        return self.net(x[:, :-1]) + 0 * x[:, -1:]


def with_ids(data, start):
    return torch.cat([data[0], start + torch.arange(len(data[0]))[:, None]], 1), data[1]


@pytest.mark.parametrize("learn", [False, True])
def test_what_judges_is_not_read_before_the_judgement(planted, learn):
    net, train, failures, remaining, _ = planted
    sets = [with_ids(data, start) for data, start in ((train, 0), (failures, 1000), (remaining, 2000))]
    SEEN.clear()
    result = amends.repair(Watched(net), *sets, treat_with=amends.methods.fine_tune(epochs=1), learn=learn)
    seen = list(SEEN)
    assert any(row["by"] == LEARNED for row in result.metrics["curve"]) is learn
    holdout = np.setdiff1d(np.arange(len(failures[0])), result.rounds[0].search.part.query)
    judge = split(remaining[1].numpy(), 0.5, 0)[1]
    judging = {*(1000 + holdout).tolist(), *(2000 + judge).tolist()}
    begin = next(i for i, (ids, flows) in enumerate(seen) if flows and len(ids) > 2)  # before: the model is looked at
    end = next(i for i, (ids, _) in enumerate(seen) if i >= begin and judging & set(ids))
    assert sum(flows for _, flows in seen[begin:end]) > 100
    assert not any(flows and judging & set(ids) for ids, flows in seen), "what judges is learned from by nothing"
    assert judging <= {i for ids, _ in seen[end:] for i in ids}
    assert {i for ids, _ in seen[begin:end] for i in ids} >= {
        *range(TRAIN),
        *(1000 + result.rounds[0].search.part.query).tolist(),
    }


class Counted(Dataset):
    def __init__(self, data):
        self.data, self.reads = data, Counter()

    def __len__(self):
        return len(self.data[0])

    def __getitem__(self, i):
        self.reads[i] += 1
        return self.data[0][i], int(self.data[1][i])


def test_each_example_is_read_once(planted, result):
    net, *sets, _ = planted
    given = [Counted(data) for data in sets]
    repair = amends.repair(net, *given, **cheaply(result, remove=None, treat_with=amends.methods.fine_tune(epochs=1)))
    assert len(repair.curve) > 3
    train, *judging = given
    assert sum(times > 1 for times in train.reads.values()) <= 10, (
        "to see how large they are, and whether they are random"
    )
    assert set(train.reads) == set(range(len(train)))
    assert max(train.reads.values()) <= 3
    for data in judging:
        assert {**data.reads, 0: 1} == dict.fromkeys(range(len(data)), 1)
        assert data.reads[0] <= 2, "to see how large an example is"


def test_the_same_seed_gives_the_same_causes_and_metrics(planted, result):
    again = amends.repair(*planted[:4])
    assert json.dumps(again.metrics) == json.dumps(result.metrics)
    pd.testing.assert_frame_equal(again.causes, result.causes, check_exact=True)
    assert same_weights(again.model, result.model)


@pytest.mark.parametrize(("number", "warned"), [(38, True), (40, False)])
def test_too_few_to_judge_with_are_warned_of(planted, result, number, warned):
    net, train, failures, remaining, _ = planted
    few = tuple(v[:number] for v in failures)
    options = cheaply(result, treat_with=amends.methods.fine_tune(epochs=1), group_by=["all"] * number)
    repair = amends.repair(net, train, few, remaining, **options)
    assert repair.metrics["holdout"]["n"] == number // 2
    assert [w for w in repair.metrics["warnings"] if "too few" in w] == (
        [f"only {number // 2} failures judge the repair, too few to be sure; give 40 or more"] if warned else []
    )


def test_without_a_holdout_the_query_is_not_too_few(planted, result):
    options = cheaply(result, treat_with=amends.methods.fine_tune(epochs=1), holdout=0)
    repair = amends.repair(*planted[:4], **options)
    assert repair.metrics["holdout"]["n"] == 0 < 40 < repair.metrics["query"]["n"]
    assert not [w for w in repair.metrics["warnings"] if "too few" in w]


def test_few_right_examples_are_warned_of(planted, result):
    net, train, failures, (x, y) = planted[:4]
    for number, warned in ((38, True), (40, False)):
        at = torch.arange(number)
        repair = amends.repair(net, train, failures, (x[at], torch.zeros_like(y[at])), **cheaply(result, learn=False))
        said = f"only {number // 2} right examples judge the repair, too few to be sure; give 40 or more"
        assert (said in repair.metrics["warnings"]) == warned


def test_ten_failures_are_searched_and_judged_with(planted):
    net, train, failures, remaining, wrong = planted
    ones = failures[1] == 1
    ten = tuple(v[ones][:10] for v in failures)
    repair = amends.repair(net, train, ten, remaining, treat_with=amends.methods.fine_tune(epochs=2))
    assert repair.metrics["query"]["n"] == repair.metrics["holdout"]["n"] == 5
    assert repair.metrics["warnings"][0].startswith("only 5 failures judge the repair, too few to be sure")
    assert repair.verdict == "not repaired" or "too few to be sure" in repair.metrics["reason"]
    assert wrong[repair.influence.top(10)].mean() > 3 * wrong.mean()


@pytest.mark.parametrize("seed", [1, 11, 16])
def test_few_failures_of_a_clean_model_are_not_taken_for_a_sign(seed):
    """Each of these was called repaired while a gain of one example was enough."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))[: TRAIN + POOL]
    x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    net = learned(x[TRAINED], y[TRAINED], seed)
    repair = amends.repair(net, (x[TRAINED], y[TRAINED]), *sorted_out(net, x, y))
    assert repair.metrics["holdout"]["n"] < 20
    assert repair.verdict == "not repaired", repair


def test_right_examples_that_were_trained_on_are_warned_of(planted, result):
    net, (x, y), failures, remaining, _ = planted
    known = torch.tensor(right(net, (x, y)))
    for rest, warned in (((x[known], y[known]), True), (remaining, False)):
        made = amends.repair(net, (x, y), failures, rest, **cheaply(result, learn=False))
        said = [w for w in made.metrics["warnings"] if "are training examples, label and all; remaining" in w]
        assert bool(said) == warned


def test_what_forgetting_does_alone_is_told_where_failures_were_learned(planted, result):
    """By the row of the curve with the same causes gone."""
    made = amends.repair(*planted[:4], **cheaply(result, learn=True))
    assert made.metrics["learned"]
    row = next(r for r in made.metrics["curve"] if r["by"] == "causes" and r["removed"] == made.metrics["removed"])
    assert f"forgetting alone, nothing learned from the failures: holdout {row['holdout']:.3f}" in repr(made)
    assert "including those it learned from" in repr(made)
    only = amends.repair(*planted[:4], **cheaply(result, learn=False))
    assert "forgetting alone" not in repr(only)
    assert "including those used to search" in repr(only)
    assert "learned from" not in repr(only)


def test_without_a_holdout_it_is_said_that_this_is_no_proof(planted, result):
    made = amends.repair(*planted[:4], **cheaply(result, learn=False, holdout=0))
    n = made.metrics["query"]["n"]
    said = f"the {n} failures that judge were searched with, so they do not prove a repair; holdout; hold some out"
    assert said in made.metrics["warnings"]
    assert not [w for w in result.metrics["warnings"] if "no proof" in w]


def test_scores_from_elsewhere_may_know_the_failures_that_judge(planted, result):
    scores = result.influence.scores
    elsewhere = (scores, scores.tolist(), amends.methods.scores(scores))
    for given, warned in (*((one, 1) for one in elsewhere), (result.influence.identified, 0)):
        made = amends.repair(*planted[:4], **cheaply(result, learn=False) | {"identify_with": given})
        assert sum(w.startswith("the scores were made elsewhere; ") for w in made.metrics["warnings"]) == warned
    with pytest.raises(BadInput, match=r"^an influence was found with all of its failures, and a repair"):
        amends.repair(*planted[:4], identify_with=result.influence)


def test_scores_found_with_all_failures_are_refused_in_one_line(planted):
    found = amends.identify(*planted[:4], method=amends.methods.default("quick"))
    said = r"were found with \d+ failures, but \d+ are searched with, so that others can judge"
    with pytest.raises(BadInput, match=said):
        amends.repair(*planted[:4], identify_with=found.identified)
