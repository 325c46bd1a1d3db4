"""What a repair claims, held against the model it hands back: on digits, with and without something to find."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn
from torch.autograd.forward_ad import unpack_dual
from torch.utils.data import Dataset

import amends
from amends.algorithm import choose, rounds
from amends.algorithm.curve import CAUSES, LEARNED, NOTHING, NOTHING_LEARNED, RANDOM, CurvePoint, Fit, Rule
from amends.algorithm.rounds import suspects_of
from amends.algorithm.selection import indices
from amends.data import split
from amends.errors import BadInput, NotConverged
from amends.evaluation.statistics import harmed, paired
from amends.evidence.prepare import prepare
from tests.worlds import QUICK, TRAIN, TRAINED, cheaply, digits, learned, lines, right, sorted_out


@pytest.fixture(scope="module")
def pixels():
    return digits()


@pytest.fixture(scope="module")
def clean(pixels):
    x, y = pixels
    net = learned(x[TRAINED], y[TRAINED])
    return net, (x[TRAINED], y[TRAINED]), *sorted_out(net, x, y)


def same_weights(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


# --- how to forget -------------------------------------------------------------------------------------


def choosing(monkeypatch, usual, *others):
    monkeypatch.setattr(amends.methods.Default, "treating", lambda self, *_: usual)
    monkeypatch.setattr(amends.methods.Default, "otherwise", lambda self, *_: others)


def refusing(train, remaining):
    raise NotConverged("not today; newton; try another")


def test_the_way_to_forget_is_the_one_that_fixes_most(planted, result, monkeypatch):
    works, still = amends.methods.fine_tune(epochs=10), amends.methods.fine_tune(rate=0.0, epochs=1)
    plain = amends.repair(*planted[:4], **cheaply(result, learn=False, treat_with=works))
    assert plain.verdict != "not repaired"
    for usual, others in ((still, (works,)), (works, (still,)), (works, (works._replace(remember=refusing),))):
        choosing(monkeypatch, usual, *others)
        made = amends.repair(*planted[:4], **cheaply(result, learn=False))
        assert made.metrics["holdout"] == plain.metrics["holdout"]
        assert same_weights(made.model, plain.model)


def test_a_way_that_breaks_what_worked_is_not_taken(planted, result, monkeypatch):
    """It learns the failures by heart, so that more is right as a whole, and less than may be of the rest."""
    works = amends.methods.fine_tune(epochs=10)
    choosing(monkeypatch, works, amends.methods.fine_tune(rate=3e-3, epochs=60, learn=True))
    made = amends.repair(*planted[:4], **cheaply(result, learn=False))
    assert same_weights(made.model, amends.repair(*planted[:4], **cheaply(result, learn=False, treat_with=works)).model)


def test_what_was_fitted_to_choose_how_is_not_fitted_again(planted, result, monkeypatch):
    fitted = []
    treating = choose.treated

    def noting(train, causes, failures, remaining, method, *rest):
        fitted.append((causes.tobytes(), method.editor.climb.rate, method.editor.climb.seed))
        return treating(train, causes, failures, remaining, method, *rest)

    monkeypatch.setattr(choose, "treated", noting)
    for usual, other in ((1e-3, 0.0), (0.0, 1e-3)):
        choosing(monkeypatch, *(amends.methods.fine_tune(rate, epochs=1) for rate in (usual, other)))
        fitted.clear()
        amends.repair(*planted[:4], identify_with=result.influence.scores, learn=False)
        assert len(fitted) == len(set(fitted)) > 10


# --- nothing to find -----------------------------------------------------------------------------------


def untouched(result, net):
    assert result.verdict == "not repaired", result
    assert same_weights(result.model, net)
    assert result.metrics["removed"] == len(result.removed) == len(result.causes) == 0
    for name in ("query", "holdout", "remaining", "overall"):
        assert result.metrics[name]["before"] == result.metrics[name]["after"]
    assert result.metrics["fixed_at"] == result.metrics["broken_at"] == result.metrics["duplicates"] == []
    assert result.metrics["learned"] is False


def test_clean_data_is_not_repaired(clean):
    untouched(amends.repair(*clean), clean[0])


@pytest.fixture(scope="module")
def nonsense(clean):
    """Right examples, called failures under labels drawn at random."""
    net, train, _, (x, y) = clean
    g = torch.Generator().manual_seed(0)
    wrong = (y[:40] + torch.randint(1, 10, (40,), generator=g)) % 10
    return net, train, (x[:40], wrong), (x[40:], y[40:])


def test_failures_that_no_data_explains_are_not_repaired_and_named(nonsense):
    result = amends.repair(*nonsense)
    untouched(result, nonsense[0])
    query = set(result.rounds[0].search.part.query.tolist())
    assert set(result.metrics["suspects"]) <= query
    assert len(result.metrics["suspects"]) > 0.7 * len(query)
    assert any("seem to have a wrong label" in w for w in result.metrics["warnings"])


def test_what_an_edit_comes_to_see_as_labelled_is_no_suspect(nonsense):
    net, train, failures, remaining = nonsense
    guard = prepare(net, None, None, 256, train=train, remaining=remaining)["remaining"]
    found = amends.identify(net, train, failures, method=amends.methods.grad_dot())
    never, always = (suspects_of(replace(found, unseen=np.full(40, p)), guard) for p in (0.0, 0.06))
    assert len(never) > 20
    assert len(always) == 0
    assert len(suspects_of(found, guard)) == len(suspects_of(replace(found, unseen=np.zeros(40)), None)) == 0


def test_real_failures_are_not_called_wrong(result):
    assert len(result.metrics["suspects"]) < 0.1 * result.metrics["query"]["n"]


# --- something to find -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(planted, result):
    """Positions that judged, and whether each is right before and after, by the models themselves."""
    net, _, failures, remaining, _ = planted
    holdout = np.setdiff1d(np.arange(len(failures[0])), result.rounds[0].search.part.query)
    judge = split(remaining[1].numpy(), 0.5, 0)[1]
    rows = {}
    for name, data, at in (("holdout", failures, holdout), ("remaining", remaining, judge)):
        rows[name] = at, *(right(model, data)[at] for model in (net, result.model))
    return rows


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


def test_the_numbers_are_those_of_the_model_handed_back(judged, result):
    metrics = result.metrics
    for name, (at, before, after) in judged.items():
        assert metrics[name] == {"before": before.mean(), "after": after.mean(), "n": len(at)}
        fixed, broken = int((~before & after).sum()), int((before & ~after).sum())
        exact = stats.binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
        assert metrics["p_values"][name] == pytest.approx(exact)
        assert metrics["changes"][name] == paired(before, after, 0)
        low, high = metrics["intervals"][name]
        assert 0 <= low <= after.mean() <= high <= 1
        low, high = metrics["changes"][name]
        assert low <= after.mean() - before.mean() <= high
    told = {*judged, "query", "overall"}
    assert set(metrics["p_values"]) == set(metrics["changes"]) == set(metrics["intervals"]) == told


def test_the_whole_has_an_interval_too(judged, result):
    """Failures and right examples are drawn apart, and weigh as they were given."""
    metrics, rng = result.metrics, np.random.default_rng(5)
    share = 77 / 500
    moved = np.zeros(4000)
    for weight, name in ((share, "holdout"), (1 - share, "remaining")):
        _, before, after = judged[name]
        drawn = rng.integers(len(before), size=(4000, len(before)))
        moved += weight * (after.astype(float) - before)[drawn].mean(1)
    assert metrics["changes"]["overall"] == pytest.approx(np.percentile(moved, [2.5, 97.5]), abs=0.005)
    low, high = metrics["intervals"]["overall"]
    assert low < metrics["overall"]["after"] < high
    fixed, broken = metrics["fixed"], metrics["newly_broken"]
    assert metrics["p_values"]["overall"] == pytest.approx(stats.binomtest(fixed, fixed + broken).pvalue)


def test_what_was_fixed_and_broken_is_named(judged, result):
    at, _, after = judged["holdout"]
    assert result.metrics["fixed_at"] == at[after].tolist()
    assert result.metrics["fixed"] == len(result.metrics["fixed_at"]) > 0
    at, _, after = judged["remaining"]
    assert result.metrics["broken_at"] == at[~after].tolist()
    assert result.metrics["newly_broken"] == len(result.metrics["broken_at"])


def counted(names, before, after):
    rows = {}
    for name in sorted(set(names)):
        was, now = (side[np.array(names) == name] for side in (before, after))
        fixed, broken = int((~was & now).sum()), int((was & ~now).sum())
        p = stats.binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
        rows[name] = pytest.approx(
            {"n": len(was), "before": was.mean(), "after": now.mean(), "fixed": fixed, "broken": broken, "p_value": p}
        )
    return rows


def test_every_group_and_every_class_is_told_by_itself(planted, judged, result):
    net, _, failures, remaining, _ = planted
    at, before, after = judged["holdout"]
    with torch.no_grad():
        said = net(failures[0]).argmax(1)
    names = [f"{int(failures[1][i])}→{int(said[i])}" for i in at]
    assert "1→7" in names
    assert result.metrics["groups"] == counted(names, before, after)
    classes = [
        str(int(data[1][i]))
        for data, name in ((failures, "holdout"), (remaining, "remaining"))
        for i in judged[name][0]
    ]
    both = (np.concatenate([judged[name][side] for name in judged]) for side in (1, 2))
    assert result.metrics["classes"] == counted(classes, *both)
    assert result.metrics["harmed"] == harmed(result.metrics["classes"])


def test_calibration_weighs_failures_and_right_ones_as_they_were_given(planted, judged, result):
    net, _, failures, remaining, _ = planted
    share = len(failures[0]) / (len(failures[0]) + len(remaining[0]))
    for when, model in (("before", net), ("after", result.model)):
        with torch.no_grad():
            sure = [model(data[0]).softmax(1).amax(1).numpy() for data in (failures, remaining)]
        means = [s[judged[name][0]].mean() for s, name in zip(sure, judged, strict=True)]
        found = result.metrics["calibration"][when]
        assert found["confidence"] == pytest.approx(share * means[0] + (1 - share) * means[1], rel=1e-5)
        assert set(found) == {"error", "confidence", "loss", "n"}
    assert result.metrics["calibration"]["before"] != result.metrics["calibration"]["after"]


def test_the_curve_has_bands_and_controls_beside_it(result):
    rows = result.metrics["curve"]
    for row in rows:
        assert row["refits"] == 3
        for name in ("query", "holdout", "guard", "remaining"):
            assert row[f"{name}_low"] - 1e-9 <= row[name] <= row[f"{name}_high"] + 1e-9
    assert any(row["query_low"] < row["query_high"] for row in rows if row["by"] == CAUSES)
    by = {by: [row["removed"] for row in rows if row["by"] == by] for by in (NOTHING, CAUSES, RANDOM)}
    assert by[NOTHING] == [0]
    assert by[CAUSES] == by[RANDOM] == sorted(by[CAUSES])
    assert result.metrics["removed"] in by[CAUSES]
    controls = result.metrics["controls"]
    assert {NOTHING, RANDOM} <= set(controls)
    assert all(row in rows for row in controls.values())
    assert controls[RANDOM]["removed"] == result.metrics["removed"]


def test_who_was_heard_what_was_copied_and_who_is_suspected(planted, result):
    heard = result.metrics["identified_with"]
    assert [row["name"] for row in heard] == [h.name for h in result.influence.heard]
    assert sum(row["weight"] for row in heard) == pytest.approx(1.0)
    assert all(set(row) == {"name", "found", "unseen", "weight", "refused"} for row in heard)
    assert result.metrics["duplicates"] == amends.nearness.neighbours.duplicates(result.influence.train, result.removed)
    assert set(result.metrics["suspects"]) <= set(result.rounds[0].search.part.query.tolist())
    assert not any("too few" in w for w in result.metrics["warnings"])
    assert len(planted[2][0]) - len(result.rounds[0].search.part.query) >= 20


def test_copies_among_the_causes_are_told(planted, result):
    """The first cause, listed twice: both have the same score, and both are removed."""
    net, (x, y), failures, remaining, _ = planted
    first = int(result.removed[0])
    twice = torch.cat([x, x[first : first + 1]]), torch.cat([y, y[first : first + 1]])
    scores = np.append(result.influence.scores, result.influence.scores[first])
    found = amends.repair(net, twice, failures, remaining, identify_with=scores, remove=45)
    assert found.verdict != "not repaired", found
    assert [first, TRAIN] in found.metrics["duplicates"]


# --- what judges is not read before ------------------------------------------------------------------------

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
    begin = next(i for i, (ids, _) in enumerate(seen) if sum(i < 1000 for i in ids) > 8)  # checks look at less
    assert not any(flows for _, flows in seen[:begin])
    assert not any(i >= 2002 for ids, _ in seen[:begin] for i in ids), "to split, no right example is read"
    end = next(i for i, (ids, _) in enumerate(seen) if i >= begin and judging & set(ids))
    assert sum(flows for _, flows in seen[begin:end]) > 100
    assert not any(flows for _, flows in seen[end:]), "after the judgement began, nothing is fitted"
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
    found = amends.repair(net, *given, **cheaply(result, remove=None, treat_with=amends.methods.fine_tune(epochs=1)))
    assert len(found.curve) > 3
    train, *judging = given
    assert {i for i, times in train.reads.items() if times > 1} < set(range(len(train))), (
        "a few, to see if it is random"
    )
    assert set(train.reads.values()) == {1, 2}
    for data in judging:
        assert data.reads == dict.fromkeys(range(len(data)), 1)


# --- the same again, and elsewhere -------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_causes_and_metrics(planted, result):
    again = amends.repair(*planted[:4])
    assert json.dumps(again.metrics) == json.dumps(result.metrics)
    pd.testing.assert_frame_equal(again.causes, result.causes, check_exact=True)
    assert same_weights(again.model, result.model)


def test_another_seed_gives_another_split(planted, result):
    other = amends.repair(*planted[:4], **cheaply(result, seed=1, treat_with=amends.methods.fine_tune(epochs=1)))
    assert other.metrics["seed"] == 1
    assert set(other.rounds[0].search.part.query.tolist()) != set(result.rounds[0].search.part.query.tolist())
    assert len(other.rounds[0].search.part.query) == pytest.approx(len(result.rounds[0].search.part.query), abs=1)


def test_causes_of_one_model_are_forgotten_by_another(planted, result):
    """Retrained elsewhere, it fails in the same way, and the table that was kept repairs it too."""
    _, train, failures, _, _ = planted
    retrained = learned(*train, seed=1)
    assert right(retrained, failures).mean() < 0.5
    treated = amends.treat(retrained, train, causes=result.causes)
    control = amends.treat(retrained, train, causes=[])
    assert right(treated, failures).mean() > right(control, failures).mean() + 0.2
    assert same_weights(treated, amends.treat(retrained, train, causes=result.removed))


def test_a_table_of_causes_finds_them_by_id_wherever_they_stand(planted, result):
    """In the order of another day, without one that somebody decided to keep."""
    net, (x, y) = planted[0], planted[1]
    names = np.array([f"case {i}" for i in range(TRAIN)], dtype=object)
    table = result.causes.assign(id=names[result.causes["index"]])
    table.loc[0, "decision"] = "keep"
    order = np.random.default_rng(1).permutation(TRAIN)
    moved = amends.data.Records(x[order], y[order], {"id": names[order]})
    wanted = np.flatnonzero(np.isin(order, table["index"][1:]))
    assert indices(table, TRAIN, names[order]).tolist() == wanted.tolist()
    forgotten = amends.treat(net, moved, causes=table)
    assert same_weights(forgotten, amends.treat(net, moved, causes=wanted))
    with pytest.raises(BadInput, match="no training example has the id 'case 400'; causes; give a table made of"):
        amends.treat(net, moved, causes=table.assign(id="case 400"))
    twice = np.array([f"pair {i // 2}" for i in range(TRAIN)], dtype=object)
    own = result.causes.assign(id=twice[result.causes["index"]])
    assert indices(own, TRAIN, twice).tolist() == sorted(result.removed), "where they stood, they still stand"
    numbered = pd.DataFrame({"id": [3, 4], "index": [3, 4]})
    assert indices(numbered, 5, np.arange(5)[::-1]).tolist() == [0, 1]
    plain = result.causes.drop(columns="decision")
    assert indices(plain, TRAIN, names).tolist() == sorted(result.removed), "without ids of its own: by position"


# --- learning from the query ---------------------------------------------------------------------------------


def told(found):
    return {row["by"] for row in found.metrics["curve"]}


def test_only_forgetting(planted, result):
    found = amends.repair(*planted[:4], **cheaply(result, learn=False, floor=0.1))
    assert found.metrics["learned"] is False
    assert told(found) == {NOTHING, CAUSES, RANDOM}


def test_learning_as_well(planted, result):
    found = amends.repair(*planted[:4], **cheaply(result, learn=True, floor=0.1))
    assert told(found) == {NOTHING, CAUSES, RANDOM, LEARNED, NOTHING_LEARNED}
    assert found.verdict != "not repaired", found
    assert found.metrics["learned"] is True
    (forgot,) = (row for row in found.metrics["curve"] if row["by"] == CAUSES)
    assert found.metrics["query"]["after"] > forgot["query"]
    assert found.metrics["controls"][NOTHING_LEARNED]["removed"] == 0


def test_learning_where_nobody_said_so_must_be_safe(planted, result, monkeypatch):
    monkeypatch.setattr(Rule, "safe", lambda self, point: point.by != LEARNED)
    kept = amends.repair(*planted[:4], **cheaply(result))
    assert told(kept) == {NOTHING, CAUSES, RANDOM}
    only = amends.repair(*planted[:4], **cheaply(result, learn=False))
    assert json.dumps(kept.metrics) == json.dumps(only.metrics)
    assert LEARNED in told(amends.repair(*planted[:4], **cheaply(result, learn=True)))


def test_learning_where_nobody_said_so_must_do_as_much_as_forgetting_within_noise(planted, result, monkeypatch):
    """The noise is a standard error of a share of the query, as the failures weigh in the whole."""
    monkeypatch.setattr(Rule, "safe", lambda self, point: True)
    failures, right_ones = (len(given[1]) for given in planted[2:4])
    query = result.metrics["query"]["n"]
    noise = 0.5 / query**0.5 * failures / (failures + right_ones)
    for lead, expected in ((0.9 * noise, True), (1.1 * noise, False), (-1.0, True)):
        monkeypatch.setattr(Rule, "overall", lambda self, p, lead=lead: lead * (p.by == CAUSES) + float(p.removed > 0))
        found = amends.repair(*planted[:4], **cheaply(result))
        assert (LEARNED in told(found)) is expected


def test_what_was_learned_in_vain_is_given_up_for_what_was_only_forgotten(planted, result, monkeypatch):
    """Unless somebody asked for it: then it is no repair."""
    judging = rounds.verdict_of
    monkeypatch.setattr(
        rounds, "verdict_of", lambda m, f, final, *rest: ("not repaired", "no") if final.by == LEARNED
        else judging(m, f, final, *rest),
    )  # fmt: skip
    monkeypatch.setattr(Rule, "safe", lambda self, point: True)
    monkeypatch.setattr(Rule, "overall", lambda self, p: float(p.by == LEARNED and p.removed > 0))
    asked = amends.repair(*planted[:4], **cheaply(result, learn=True))
    assert asked.verdict == "not repaired"
    assert same_weights(asked.model, planted[0])
    found, only = (amends.repair(*planted[:4], **cheaply(result, learn=learn)) for learn in (None, False))
    assert LEARNED in told(found)
    assert found.metrics["reason"] == f"{only.metrics['reason']}; to learn from the failures too was given up: no"
    assert found.verdict == only.verdict != "not repaired"
    assert found.metrics["learned"] is False
    assert same_weights(found.model, only.model)
    assert found.metrics["p_value"] == only.metrics["p_value"]


def test_a_large_model_is_fitted_less_often(planted, result, monkeypatch):
    """Once at every size, with a random control beside the chosen one alone, and learning at two sizes."""
    monkeypatch.setattr(choose, "LARGE", 1)
    tried = []
    trying = choose.Chooser._learned_by_halves
    monkeypatch.setattr(
        choose.Chooser, "_learned_by_halves", lambda self, causes: tried.append(len(causes)) or trying(self, causes)
    )
    known = {"identify_with": result.influence.scores, "treat_with": amends.methods.fine_tune()}
    found = amends.repair(*planted[:4], **known, learn=True)
    curve = found.metrics["curve"]
    assert {row["refits"] for row in curve} == {1}
    sizes = [row["removed"] for row in curve if row["by"] == CAUSES]
    (control,) = (row["removed"] for row in curve if row["by"] == RANDOM)
    assert control in sizes
    assert tried == [0, *[k for k in sizes if k <= control][-2:]]


def test_right_examples_that_guard_are_learned_with_the_failures(planted, result, monkeypatch):
    """Halves of both as heavy as the whole, then the whole, a right one twice a failure; never what judges."""
    monkeypatch.setattr(choose, "FAILURE", 3.0)
    monkeypatch.setattr(choose, "RIGHT", 6.0)
    taught = []
    treating = choose.treated

    def noting(train, causes, failures, remaining, method, *rest):
        if method.learn:
            taught.append((set(failures.ids.tolist()), float(failures.weights.sum()) / 3))
        return treating(train, causes, failures, remaining, method, *rest)

    monkeypatch.setattr(choose, "treated", noting)
    found = amends.repair(*planted[:4], **cheaply(result, learn=True, treat_with=amends.methods.fine_tune(epochs=1)))
    given, cut = found.given, found.rounds[0].search.part.query
    guard = given["remaining"].ids[split(planted[3][1].numpy(), 0.5, 0)[0]]
    every = {*given["failures"].ids[cut].tolist(), *guard.tolist()}
    halves, whole, heavy = taught[:4], taught[4:], len(cut) + 2 * len(guard)
    assert len(whole) == 6
    assert all(seen == every and weight == heavy for seen, weight in whole)
    for (one, a), (other, b) in (halves[:2], halves[2:]):
        assert one | other == every
        assert not one & other
        assert a + b == 2 * heavy
    taught.clear()
    monkeypatch.setattr(choose, "BESIDE", 0.1)
    amends.repair(*planted[:4], **cheaply(result, learn=True, treat_with=amends.methods.fine_tune(epochs=1)))
    assert taught[-1][1] == len(cut) + 2 * (TRAIN // 10)
    assert sum(weight for _, weight in taught[:2]) == 2 * taught[-1][1]


# --- odd worlds ------------------------------------------------------------------------------------------


def test_a_model_that_is_right_about_nothing_can_be_asked():
    net, (x, y), failures, _ = lines()
    found = amends.identify(net, (x, (y + 1) % 3), failures)
    assert np.isfinite(found.scores).all()
    assert sum(h.weight for h in found.heard) == pytest.approx(1)


def test_labels_of_two_kinds_are_judged_apart():
    net, train, failures, (x, y) = lines()
    soft = nn.functional.one_hot(y, 3).float()
    result = amends.repair(net, train, failures, (x, soft), **QUICK)
    assert result.metrics["calibration"] is None
    assert result.metrics["remaining"]["n"]


def test_labels_of_two_kinds_are_not_learned_together():
    net, (x, y), failures, remaining = lines()
    soft = x, nn.functional.one_hot(y, 3).float()
    assert not amends.repair(net, soft, failures, remaining, **QUICK).metrics["learned"]
    with pytest.raises(BadInput, match="of two kinds; learn is True"):
        amends.repair(net, soft, failures, remaining, learn=True, **QUICK)


def test_a_floor_holds_in_the_model_handed_back():
    """Not only on average over the refits."""
    fits = tuple(Fit({}, 0.9, 0.99, (kept,)) for kept in (0.90, 0.96, 0.99))
    point = CurvePoint("causes", 5, fits)
    rule = Rule(0.9, (0.94,), 0.2, CurvePoint("nothing", 0, fits))
    assert not rule.safe(point)
    assert rule.safe(replace(point, fits=fits[::-1]))
