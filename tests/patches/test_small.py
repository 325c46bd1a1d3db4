"""The small form of a patch: chosen by what guarded the repair, never by what judged it, and judged as it is stored."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.algorithm.objective import Objective
from amends.evaluation.predictions import right
from amends.patches import guards as guarding
from amends.patches import make, refit
from amends.patches.guards import Guards, crossings, margins
from amends.patches.make import Repaired
from amends.patches.moves import forward
from amends.patches.shrink import as_grid, candidates, cheapest, hull
from amends.progress import Progress


@pytest.fixture(scope="module")
def result():
    from sklearn.datasets import load_digits

    found, true = load_digits(return_X_y=True)
    x, y = torch.tensor(found / 16).float(), torch.tensor(true)
    given, wrong = amends.data.flip_labels(y[:700].numpy(), {(1, 7): 0.6, (9, 4): 0.6}, seed=0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(40):
        for batch in torch.randperm(700).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), torch.tensor(given)[batch]).backward()
            optimiser.step()
    with torch.no_grad():
        ok = model(x[700:]).argmax(1) == y[700:]
    failures, remaining = ((x[700:][at], y[700:][at]) for at in (~ok, ok))
    return amends.repair(
        model, (x[:700], torch.tensor(given)), failures, remaining, remove=np.flatnonzero(wrong), learn=False,
        identify_with=wrong.astype(float), treat_with=amends.methods.fine_tune(epochs=4), budget="quick",
        progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small(result):
    """Made without the exact form: that of fewer bytes than weights moved is shorter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "exact_patch", None)
        return result.patch()


def of(result, **other) -> Repaired:
    return replace(Repaired(result.given, result.split, result.after, result.metrics), **other)


def test_it_is_smaller_and_as_good(result, small):
    exact = result.patch(exact=True)
    assert not small.exact
    assert small.size < 0.3 * exact.size
    assert small.bases[0].judged["verdict"] == result.verdict
    assert exact.bases[0].judged["overall"] == result.metrics["overall"]
    assert abs(small.bases[0].judged["overall"]["after"] - result.metrics["overall"]["after"]) <= 0.01


def test_what_it_says_beside_the_moves_is_short(small):
    """A header of some 150 bytes, a sha256, 8 bytes for each hash of a tensor, and the rest."""
    moves = sum(len(p) for layer in small.layers.values() if layer.move for p in layer.move.parts.values())
    assert small.size - moves < 530


def test_it_tells_how_far_it_is(result, capfd, monkeypatch):
    """On stderr, which fit of how many at most, and how long the rest should take."""
    monkeypatch.setattr(refit, "STEPS", 60)
    monkeypatch.setattr(guarding, "LOSS", 0.05)
    monkeypatch.setattr(guarding, "CHANGED", 0.1)
    result.patch(progress=True)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "looking for ways to make it small"
    tries = [line for line in lines if "trying how small it can be" in line]
    assert re.fullmatch(r"1 of (\d+): trying how small it can be", tries[0])
    total = re.match(r"1 of (\d+)", tries[0])[1]
    assert all(re.match(rf"\d+ of {total}: ", line) for line in lines[1:])
    assert re.fullmatch(rf"{total} of {total}: fitting the size that was chosen; about \d+ seconds? left", lines[-1])
    result.patch(progress=False)
    assert capfd.readouterr().err == ""


def test_its_figures_are_of_the_weights_it_leads_to(result, small):
    theta = of(result).weights_of(small)
    holdout = result.given["failures"][result.split.holdout]
    assert small.bases[0].judged["holdout"]["after"] == right(holdout, theta).mean()


def test_its_test_is_of_the_weights_it_leads_to(result, small):
    """The same numbers by hand: each failure and each right example, against each control, in all of its fits. Of the
    repaired weights, fitted as often as here, it is the test of the run."""
    made, found = of(result), []
    for theta in (result.after, made.weights_of(small)):
        outcome, strongest = result.split.sets(dict(result.given)).outcome(theta), 0.0
        for row in result.metrics["controls"].values():
            moves = []
            for name in ("judging", "remaining"):
                seen = getattr(outcome, name)
                now = row["refits"] * (seen.after.astype(int) - seen.before)
                there = np.array([row["changes"][name].get(str(i), 0) for i in range(len(seen))])
                moves.append(seen.witnessed(now - there))
            strongest = max(strongest, Objective(outcome.sets.share).chance(*moves))
        assert made.judge(theta)["p_value"] == strongest
        found.append(strongest)
    assert small.bases[0].judged["p_value"] == found[1]
    if all(row["refits"] == 1 for row in result.metrics["controls"].values()):
        assert found[0] == pytest.approx(result.metrics["p_value"])


def test_a_gain_that_may_be_luck_is_no_repair(result):
    """A control that is right on the same failures but one."""
    right_now = np.flatnonzero(result.split.sets(dict(result.given)).outcome(result.after).judging.after)[1:]
    row = next(iter(result.metrics["controls"].values()))
    luck = {"judging": {str(i): row["refits"] for i in right_now}, "remaining": {}}
    control = {**row, "holdout": len(right_now) / result.metrics["holdout"]["n"] - 0.3, "changes": luck}
    judged = of(result, metrics={**result.metrics, "controls": {"nothing": control}}).judge(result.after)
    assert judged["verdict"] == "not repaired"
    assert judged["why"].startswith("the gain over a control may be chance (p = 0.")


def test_what_judges_does_not_choose(result):
    """With other labels and other inputs for what judges, the same bytes."""
    given = dict(result.given)
    for name, at in (("failures", result.split.holdout), ("remaining", result.split.judge)):
        examples = given[name].examples
        x, y = examples.x.clone(), examples.y.clone()
        x[at], y[at] = x[at].flip(1), (y[at] + 1) % 10
        given[name] = replace(given[name], examples=replace(examples, x=x, y=y))
    as_it_is, scrambled = (made._small(Progress()) for made in (of(result), of(result, given=given)))
    assert as_it_is is not None
    assert scrambled is not None
    assert as_it_is.data == scrambled.data


def test_each_half_is_looked_at_with_what_was_fitted_to_the_other(result, monkeypatch):
    """Against a count by hand, of every margin with every shift: with the model as it came for one half, and the
    repaired weights for the other."""
    split, given = result.split, dict(result.given)
    sets = [given["failures"][split.query], split.guarding(given)]
    share, start = split.sets(given).share, given["train"].network.params
    guards = Guards(*sets, share, result.after)
    monkeypatch.setattr(guarding, "CHANGED", 1.0)
    assert guards.cost([result.after] * 2).small
    for fitted, unseen in (([start, result.after], slice(1, None, 2)), ([result.after, start], slice(0, None, 2))):
        loss = variance = changed = 0.0
        for data, weight in zip(sets, (share, 1 - share), strict=True):
            was, now = margins(data, result.after), margins(data, result.after)
            now[unseen] = margins(data[unseen], start)
            for sign in (1, -1):
                pairs = [[sign * (a + d) < 0 for d in (now - was)[sign * was > 0]] for a in was[sign * was > 0]]
                if pairs:
                    table, part = np.array(pairs, dtype=float), weight * len(pairs) / len(data)
                    loss += sign * part * table.mean()
                    changed += part * table.mean()
                    variance += part**2 * (table.mean(0).var() + table.mean(1).var()) / len(pairs)
        assert loss > 0.005
        cost = guards.cost(fitted)
        assert (cost.loss, cost.error, cost.changed) == pytest.approx((loss, variance**0.5, changed))
        for limit, holds in ((loss + variance**0.5 + 1e-9, True), (loss + variance**0.5 - 1e-9, False)):
            monkeypatch.setattr(guarding, "LOSS", limit)
            assert guards.cost(fitted).small == holds


def test_a_margin_says_whether_an_answer_is_right(result):
    """And by how much, against the log-probabilities themselves."""
    data = result.given["remaining"]
    for theta in (result.after, data.network.params):
        found = margins(data, theta)
        assert ((found > 0) == right(data, theta)).all()
        logs = data.network.outputs(theta, data.examples.x).double().log_softmax(1).detach().numpy()
        for i in range(0, len(data), 40):
            true = int(data.examples.y[i])
            assert found[i] == pytest.approx(logs[i, true] - np.delete(logs[i], true).max())


def test_all_pairs_say_as_much_with_less_noise():
    """1,000 draws of 300 answers of which 1 % change: the same mean as by counting, less spread, and the spread that is
    told."""
    rng = np.random.default_rng(0)
    counted, paired, told = [], [], []
    for _ in range(1000):
        margin, shift = rng.exponential(1.0, 300), rng.normal(0, 0.025, 300)
        counted.append((margin + shift < 0).mean())
        share, error = crossings(margin, shift)
        paired.append(share)
        told.append(error)
    assert np.mean(paired) == pytest.approx(np.mean(counted), abs=3 * np.std(counted) / 1000**0.5)
    assert np.std(paired) < 0.85 * np.std(counted)
    assert np.sqrt(np.mean(np.square(told))) == pytest.approx(np.std(paired), rel=0.15)


def test_where_no_fit_holds_the_nearest_numbers_are_taken(result, monkeypatch):
    """Fits that all end where the model began: no size holds, and one of the nearest does."""
    from amends.patches import small as form

    monkeypatch.setattr(form, "refitted", lambda start, moves, *more: dict.fromkeys(moves))
    shorter = of(result).shorter
    found = shorter(Progress())
    assert found is not None
    assert guards_of(shorter, found).small
    at = next(i for i, level in enumerate(shorter.levels()) if level_bytes(level) == level_bytes(found))
    assert at == 0 or not guards_of(shorter, shorter.levels()[at - 1]).small


def guards_of(shorter, level):
    return shorter.guards.cost([shorter.after(level)] * 2)


def level_bytes(level) -> dict:
    return {name: m.parts for name, m in level.items() if m is not None}


def test_where_the_verdict_would_not_stand_it_is_exact(result):
    """A control that is as good as can be: no small form is worth more."""
    control = {"removed": 0, "holdout": 1.0, "remaining": 1.0}
    patch = of(result, metrics={**result.metrics, "controls": {"nothing": control}}).patch()
    assert patch.exact
    assert (
        patch.about["exact"]
        == "in a smaller form it would be not repaired, since a control does as well (removed: nothing)"
    )
    floor = of(result, floor=-0.5).patch()
    assert floor.exact
    assert "accuracy on remaining would be" in floor.about["exact"]


def test_fitted_to_the_answers_a_low_rank_does_more(result, monkeypatch):
    """Rank 1 of each layer, as near to the weights as it gets, and the same fitted: KL to the repaired model on train
    falls to a half or less, and the numbers stay as many."""
    from amends.patches.shrink import as_low_rank

    monkeypatch.setattr(refit, "STEPS", 80)
    start, train = result.given["train"].network.params, result.given["train"]
    moves = {}
    for name in (k for k, v in start.items() if v.ndim == 2):
        u, s, vt = torch.linalg.svd((result.after[name] - start[name]).double(), full_matrices=False)
        moves[name] = as_low_rank((u[:, :1] * s[:1]).numpy(), vt[:1].T.numpy())
    teacher = refit.Teacher.of([(0.1, train)], result.after, 0)
    fitted = refit.refitted(start, moves, teacher, lambda step: None)

    def distance(which) -> float:
        theta = {k: forward(v, which[k], b"") if which.get(k) is not None else v for k, v in start.items()}
        with torch.no_grad():
            return sum(float(teacher.distance(theta, part)) for part in range(len(teacher.outputs)))

    assert distance(fitted) < 0.5 * distance(moves)
    assert all(fitted[k].left.shape == moves[k].left.shape for k in moves)
    assert all(np.abs(fitted[k].left).max() <= 8 for k in moves)


def test_a_repair_that_was_refused_has_no_patch(result):
    with pytest.raises(amends.errors.BadInput, match="there is no patch, since nothing was repaired"):
        of(result, metrics={**result.metrics, "verdict": "not repaired"}).patch()


def test_a_change_of_low_rank_is_stored_as_one():
    """Rank 2 in 60 x 80 weights: two factors of 140 numbers each, not a grid of 4,800."""
    rng = np.random.default_rng(0)
    before = torch.tensor(rng.normal(size=(60, 80)), dtype=torch.float32)
    after = before + torch.tensor(rng.normal(size=(60, 2)) @ rng.normal(size=(2, 80)) * 0.01, dtype=torch.float32)
    first, near, *_ = hull(candidates(before, after))
    assert first.move is None
    assert near.move is not None
    assert near.move.about["kind"] == "low rank"
    assert len(near.move.about["exponents"]) == 2
    assert near.error < 0.1 * first.error
    distance = float((forward(before, near.move, b"").double() - after.double()).square().sum())
    assert distance == pytest.approx(near.error, rel=1e-3)  # float32 rounds the sums


def test_a_change_of_few_weights_is_stored_by_these():
    before = torch.zeros(3000) + 0.5
    after = before.clone()
    after[::500] += torch.tensor([0.1, -0.2, 0.3, 0.15, -0.1, 0.05])
    near = next(c for c in hull(candidates(before, after)) if c.error < 1e-3)
    assert near.move is not None
    assert len(near.move.parts["grid"]) < 80
    assert np.flatnonzero(near.move.delta()).tolist() == list(range(0, 3000, 500))


def test_the_price_of_a_byte_decides():
    before, after = torch.zeros(50, 50), torch.randn(50, 50, generator=torch.Generator().manual_seed(0))
    found = candidates(before, after)
    assert cheapest(found, 1e9).move is None
    sizes = [cheapest(found, price).size for price in (10.0, 1.0, 0.1, 0.01)]
    assert sizes == sorted(sizes)
    assert as_grid(torch.tensor([0.9, -2.1, 0.2]), 0).steps.tolist() == [1, -2, 0]
