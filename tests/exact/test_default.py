"""The default for every budget: scores, members and the number that must be wrong against `committee`, and what
forgetting ends at, all by a number."""

from __future__ import annotations

from copy import copy
from itertools import product

import numpy as np
import pytest

import amends
from amends import methods
from amends.editors import tangent
from amends.evidence import params
from tests.exact import tanh
from tests.exact.committee import LEARNED, Committee
from tests.exact.moves import harmless, trained
from tests.exact.weighing import trust
from tests.exact.world import crowd, module, pair, vector


def near(found, expected, within):
    """Relative to the largest."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=within * np.abs(expected).max())


def same(w, budget, seed=0, within=1e-6, found_within=1e-4, **given):
    """All that `identify` says, within so much: outputs along a tangent are a difference over 4e-9 of the weights, and
    sixty steps of L-BFGS magnify rounding. Two scores may lie so near to each other that this changes their order, and
    `found` and `wrong` depend on nothing else."""
    expected, remaining = Committee(w, budget, seed).decide(), pair(w.rx, w.ry) if len(w.rx) else None
    given = given or {"method": methods.default(budget)}
    sets = pair(w.x, w.y), pair(w.fx, w.fy), remaining
    found = amends.identify(module(w.theta), *sets, seed=seed, batch_size=10**6, **given)
    near(found.scores, expected.scores, max(within, 1e-4) if expected.trusted else within)  # mistakes are fitted
    near(found.unseen, expected.unseen, within)
    near(vector(found.edited.mean.values()) - w.theta, expected.end.way, 1e-8)
    near(found.raw, tanh.log_p(w.theta, w.x, w.y) - expected.end.log_p(w.x, w.y), 1e-8)
    assert [m.name for m in found.members] == list(expected.members)
    for m in found.members:
        if m.name not in expected.trials:
            assert (m.found, m.unseen, m.weight, m.wrong) == (None, None, 0, 0)
            assert m.refused.startswith("there are too few right examples to show")
            continue
        tried = expected.trials[m.name]
        assert m.found == (pytest.approx(tried.excess[1], rel=found_within, abs=1e-12) if expected.judged else None)
        assert m.unseen == (pytest.approx(tried.balanced, rel=within) if tried.ends else None)
        assert m.weight == pytest.approx(expected.weights[m.name], rel=10 * max(within, found_within), abs=1e-12)
        assert m.wrong == pytest.approx(expected.wrong(m.name), rel=found_within, abs=1e-12)
    shares = [expected.wrong(name) for name, weight in expected.weights.items() if weight]
    assert abs(found.wrong - len(w.x) * max(shares)) <= 0.5 + found_within * len(w.x)
    return expected


def surest_is_not_most(c):
    """What the surest member found, beyond noise, is less than what another found."""
    most, surest = (max(c.trials.values(), key=by) for by in (lambda t: t.excess[1], lambda t: trust(t) * t.excess[1]))
    return c.trusted > 0 and surest.excess[1] < most.excess[1]


WORLDS = {  # sizes of D, failures and right examples and a seed, and what makes it differ from the others
    "all is sure": (crowd(700, 24, 200, 5), lambda c: c.trusted == c.believed == 1 and min(c.weights.values()) > 0),
    "one kind of failure": (crowd(700, 24, 200, 2, called=(0,)), lambda c: c.relevance.min() < 0.1 < c.believed < 1),
    "in doubt": (crowd(700, 24, 200, 2), lambda c: c.trusted < 1 or min(c.weights.values()) == 0),
    "nothing but noise": (crowd(240, 24, 60, 0), lambda c: c.trusted < 0.3),
    "shorter steps": (crowd(700, 24, 30, 10, steps=200), lambda c: c.trials[LEARNED].way == 1),
    "most may be noise": (crowd(240, 12, 40, 150), surest_is_not_most),
    "D is fitted": (crowd(240, 24, 60, 5), lambda c: c.believed == 0 and c.failing == np.mean(c.said != c.w.y)),
    "a single failure": (crowd(240, 1, 60, 28), lambda c: c.believed == 0 and c.failing == np.mean(c.said != c.w.y)),
    "a class nobody knows": (crowd(700, 24, 200, 4, known=(0, 1)), lambda c: 2 not in (*c.w.fy, *c.jy)),
}
RIGHT = (0, 3, 4, 19, 20)  # from four on they hold an edit, from twenty on they say how high a right label scores


@pytest.mark.parametrize("budget", ["quick", "default"])
@pytest.mark.parametrize("world", WORLDS)
def test_what_stands_behind_failures(world, budget, monkeypatch):
    """Outputs along a tangent are derivatives here, so that nothing but rounding differs."""
    monkeypatch.setattr(tangent, "AGREE", -1.0)
    w, differs = WORLDS[world]
    assert differs(same(w, budget, within=1e-9, found_within=1e-9))


@pytest.mark.parametrize(("budget", "right"), [("thorough", 3), *product(["quick", "default"], RIGHT)])
def test_few_right_examples(budget, right):
    made = same(crowd(240, 24, right, 5), budget)
    assert (LEARNED in made.trials, "kfac_ewc" in made.trials) == (right >= 20, right < 4)


@pytest.mark.parametrize(("budget", "sizes", "options"), [
    ("quick", (5200, 260, 1100, 0), {}), ("quick", (22_500, 24, 200, 4), {}),
    ("default", (10_100, 1010, 2100, 3), {}), ("thorough", (4100, 8100, 2100, 4), {}),
])  # fmt: skip
def test_no_more_of_each_set_than_a_budget_takes(budget, sizes, options, monkeypatch):
    """Where D is larger than the sample that members are weighed on, one of them does not count. Derivatives, since
    among so many scores two may be as near to each other as a difference errs; and should rounding change their order,
    a few examples are a little more or less sure."""
    monkeypatch.setattr(tangent, "AGREE", -1.0)
    made = same(crowd(*sizes, **options), budget, within=1e-3)
    assert len(made.at) == made.n or min(made.weights.values()) == 0 or made.n > 20_000


def test_told_nothing_but_another_seed():
    w, _ = WORLDS["all is sure"]
    assert np.abs(same(w, "default", seed=3, method=None).scores - Committee(w, "default").decide().scores).max() > 0.1


@pytest.mark.parametrize("right", [200, 0])
def test_a_large_model(right, monkeypatch):
    monkeypatch.setattr(params, "LARGE", tanh.SIZE)
    same(crowd(700, 24, right, 4), "default, large", method=methods.default())


CAUSES = np.array([2, 3, 11, 17, 25])
FORGETTING = {  # rates in turn and passes
    "quick": ((4e-3,), 3.0), "default": ((4e-3, 4e-4), 4.0), "thorough": ((1e-3, 1e-4), 10.0),
    "default, large": ((1e-4, 3e-5), 4.0),
}  # fmt: skip


def kept_alone(theta, w, budget, seed=0):
    """Where training on what is kept ends, and with which of the rates: the first that does no harm there, or the
    last. A small D is gone through until there are 128 steps, a large one until 2¹⁶ examples were read."""
    (rates, passes), n = FORGETTING[budget], len(w.x)
    x, y = (np.delete(part, CAUSES, 0) for part in (w.x, w.y))
    size = 64 if n < 20_000 else 256
    epochs = max(min(passes, max(1.0, 65536 / n)), 128 * size / n)
    ends = (trained(theta, x, y, np.ones(len(x)), rate, epochs, size, seed) for rate in rates)
    return harmless(theta, x, y, ends)


def treated(theta, w, seed=0, **given):
    after = amends.treat(module(theta), pair(w.x, w.y), CAUSES, seed=seed, batch_size=10**6, **given)
    return vector(after.parameters())


@pytest.mark.parametrize(("budget", "n", "seed"), [
    *product(["quick", "default", "thorough"], [60, 700, 3000, 22_500], [0]), ("default", 700, 3),
])  # fmt: skip
def test_what_is_kept_is_trained_on(budget, n, seed):
    w = crowd(n, 24, 60, 1)
    end, way = kept_alone(w.theta, w, budget, seed)
    assert way == 0
    assert np.abs(end - w.theta).max() > 0.01
    near(treated(w.theta, w, seed, method=methods.default(budget)) - w.theta, end - w.theta, 1e-8)


@pytest.mark.parametrize(("budget", "scale", "last"), [
    ("quick", 1e3, 0), ("default", 1e3, 1), ("thorough", 3e3, 1), ("default, large", 3e4, 1), ("default", 3e3, 1),
])  # fmt: skip
def test_shorter_steps_where_the_usual_ones_do_harm(budget, scale, last, monkeypatch):
    """Inputs are large and their weights small, so that steps are too long: the first, or all of them."""
    w = copy(crowd(240, 24, 60, 3, steps=400))
    w.x, theta = scale * w.x, np.where(np.arange(tanh.SIZE) < tanh.ENDS[0], w.theta / scale, w.theta)
    end, way = kept_alone(theta, w, budget)
    assert way == last
    if budget == "default, large":
        monkeypatch.setattr(params, "LARGE", tanh.SIZE)
    given = {} if "default" in budget else {"method": methods.default(budget)}
    near(treated(theta, w, **given) - theta, end - theta, 1e-8)
