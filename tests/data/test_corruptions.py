"""Damage is what it says, where it says, and the same again with the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from amends.data import flip_labels, gaussian_noise, poison, salt_and_pepper
from amends.errors import BadInput

LABELS = np.repeat(np.arange(3), 4000)


def test_flips_follow_the_confusion_matrix():
    y = LABELS
    flipped, changed = flip_labels(y, {(0, 1): 0.3, (0, 2): 0.2, (2, 0): 0.5}, seed=0)
    assert np.array_equal(changed, flipped != y)
    assert ((y == 0) & (flipped == 1)).sum() == pytest.approx(1200, abs=100)
    assert ((y == 0) & (flipped == 2)).sum() == pytest.approx(800, abs=100)
    assert (flipped[y == 1] == 1).all()


def images(n=600, dtype=np.float64):
    rng = np.random.default_rng(1)
    return rng.uniform(50, 200, (n, 10, 10)).astype(dtype), np.arange(n) % 3


def test_salt_and_pepper_is_in_so_many_pixels_of_so_many_images():
    x, y = images()
    noisy, hit = salt_and_pepper(x, y, (0, 2), 0.3, seed=0, pixels=0.25)
    assert [int(hit[y == c].sum()) for c in range(3)] == [60, 0, 60]
    assert np.array_equal(noisy[~hit], x[~hit])
    changed = noisy[hit] != x[hit]
    assert set(np.unique(noisy[hit][changed])) == {0, 255}
    n = changed.size  # 12,000 pixels: within four deviations of a binomial
    assert changed.sum() == pytest.approx(0.25 * n, abs=4 * np.sqrt(n * 0.25 * 0.75))
    salt = (noisy[hit][changed] == 255).sum()
    assert salt == pytest.approx(changed.sum() / 2, abs=4 * np.sqrt(changed.sum() / 4))


def test_gaussian_noise_has_its_deviation_and_its_limits():
    x, y = images()
    noisy, hit = gaussian_noise(x, y, (1,), 0.5, seed=0, deviation=8.0)
    assert [int(hit[y == c].sum()) for c in range(3)] == [0, 100, 0]
    assert np.array_equal(noisy[~hit], x[~hit])
    added = (noisy - x)[hit]  # 10,000 values
    assert added.mean() == pytest.approx(0, abs=4 * 8 / 100)
    assert added.std() == pytest.approx(8, abs=4 * 8 / np.sqrt(2 * 10_000))
    whole, hit = gaussian_noise(x.astype(np.uint8), y, (1,), 0.5, seed=0, deviation=200.0)
    assert whole.dtype == np.uint8
    assert {0, 255} <= set(whole[hit].ravel().tolist())  # cut off, not wrapped around
    cut, _ = gaussian_noise(x, y, (1,), 1.0, seed=0, deviation=200.0, limits=(10, 90))
    assert (cut[y == 1].min(), cut[y == 1].max()) == (10, 90)


def logistic(seed, features=5, classes=3):
    torch.manual_seed(seed)
    return nn.Linear(features, classes, dtype=torch.float64)


def by_hand(weight, bias, x, y, epsilon):
    """FGSM of a linear softmax: the gradient of −log p(y|x) is Wᵀ(p − onehot(y))."""
    logits = x @ weight.T + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True) - np.eye(weight.shape[0])[y]
    moved = x + epsilon * np.sign(p @ weight)
    return moved, (moved @ weight.T + bias).argmax(1)


def test_poison_is_the_fast_gradient_sign_method():
    rng = np.random.default_rng(0)
    x, y, victim = rng.standard_normal((90, 5)), np.arange(90) % 3, logistic(0)
    attacked, called, hit = poison(x, y, (0, 1), 0.4, seed=3, victims=[victim], epsilon=0.3)
    assert [int(hit[y == c].sum()) for c in range(3)] == [12, 12, 0]
    weight, bias = victim.weight.detach().numpy(), victim.bias.detach().numpy()
    moved, said = by_hand(weight, bias, x, y, 0.3)
    np.testing.assert_allclose(attacked[hit], moved[hit], rtol=0, atol=1e-15)
    assert np.array_equal(called[hit], said[hit])
    assert (called[hit] != y[hit]).any()
    assert np.array_equal(attacked[~hit], x[~hit])
    assert np.array_equal(called[~hit], y[~hit])
    cut, _, _ = poison(x, y, (0, 1), 0.4, seed=3, victims=[victim], epsilon=0.3, limits=(-0.5, 0.5))
    np.testing.assert_allclose(cut[hit], np.clip(moved[hit], -0.5, 0.5), rtol=0, atol=1e-15)


def test_every_victim_attacks_its_own_share_and_stays_as_it_is():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((90, 5)), np.arange(90) % 3
    victims = [logistic(1).train(), logistic(2).eval()]
    before = [v.weight.detach().clone() for v in victims]
    attacked, _, hit = poison(x, y, (0, 1, 2), 1.0, seed=0, victims=victims, epsilon=0.3)
    ends = [by_hand(v.weight.detach().numpy(), v.bias.detach().numpy(), x, y, 0.3)[0] for v in victims]
    by = [np.isclose(attacked, end, rtol=0, atol=1e-12).all(1) for end in ends]
    assert hit.all()
    assert (by[0] | by[1]).all()
    assert min(int((by[0] & ~by[1]).sum()), int((by[1] & ~by[0]).sum())) > 20
    assert [v.training for v in victims] == [True, False]
    assert all(torch.equal(v.weight, w) and v.weight.grad is None for v, w in zip(victims, before, strict=True))


def damages():
    x, y = images(60)
    flat = x.reshape(60, -1)[:, :5]
    return {
        "flips": lambda seed: flip_labels(y, {(0, 1): 0.5}, seed),
        "salt_and_pepper": lambda seed: salt_and_pepper(x, y, (0,), 0.5, seed),
        "gaussian_noise": lambda seed: gaussian_noise(x, y, (0,), 0.5, seed, 3.0),
        "poison": lambda seed: poison(flat, y, (0,), 0.5, seed, [logistic(0), logistic(1)], 20.0),
    }


@pytest.mark.parametrize("name", list(damages()))
def test_the_same_seed_does_the_same_damage(name):
    damage = damages()[name]
    one, same, other = damage(0), damage(0), damage(1)
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[-1], other[-1])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda x, y: flip_labels(y, {(0, 1): 0.7, (0, 2): 0.7}, 0), "shares of class 0"),
        (lambda x, y: salt_and_pepper(x, y, (0,), 1.5, 0), "share is 1.5"),
        (lambda x, y: salt_and_pepper(x, y, (0,), 0.5, 0, pixels=-1), "pixels is -1"),
        (lambda x, y: salt_and_pepper(x, y, (7,), 0.5, 0), "no example has the label 7"),
        (lambda x, y: gaussian_noise(x, y[:5], (0,), 0.5, 0, 1.0), "60 inputs but 5 labels"),
        (lambda x, y: gaussian_noise(x, y, (0,), 0.5, 0, -1.0), "deviation is -1.0"),
        (lambda x, y: poison(x, y, (0,), 0.5, 0, [], 0.1), "victims is empty"),
        (lambda x, y: poison(x.astype(np.uint8), y, (0,), 0.5, 0, [logistic(0)], 0.1), "x is uint8"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(wrong, said):
    with pytest.raises(BadInput, match=said) as error:
        wrong(*images(60))
    assert str(error.value).count(";") == 2
