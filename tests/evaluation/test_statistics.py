"""What was fixed and broken, and how sure one can be, against textbook definitions."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import confusion_matrix

from amends.errors import BadInput
from amends.evaluation.statistics import (
    BeforeAfter,
    by_label,
    calibration,
    confusion,
    harmed,
    interval,
    mcnemar,
    paired_together,
)
from amends.evidence.network import Network
from amends.likelihoods import Categorical, Custom
from tests.conftest import classification, factor, regression


def test_mcnemar_is_the_binomial_test():
    for fixed, broken in ((10, 2), (3, 3), (0, 7), (25, 11)):
        expected = stats.binomtest(fixed, fixed + broken).pvalue
        assert mcnemar(fixed, broken) == pytest.approx(expected)
    assert mcnemar(0, 0) == 1.0


@pytest.mark.parametrize(("fixed", "broken"), [(1500, 1500), (1400, 1600), (1700, 1300), (2990, 10), (0, 3000)])
def test_mcnemar_of_many(fixed, broken):
    """2⁻³⁰⁰⁰ is below the smallest float there is."""
    assert mcnemar(fixed, broken) == pytest.approx(stats.binomtest(fixed, 3000).pvalue, rel=1e-8, abs=0)
    assert mcnemar(fixed, broken) == mcnemar(broken, fixed)


def test_interval_is_wilsons():
    for hits, n in ((0, 10), (7, 10), (50, 50), (1, 200)):
        expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
        assert interval(hits / n, n) == pytest.approx((expected.low, expected.high), abs=2e-4)


def test_before_and_after_count_what_was_fixed_and_broken():
    pair = BeforeAfter(np.array([0, 0, 1, 1], bool), np.array([1, 0, 0, 1], bool))
    assert (pair.fixed, pair.broken) == (1, 1)
    assert pair.summary == {"before": 0.5, "after": 0.5, "n": 4}


def drawn_one_by_one(before, after, draws=4000, seed=1):
    """The bootstrap as it is explained: examples drawn with replacement, before and after together."""
    rng, n = np.random.default_rng(seed), len(before)
    changes = []
    for _ in range(draws):
        at = rng.integers(n, size=n)
        changes.append(after[at].mean() - before[at].mean())
    return np.percentile(changes, [2.5, 97.5])


def paired(before, after, seed=0, **draws):
    return paired_together([(1.0, BeforeAfter(before, after))], seed, **draws)


@pytest.mark.parametrize(("fixed", "broken", "right"), [(40, 15, 100), (3, 30, 20), (0, 12, 0)])
def test_paired_is_the_bootstrap_over_examples(fixed, broken, right):
    before, after = np.zeros((2, 200), dtype=bool)
    after[:fixed], before[fixed : fixed + broken] = True, True
    before[-right or 200 :], after[-right or 200 :] = True, True
    expected = drawn_one_by_one(before, after)
    assert paired(before, after) == pytest.approx(expected, abs=0.011)  # two steps of 1/200
    assert paired(before, after) == paired(before, after)
    assert paired(before, after, seed=5) != paired(before, after, seed=6)


def test_paired_at_its_ends():
    yes, no, none = np.ones(50, bool), np.zeros(50, bool), np.zeros(0, bool)
    assert paired(none, none) == [0.0, 0.0]
    assert paired(yes, yes) == [0.0, 0.0]
    assert paired(no, yes) == [1.0, 1.0]
    assert paired(yes, no) == [-1.0, -1.0]
    with pytest.raises(BadInput, match="draws is 0; paired"):
        paired(yes, no, draws=0)


def test_paired_holds_no_draw_of_many_examples():
    before, after = np.zeros((2, 300_000), dtype=bool)
    after[:1000] = True
    tracemalloc.start()
    paired(before, after)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 5e6


def sure(p, right, likelihood=None, dtype=torch.float64, batch=7):
    """A model of two classes that gives the first of them p, and whether that is the target."""
    layer = torch.nn.Linear(1, 2, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [0.0]]))
        layer.bias.zero_()
    p, y = torch.tensor(p, dtype=torch.float64), 1 - torch.tensor(np.array(right)).long()
    network = Network.of(layer, likelihood or Categorical())
    return factor(network, torch.logit(p)[:, None].to(dtype), y, batch=batch), network.params


def calibrated_by(data, theta, bins=15):
    return calibration(data, data.outputs(theta), bins)


def test_calibration_by_hand():
    """Bins {.6, .7} at .5 right and {.8, .99} at 1: ½ (.65 − .5) + ½ (1 − .895)."""
    data, theta = sure([0.8, 0.6, 0.99, 0.7], [1, 1, 1, 0])
    calibrated = calibrated_by(data, theta, bins=2)
    loss = -np.log([0.8, 0.6, 0.99, 0.3]).mean()
    assert calibrated == pytest.approx({"error": 0.1275, "confidence": 0.7725, "loss": loss, "n": 4})
    one = calibrated_by(data, theta, bins=1)
    assert one is not None
    assert one["error"] == pytest.approx(0.0225)


def test_calibration_is_the_sum_over_bins_of_equal_mass():
    rng = np.random.default_rng(0)
    p = 0.5 + 0.5 * rng.random(150)
    hit = rng.random(150) < p**2
    order = np.argsort(p)
    expected = sum(abs(p[part].mean() - hit[part].mean()) / 15 for part in np.split(order, 15))
    for batch in (7, 150):
        calibrated = calibrated_by(*sure(p, hit, batch=batch))
        assert calibrated is not None
        assert calibrated["error"] == pytest.approx(expected)


def test_calibration_does_not_depend_on_the_order_of_equally_sure_ones():
    hit = np.arange(40) < 36
    for rows in (hit, hit[::-1], np.random.default_rng(0).permutation(hit)):
        calibrated = calibrated_by(*sure(np.full(40, 0.9), rows))
        assert calibrated is not None
        assert calibrated["error"] == pytest.approx(0.0, abs=1e-12)


def test_a_weight_of_two_is_the_example_listed_twice():
    rng = np.random.default_rng(1)
    p = 0.5 + 0.5 * rng.random(40)
    hit = rng.random(40) < p
    (data, theta), twice = sure(p, hit), np.repeat(np.arange(40), 1 + (np.arange(40) % 3 == 0))
    weights = torch.ones(40, dtype=torch.float64)
    weights[::3] = 2
    for bins in (1, 4, 15):
        heavy = calibrated_by(replace(data, weights=weights), theta, bins)
        listed = calibrated_by(*sure(p[twice], hit[twice]), bins)
        assert heavy == pytest.approx({**listed, "n": 40})
        assert heavy == pytest.approx(calibrated_by(3 * replace(data, weights=weights), theta, bins))
        assert heavy != pytest.approx(calibrated_by(data, theta, bins))


def test_calibration_is_that_of_the_family_in_float64():
    half = Custom(lambda out, y: 0.5 * Categorical()(out, y))
    assert calibrated_by(*sure([0.8, 0.6], [1, 0], half)) == calibrated_by(*sure([0.8, 0.6], [1, 0]))
    calibrated = calibrated_by(*sure([1 - 1e-9], [True], dtype=torch.float32))
    assert calibrated is not None
    assert calibrated["confidence"] == pytest.approx(1 - 1e-9, abs=1e-12)
    assert calibrated["confidence"] < 1


def test_calibration_is_for_classes():
    x, y, network = regression()
    assert calibrated_by(factor(network, x, y), network.params) is None
    data, theta = sure([0.8, 0.6], [1, 0])
    assert calibrated_by(data[:0], theta) is None
    soft = factor(data.network, data.examples.x, torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64))
    assert calibrated_by(soft, theta) is None
    with pytest.raises(BadInput, match="bins is 0; calibration"):
        calibrated_by(data, theta, bins=0)


def test_confusion_has_the_truth_in_rows():
    x, y, network = classification(n=80)
    with torch.no_grad():
        said = network.module(x).argmax(1)
    table = confusion(y.numpy(), said.numpy(), 4)
    assert table.tolist() == confusion_matrix(y, said, labels=range(4)).tolist()
    assert table.tolist() != table.T.tolist()
    assert table[3].sum() == 0


def changed(**counts):
    """Names, and before and after, of so many fixed, broken, right and wrong throughout under each name."""
    rows = []
    for name, numbers in counts.items():
        for (was, now), number in zip([(0, 1), (1, 0), (1, 1), (0, 0)], numbers, strict=True):
            rows += [(name, was, now)] * number
    names, before, after = zip(*np.random.default_rng(0).permutation(np.array(rows, dtype=object)), strict=True)
    return np.array(names, dtype=object), BeforeAfter(np.array(before, dtype=bool), np.array(after, dtype=bool))


def test_by_label_counts_and_tests_each_name():
    rows = by_label(*changed(b=(2, 9, 20, 1), a=(5, 1, 0, 4)))
    assert list(rows) == ["a", "b"]
    p = [stats.binomtest(1, 6).pvalue, stats.binomtest(2, 11).pvalue]
    assert rows["a"] == pytest.approx({"n": 10, "before": 0.1, "after": 0.5, "fixed": 5, "broken": 1, "p_value": p[0]})
    b = {"n": 32, "before": 29 / 32, "after": 22 / 32, "fixed": 2, "broken": 9, "p_value": p[1]}
    assert rows["b"] == pytest.approx(b)
    assert by_label(np.zeros(0, dtype=object), BeforeAfter(np.zeros(0, bool), np.zeros(0, bool))) == {}


def test_harmed_is_what_fell_beyond_chance():
    """7 of 7 broken has p = .016 and 10 of 10 p = .002; of four names each must have .0125."""
    rows = by_label(*changed(better=(20, 0, 0, 0), chance=(0, 7, 0, 0), fell=(0, 10, 30, 0), worst=(0, 10, 0, 0)))
    assert harmed(rows) == ["worst", "fell"]
    assert harmed(rows, least=0.1) == ["chance", "worst", "fell"]
    assert harmed({k: rows[k] for k in ("chance", "better")}) == ["chance"]
    assert harmed({}) == []


def told(sizes, moves):
    """So many copies each, fixed (1), broken (−1) or as they were (0), with the witness each is a copy of."""
    move = np.repeat(moves, sizes)
    first = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    return BeforeAfter(move < 0, move > 0, first)


def test_copies_are_one_witness():
    """77 copies of one failure that is fixed: the accuracy is 1, and it is one coin."""
    pair = told([77], [1])
    assert (pair.fixed, len(pair), pair.witnesses, pair.alone) == (77, 77, 1, 1.0)
    assert pair.p_value == 1.0
    assert interval(1.0, pair.alone) == interval(1.0, 1)
    assert BeforeAfter(pair.before, pair.after).p_value < 1e-20


def test_the_test_flips_witnesses_not_copies():
    """Every way the coins can fall, counted."""
    sizes, moves = [3, 1, 2, 1, 5], [1, -1, 1, 1, -1]
    sums = [sum(s * m * c for s, m, c in zip(sizes, moves, coins, strict=True))
            for coins in np.stack(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T]  # fmt: skip
    gained = sum(s * m for s, m in zip(sizes, moves, strict=True))
    expected = np.mean([abs(s) >= abs(gained) for s in sums])
    assert told(sizes, moves).p_value == pytest.approx(expected, rel=1e-12)
    single = told([1] * 12, [1] * 8 + [-1] * 2 + [0] * 2)
    assert single.p_value == pytest.approx(mcnemar(8, 2), rel=1e-12)
    assert paired_together([(1.0, single)]) == paired(single.before, single.after)


def test_the_bootstrap_draws_witnesses():
    rng, sizes = np.random.default_rng(0), rng_sizes()
    moves = rng.choice([-1, 0, 1], len(sizes), p=[0.1, 0.3, 0.6])
    drawn = rng.integers(len(sizes), size=(4000, len(sizes)))
    expected = np.percentile((sizes * moves)[drawn].sum(1) / sizes[drawn].sum(1), [2.5, 97.5])
    assert paired_together([(1.0, told(sizes, moves))]) == pytest.approx(expected, abs=0.03)  # of 60 witnesses


def rng_sizes():
    return np.random.default_rng(3).integers(1, 8, size=60)


def test_a_part_of_copies_is_one_witness_too():
    pair = told([3, 2, 1], [1, 0, 1]).then(told([2], [1]))
    assert pair.first.tolist() == [0, 0, 0, 3, 3, 5, 6, 6]
    part = pair[np.array([1, 2, 5, 7])]
    assert part.first.tolist() == [0, 0, 2, 3]
    rows = by_label(np.array(list("aaabbbbb")), pair)
    assert rows["a"]["p_value"] == 1.0
    assert rows["b"] == {"n": 5, "before": 0.0, "after": 0.6, "fixed": 3, "broken": 0, "p_value": pytest.approx(0.5)}
