"""What is held against the labels, beside slow references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from amends.evaluation import agreement


def drawn(n=90, classes=4, tells=0.6, seed=0):
    """Labels of uneven classes, and outputs that know something of them."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=[0.4, 0.3, 0.2, 0.1])
    return y, rng.normal(size=(n, classes)) + tells * (y[:, None] == np.arange(classes))


def by_dealing(y, outputs, times=4000):
    """How many standard deviations the ranks of the labels' outputs are above those of labels dealt out anew."""
    ranks = np.stack([stats.rankdata(c) for c in (outputs - outputs.mean(1, keepdims=True)).T], 1) / len(y)
    rng, at = np.random.default_rng(1), np.arange(len(y))
    dealt = [ranks[at, rng.permutation(y)].sum() for _ in range(times)]
    return (ranks[at, y].sum() - np.mean(dealt)) / np.std(dealt)


@pytest.mark.parametrize("tells", [0.0, 0.3, 0.8])
def test_unknown_is_where_dealing_the_labels_out_anew_would_do_as_well(tells):
    y, outputs = drawn(tells=tells)
    per_example = (by_dealing(y, outputs) + 2) / len(y) ** 0.5
    for knows in (per_example - 0.03, per_example + 0.03):  # 4,000 deals: 0.02 is two of their standard errors
        assert agreement.unknown(y, outputs, knows) == (per_example < knows)


def test_unknown_heeds_neither_scale_nor_a_single_output_that_is_huge():
    y, outputs = drawn(n=400, tells=2.0)
    assert not agreement.unknown(y, 1e6 * outputs, agreement.LEARNED)
    outputs[0] *= 1e9
    assert not agreement.unknown(y, outputs, agreement.LEARNED)
    assert agreement.unknown(y, outputs[np.random.default_rng(0).permutation(400)], agreement.LEARNED)
    assert agreement.unknown(y, np.ones_like(outputs), agreement.LEARNED)
    assert not agreement.unknown(np.zeros(400, dtype=int), outputs, agreement.LEARNED), "one class alone tells nothing"


def test_how_much_an_example_moves_kappa():
    """Beside leaving it out: (n − 1)(κ − κ₋ᵢ) up to 1/n."""
    y, outputs = drawn(n=300)
    said = outputs.argmax(1)
    kappa, moves = agreement._kappa(y, said)
    assert kappa == agreement.beyond_guessing(y, said)[0]
    assert abs(moves.mean()) < 1e-12
    for i in range(0, 300, 37):
        without = agreement.beyond_guessing(np.delete(y, i), np.delete(said, i))[0]
        assert moves[i] == pytest.approx(299 * (kappa - without), abs=0.03)


def test_knowing_more_is_threefold_odds_beyond_chance():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)

    def right(share):
        return np.where(rng.random(1000) < share, y, 1 - y)

    assert agreement.knows_more(y, right(0.6), right(0.8))
    assert not agreement.knows_more(y, right(0.8), right(0.85)), "more, but not far more"
    assert not agreement.knows_more(y[:20], right(0.6)[:20], right(0.8)[:20]), "far more, but of few"
    assert not agreement.knows_more(y, right(0.8), right(0.6))


def test_a_rare_class_that_is_hardly_ever_said_is_no_broken_setup():
    """One-sided wrong labels make a class rare, and a sound model then says the other one; another reading that says it
    more often is right no more often."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.22).astype(int)
    said = np.zeros(400, dtype=int)
    other = np.where(rng.random(400) < 0.78, y, 1 - y)
    assert agreement.beyond_guessing(y, other)[0] > 0.25
    assert not agreement.knows_more(y, said, other)
    assert agreement.knows_more(y, said, y)


@pytest.mark.parametrize("times", [0.01, 100.0])
def test_the_scale_that_explains_the_labels_best(times):
    """Beside a minimiser; the factors that are tried are 12 % apart."""
    y, outputs = drawn(n=500, tells=2.0)
    assert agreement.other_scale(y, outputs) is None

    def loss(log_factor):
        scaled = np.exp(log_factor) * times * outputs
        return float((special.logsumexp(scaled, 1) - scaled[np.arange(500), y]).mean())

    best = optimize.minimize_scalar(loss, bounds=(-7, 7), method="bounded")
    factor, gained = agreement.other_scale(y, times * outputs)
    assert np.log(factor) == pytest.approx(best.x, abs=0.07)
    assert gained == pytest.approx((loss(0) - best.fun) / stats.entropy(np.bincount(y)), rel=2e-2)
