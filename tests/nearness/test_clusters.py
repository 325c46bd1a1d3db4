"""Clusters in the model's features, against enumeration and what was planted."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, silhouette_score

from amends.errors import BadInput
from amends.nearness import copies, neighbours
from amends.nearness.neighbours import clusters, features
from tests.conftest import classification, factor
from tests.nearness.points import plainly


def blobs(sizes, spread=0.05, d=6, seed=0):
    """Examples about one axis each, shuffled, of lengths that must not matter; and which axis it was."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = (np.eye(d)[member] + spread * rng.standard_normal((len(member), d))) * rng.uniform(1, 9, (len(member), 1))
    return torch.as_tensor(x), member


@pytest.mark.parametrize("number", [4, None])
def test_blobs_are_recovered_largest_first(number):
    x, member = blobs([10, 40, 5, 20])
    data = plainly(x)
    names = clusters(data, data.network.params, number)
    expected = np.array(["cluster 3", "cluster 1", "cluster 4", "cluster 2"])[member]
    assert names.tolist() == expected.tolist()


def test_small_clusters_beside_a_large_one_are_found():
    """Starts drawn evenly would nearly all lie in the large one."""
    x, member = blobs([400, 6, 5, 4, 3])
    data = plainly(x)
    assert clusters(data, data.network.params, 5).tolist() == [f"cluster {i + 1}" for i in member]


def shapeless(n=200, d=40):
    """Nothing to find, so that every start ends elsewhere."""
    return plainly(torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))


def test_clusters_follow_the_seed_and_not_the_batch():
    data = shapeless()
    theta = data.network.params
    names = clusters(data, theta, 8).tolist()
    assert names == clusters(data, theta, 8).tolist() == clusters(replace(data, batch=200), theta, 8).tolist()
    assert names != clusters(data, theta, 8, seed=1).tolist()


def test_each_example_is_nearest_to_the_mean_of_its_own_cluster():
    data = shapeless(300, 5)
    names, points = clusters(data, data.network.params, 8), features(data, data.network.params).numpy()
    assert len(set(names)) == 8
    means = {name: points[names == name].mean(0) for name in set(names)}
    for name, point in zip(names, points, strict=True):
        assert name == min(means, key=lambda other, point=point: float(((point - means[other]) ** 2).sum()))


def within(points, member):
    return sum(((points[member == j] - points[member == j].mean(0)) ** 2).sum() for j in set(member.tolist()))


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_the_tightest_there_are(seed):
    points = np.random.default_rng(seed).standard_normal((8, 2)) + np.array([[0, 0], [2, 0], [0, 2], [0, 0]] * 2)
    best = min(within(points, np.array(member)) for member in product(range(3), repeat=8))
    assert within(points, neighbours._means(points, 3, seed)) == pytest.approx(best)


def test_the_number_is_that_of_the_best_silhouette(monkeypatch):
    x, _ = blobs([15, 15, 15, 3, 3], spread=0.3, seed=2)
    data = plainly(x)
    theta, points = data.network.params, features(data, data.network.params).numpy()
    tried = {k: clusters(data, theta, k) for k in range(2, 9)}
    shares = {k: silhouette_score(points, member.astype(str)) for k, member in tried.items()}
    monkeypatch.setattr(copies, "CHUNK", 300)
    silhouettes = neighbours._silhouettes(
        points, [np.unique(m.astype(str), return_inverse=True)[1] for m in tried.values()]
    )
    assert silhouettes == pytest.approx(list(shares.values()), abs=1e-6)
    best = max(shares, key=lambda k: shares[k])
    assert best not in (2, 8)
    assert clusters(data, theta).tolist() == tried[best].tolist()
    fewer = max(range(2, best), key=lambda k: shares[k])
    assert clusters(data, theta, most=best - 1).tolist() == tried[fewer].tolist()


def test_what_does_not_stand_apart_is_one_cluster():
    data = shapeless()
    assert set(clusters(data, data.network.params)) == {"cluster 1"}
    x, member = blobs([2, 2])
    data = plainly(x)
    theta = data.network.params
    assert adjusted_rand_score(member, clusters(data, theta)) == 1
    assert clusters(data, theta, most=1).tolist() == ["cluster 1"] * 4
    assert clusters(data[:3], theta).tolist() == ["cluster 1"] * 3
    assert clusters(data[:0], theta).tolist() == []


def test_fewer_places_than_clusters():
    data = plainly(torch.eye(3, dtype=torch.float64)[[0, 0, 1, 0, 1]])
    for number in (2, 4, 5):
        assert clusters(data, data.network.params, number).tolist() == [f"cluster {i}" for i in (1, 1, 2, 1, 2)]
    same = plainly(torch.ones(6, 3, dtype=torch.float64))
    assert clusters(same, same.network.params).tolist() == ["cluster 1"] * 6
    assert neighbours._silhouettes(np.ones((4, 2)), [np.array([0, 0, 1, 1])]) == [0.0]


@pytest.mark.parametrize("number", [0, 61, 2.5, True])
def test_a_number_that_cannot_be_is_refused(number):
    x, y, network = classification()
    with pytest.raises(BadInput, match=f"number is {number}.*; clusters; give"):
        clusters(factor(network, x, y), network.params, number)


def test_a_seed_and_a_most_that_cannot_be_are_refused():
    x, y, network = classification()
    with pytest.raises(BadInput, match="seed is -1; clusters"):
        clusters(factor(network, x, y), network.params, seed=-1)
    with pytest.raises(BadInput, match="most is 0; clusters"):
        clusters(factor(network, x, y), network.params, most=0)
