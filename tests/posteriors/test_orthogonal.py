"""Orthogonal gradient descent: moves only across the gradients it stores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.errors import BadInput
from amends.evidence.params import flatten
from amends.remember import Gradients
from tests.conftest import classification, factor, plain


@pytest.mark.parametrize("evidence", ["insert", "delete"])
def test_ogd_moves_across_the_stored_gradients(evidence):
    x, y, network = classification(n=40, d=6)
    data, extra = factor(network, x[:30], y[:30]), factor(network, x[30:], y[30:], "failures")
    method = methods.ogd(memory=8)
    q = method.remember(data, None)
    stored, ids = q.stored
    kept = q.ids[:4]
    given = extra if evidence == "insert" else -data[np.flatnonzero(np.isin(data.ids, ids[4:]))]
    rows = stored if evidence == "insert" else stored[np.isin(ids, kept)]
    moves = [flatten(after.mean) - flatten(q.mean) for after in method.editor(q, given)]
    assert len(moves) > 3
    assert float(moves[-1].norm()) > 1e-3
    freed = stored[~np.isin(ids, kept)]
    if evidence == "delete":  # what is deleted holds nothing any more
        assert float((freed @ moves[-1]).abs().max()) > 1e-3 * float(moves[-1].norm() * freed.norm(dim=1).max())
    for move in moves[1:]:
        assert float((rows @ move).abs().max()) <= 1e-9 * float(move.norm() * rows.norm(dim=1).max())


def test_ogd_remembers_what_it_has_learned():
    x, y, network = classification(n=40, d=6)
    data, extra = factor(network, x[:30], y[:30]), factor(network, x[30:35], y[30:35], "failures")
    q = Gradients(memory=4)(data)
    after = q.moved({k: v + 1 for k, v in q.mean.items()}, extra)
    assert len(after.stored[0]) == 9
    assert set(after.stored[1]) == set(q.ids) | set(extra.ids)
    assert after.moved(after.mean, -extra).basis(np.array([])).shape[1] == 4
    assert after.moved(after.mean, -data).moved(after.mean, -extra).basis(np.array([])).shape[1] == 0


def test_ogd_takes_inserted_gradients_where_it_is_now():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    x, y, _ = classification()
    network = amends.evidence.network.Network.of(net, amends.likelihoods.Categorical())
    data, extra = factor(network, x[:30], y[:30]), factor(network, x[30:33], y[30:33], "failures")
    remember = Gradients(memory=4)
    q, there = remember(data), {k: v + 0.5 for k, v in network.params.items()}
    assert_close(q.moved(there, extra).stored[0][4:], remember.of(extra, there)[0])


def test_ogd_says_when_nothing_is_free():
    x, y, network = classification()
    with pytest.raises(BadInput, match="span all 12 parameters, so nothing can move; ogd; lower memory"):
        amends.identify(plain(network), (x[:50], y[:50]), (x[50:], y[50:]), method=methods.ogd(every_output=True))


def test_a_short_gradient_holds_as_much_as_a_long_one():
    """One example's input, and so its gradient, is ten thousand times shorter; what its output depends on stays too."""
    torch.manual_seed(0)
    network = amends.evidence.network.Network.of(nn.Linear(4, 2, bias=False).double(), amends.likelihoods.Categorical())
    x, y = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 2
    x[0] *= 1e-4
    data = factor(network, x[:4], y[:4])
    q = Gradients(memory=4)(data)
    assert q.basis(np.array([])).shape[1] == 4
    method = methods.ogd(memory=4)
    *_, after = method.editor(method.remember(data, None), factor(network, x[4:], y[4:], "failures"))
    move = after.mean["weight"] - network.params["weight"]
    short = x[0] / x[0].norm()
    assert float(move.norm()) > 1e-3
    assert abs(float(move[0] @ short)) < 1e-9 * float(move.norm())
