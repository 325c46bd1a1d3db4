"""On a CPU: few threads for a small model, parts of a batch that the process keeps the memory of, and images with their
channels side by side where that is faster."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.curvature import backprop
from amends.data.examples import examples
from amends.editors import LBFGS
from amends.evidence import cpu
from amends.evidence.network import Network
from amends.likelihoods import Categorical


@pytest.fixture
def three():
    """Threads, in a process that has one."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


SEEN: list[tuple[int, int, bool]] = []  # threads, examples, and whether channels lie side by side


class Noting(nn.Module):
    """Notes how it and its copies are computed."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x):
        SEEN.append((torch.get_num_threads(), len(x), x.ndim == 4 and x.stride(1) == 1))
        return self.layers(x)


def of_width(width):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 2))


def sets_of(model, x):
    """Train, and what of it the model fails and gets right."""
    y = (x.flatten(1)[:, 0] > 0).long()
    with torch.no_grad():
        wrong = model(x).argmax(1) != y
    return (x, y), (x[wrong], y[wrong]), (x[~wrong], y[~wrong])


def network(layers, n=5, shape=(4,)):
    data = examples((torch.randn(n, *shape), torch.zeros(n, dtype=torch.long)), "train")
    return Network.of(layers, Categorical()), data


@pytest.mark.parametrize(("width", "expected"), [(8, 1), (1500, 3)])
def test_threads_follow_from_the_size_of_the_model(three, width, expected):
    torch.manual_seed(0)
    model = Noting(of_width(width))
    sets = sets_of(model, torch.randn(40, 4))
    amends.identify(model, *sets, method=amends.methods.grad_dot())
    assert SEEN[-1][0] == expected
    assert torch.get_num_threads() == 3


def test_a_cost_is_that_of_one_example():
    for n in (1, 10):
        cost = cpu.watched(*network(nn.Linear(4, 3), n), 1)
        assert cost == cpu.Cost(operations=2 * 4 * 3, made=3 * 4, pools=False)


def test_a_model_that_cannot_be_watched_is_computed_as_before(three, monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("not here")

    monkeypatch.setattr(cpu, "FlopCounterMode", refused)
    layer, data = network(nn.Linear(4, 3))
    assert cpu.settle(layer, data, 256) == 256
    assert torch.get_num_threads() == 3


# --- examples at once ------------------------------------------------------------------------------------------------


def test_a_part_of_a_batch_makes_no_more_than_is_kept(monkeypatch):
    layer, data = network(nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2, bias=False)))
    cost = cpu.watched(layer, data, 2)
    assert cost.made == 4 * (100 + 100 + 2)
    monkeypatch.setattr(cpu, "KEPT", 40 * cost.made)
    assert cpu.at_once(layer, cost) == 32


def test_a_part_of_a_batch_makes_as_much_as_the_weights_take(monkeypatch):
    """Or nothing but gradients would be computed."""
    layer, data = network(nn.Linear(400, 100, bias=False), shape=(400,))
    cost = cpu.watched(layer, data, 2)
    monkeypatch.setattr(cpu, "KEPT", cost.made)
    assert cost.made == 4 * 100
    assert 400 < cpu.at_once(layer, cost) == 512


@pytest.mark.parametrize("method", ["ewc", "functional", "default"])
def test_a_larger_batch_size_changes_no_bit(monkeypatch, method):
    """Whatever it is, parts and shards of a set are those of the most examples at once."""
    torch.manual_seed(0)
    monkeypatch.setattr(cpu, "KEPT", 2**13)
    model = Noting(of_width(16))
    sets = sets_of(model, torch.randn(700, 4))
    way = getattr(amends.methods, method)()
    SEEN.clear()
    one, other = (amends.identify(model, *sets, method=way, batch_size=b).scores for b in (100, 4096))
    assert max(n for _, n, _ in SEEN[8:]) == 32
    np.testing.assert_array_equal(one, other)


# --- images ----------------------------------------------------------------------------------------------------------


class Viewing(nn.Module):
    def forward(self, x):
        return x.view(len(x), -1)


def small_cnn(pooling, flat=None, channels=3):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), pooling, nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(),
        flat or nn.Flatten(), nn.Linear(4 * 16, 2),
    )  # fmt: skip


POOLED = {"largest": nn.MaxPool2d(2), "mean": nn.AvgPool2d(2)}


@pytest.mark.parametrize("pooling", POOLED)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_model_that_pools_images_is_computed_with_their_channels_side_by_side(pooling, channels):
    layer, data = network(small_cnn(POOLED[pooling], channels=channels), 6, (channels, 8, 8))
    x, _ = data.fetch(0, 6)
    usual = layer.outputs(layer.params, x)
    cpu.settle(layer, data, 256)
    seen = []
    handle = layer.module[0].register_forward_hook(lambda *given: seen.append(given[-1].stride(1)))
    other = layer.outputs(layer.params, x)
    handle.remove()
    assert layer.room.channels_last
    assert seen == [1]
    torch.testing.assert_close(other, usual, rtol=1e-5, atol=1e-6)  # float32, summed in another order


@pytest.mark.parametrize("method", ["grad_dot", "linear", "ewc", "kfac_ewc", "functional", "relatif", "default"])
def test_scores_do_not_depend_on_how_images_lie(monkeypatch, method):
    model = small_cnn(nn.MaxPool2d(2))
    sets = sets_of(model, torch.randn(120, 3, 8, 8))
    few = {"climb": LBFGS(steps=10)} if method == "functional" else {}  # as the default has; more magnify rounding
    way = getattr(amends.methods, method)(**few)
    found = []
    for pools in (("max_pool2d",), ()):
        monkeypatch.setattr(cpu, "POOLS", pools)
        SEEN.clear()
        found.append(amends.identify(Noting(model), *sets, method=way).scores)
        assert any(channels_last for *_, channels_last in SEEN) == bool(pools)
    assert np.corrcoef(*found)[0, 1] > 0.999  # float32, summed in another order


class Scaled(nn.Module):
    """A layer without a rule of its own: its gradients come from vmap."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        return x * self.scale


def test_examples_are_still_computed_together_where_images_lie_otherwise(monkeypatch):
    """Once vmap failed there, and examples were gone through one by one."""
    monkeypatch.setattr(backprop, "_one_by_one", lambda *_: pytest.fail("one by one"))
    model = small_cnn(nn.Sequential(Scaled(), nn.MaxPool2d(2)))
    sets = sets_of(Noting(model), torch.randn(120, 3, 8, 8))
    SEEN.clear()
    found = amends.identify(Noting(model), *sets, method=amends.methods.relatif()).scores
    assert any(channels_last for *_, channels_last in SEEN)
    monkeypatch.setattr(cpu, "POOLS", ())
    np.testing.assert_allclose(
        found, amends.identify(Noting(model), *sets, method=amends.methods.relatif()).scores, rtol=1e-3, atol=1e-4
    )  # float32, summed in another order


class ChangedInPlace(nn.Module):
    """Runs forward; its gradient cannot be computed."""

    def forward(self, x):
        return x.sigmoid().mul_(2)


def test_a_model_without_a_gradient_is_computed_as_it_came():
    model = small_cnn(nn.Sequential(ChangedInPlace(), nn.MaxPool2d(2)))
    train, failures, right = sets_of(model, torch.randn(40, 3, 8, 8))
    assert amends.failing(model, failures).all()
    scores = amends.identify(model, train, failures, right, method=amends.methods.loss()).scores
    assert np.isfinite(scores).all()


OTHERS = {
    "nothing is pooled": small_cnn(nn.Conv2d(4, 4, 2, stride=2)),
    "outputs are viewed in another shape": small_cnn(nn.MaxPool2d(2), Viewing()),
    "float64": small_cnn(nn.MaxPool2d(2)).double(),
}


@pytest.mark.parametrize("layers", OTHERS)
def test_images_of_other_models_lie_as_they_came(layers):
    layer, data = network(OTHERS[layers], 6, (3, 8, 8))
    cpu.settle(layer, data, 256)
    assert not layer.room.channels_last


def test_a_model_that_reads_memory_as_it_lies_is_seen_by_its_outputs():
    class Reading(nn.Module):
        def forward(self, x):
            return x.as_strided((len(x), 64), (64, 1)) if x.is_contiguous() else x.flatten(1).flip(1)

    layer, data = network(small_cnn(nn.MaxPool2d(2), Reading()), 6, (3, 8, 8))
    cpu.settle(layer, data, 256)
    assert not layer.room.channels_last
