"""The small form of a patch: chosen by what guarded the repair, never by what judged it, and judged as it is stored."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import amends
from amends.algorithm.objective import Objective
from amends.evaluation.predictions import right
from amends.patches import guards as guarding
from amends.patches import make, refit
from amends.patches.codes import Damaged
from amends.patches.make import Repaired
from amends.patches.moves import Grid, forward
from amends.patches.shrink import as_grid, candidates, cheapest, hull, led
from amends.progress import Progress


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


def test_it_is_made_with_as_many_threads_as_the_repair(result):
    """A small model has one, whatever the process has."""
    seen, before = set(), torch.get_num_threads()
    note = result.given["train"].network.module.register_forward_hook(lambda *_: seen.add(torch.get_num_threads()))
    torch.set_num_threads(3)
    try:
        result.patch()
        assert (seen, torch.get_num_threads()) == ({1}, 3)
    finally:
        torch.set_num_threads(before)
        note.remove()


@pytest.mark.parametrize("exact", [False, True])
def test_a_model_in_half_precision_gets_a_patch_of_its_own_dtype(half, exact):
    """It is judged as it is stored, goes on the model as it came, and comes off again to the bit."""
    model, result = half
    patch = result.patch(exact=exact)
    assert patch.exact == exact
    assert patch.bases[0].judged["verdict"] == result.verdict
    patched = amends.apply(model, patch)
    assert {v.dtype for v in patched.state_dict().values()} == {next(model.parameters()).dtype}
    assert same(patch.revert(patched), model)
    assert same(patched, result.model) == exact
    x, y = (t[result.split.holdout] for t in result.given["failures"].examples.fetch(0, None))
    accuracy = (patched.float()(x.float()).argmax(1) == y).double().mean()
    assert exact or accuracy == patch.bases[0].judged["holdout"]["after"]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


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


def test_where_more_was_learned_the_test_is_that_of_forgetting(result):
    """Controls learned nothing, so that weights which did are no fair match for them: luck is as likely as it was when
    forgetting alone was tested."""
    learned = {**result.metrics, "learned": True, "p_value": 0.003}
    judged = of(result, metrics=learned).judge(result.after)
    assert (judged["verdict"], judged["p_value"]) == (result.verdict, 0.003)
    assert of(result).judge(result.after)["p_value"] < 0.003
    luck = of(result, metrics={**learned, "p_value": 0.2}).judge(result.after)
    assert (luck["verdict"], luck["why"]) == ("not repaired", "the gain over a control may be chance (p = 0.20)")


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


def test_what_is_short_enough_is_not_made_shorter(result, monkeypatch):
    """Of the sizes up to a share of the weights the longest alone is tried; the others are as they were."""
    from amends.patches import small as form

    shorter = of(result).shorter
    monkeypatch.setattr(form, "ENOUGH", 0.0)
    every = shorter.levels()
    monkeypatch.setattr(form, "ENOUGH", 0.03)
    found = shorter.levels()
    assert 1 < len(found) < len(every)
    assert [level_bytes(level) for level in found] == [level_bytes(level) for level in every[-len(found) :]]
    monkeypatch.setattr(form, "ENOUGH", 1e9)
    assert [level_bytes(level) for level in shorter.levels()] == [level_bytes(every[-1])]


def guards_of(shorter, level):
    return shorter.guards.cost([shorter.after(level)] * 2)


def level_bytes(level) -> dict:
    return {name: m.parts for name, m in level.items() if m is not None}


def test_where_the_verdict_would_not_stand_it_is_exact(result):
    """A control that is as good as can be: no small form is worth more."""
    control = {"removed": 0, "holdout": 1.0, "remaining": 1.0}
    patch = of(result, metrics={**result.metrics, "controls": {"nothing": control}}).patch()
    assert patch.exact
    assert patch.about["exact"] == "in a smaller form it would be not repaired, since removing nothing does as well"
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
    first, *more = hull(candidates(before, after))
    near = next(c for c in more if c.error < 0.1 * first.error)
    assert first.move is None
    assert near.move is not None
    assert near.move.about["kind"] == "low rank"
    assert len(near.move.about["exponents"]) == 2
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


def test_a_step_may_be_three_powers_of_two():
    before = torch.tensor([0.75, -1.5, 0.1], dtype=torch.float64)
    move = as_grid(before, -2, times=3)
    assert move.steps.tolist() == [1, -2, 0]
    again = Grid.of(move.about, move.parts, 3)
    assert again.delta().tolist() == led(move, before).tolist() == [0.75, -1.5, 0.0]
    with pytest.raises(Damaged, match="an invalid step"):
        Grid.of({**move.about, "times": 2}, move.parts, 3)
