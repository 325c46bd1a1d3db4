"""The shapes that data may have."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import amends


class Items(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


class Columns:
    """The part of a Hugging Face dataset that amends relies on."""

    def __init__(self, x, y):
        self.columns = {"pixels": x.numpy().tolist(), "label": y.tolist()}
        self.column_names = list(self.columns)

    def __getitem__(self, name):
        return self.columns[name]


def test_data_may_come_in_several_shapes(digits):
    net, (x, y), failures, _, _ = digits
    x, y, method = x[:80], torch.as_tensor(y[:80]), amends.methods.grad_dot()
    expected = amends.identify(net, (x, y), failures, method=method).scores
    for train in (
        (x.numpy().astype(np.float64), y.numpy()), [x, y], TensorDataset(x, y), Items(x, y), Columns(x, y),
        {"x": x, "label": y}, list(zip(x, y.tolist(), strict=True)),
    ):  # fmt: skip
        scores = amends.identify(net, train, failures, method=method).scores
        assert np.allclose(scores, expected, rtol=1e-5)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Embedding(5, 3)

    def forward(self, dense, token):
        return self.a(dense) + self.b(token).mean(1)


def test_inputs_may_be_a_tuple_or_a_dict():
    torch.manual_seed(0)
    dense, token, y = torch.randn(20, 4), torch.randint(0, 5, (20, 2)), torch.randint(0, 3, (20,))
    net = TwoInputs()
    rows = []
    for x in ((dense, token), {"dense": dense, "token": token}):
        f = tuple(v[:3] for v in x) if isinstance(x, tuple) else {k: v[:3] for k, v in x.items()}
        chosen = (amends.methods.ewc(prior=1.0), amends.methods.linear(amends.curvature.Diagonal(prior=1.0)))
        rows += [amends.identify(net, (x, y), (f, (y[:3] + 1) % 3), method=method).scores for method in chosen]
        assert isinstance(amends.treat(net, (x, y), [1, 2]), TwoInputs)
    assert np.allclose(rows[0], rows[2])
    assert np.allclose(rows[1], rows[3])
    two = (dense[:2], token[:2])  # a pair of examples is not a pair of arrays
    assert len(amends.identify(net, (two, y[:2]), (two, y[:2]), method=amends.methods.grad_dot()).scores) == 2


def test_named_columns_may_hold_more_than_the_model_takes():
    torch.manual_seed(0)
    dense, token, y = torch.randn(12, 4), torch.randint(0, 5, (12, 2)), torch.randint(0, 3, (12,))
    rows = [
        {"dense": d.tolist(), "token": t.tolist(), "text": "hello", "label": int(k)}
        for d, t, k in zip(dense, token, y, strict=True)
    ]
    net = TwoInputs()
    method = amends.methods.grad_dot()
    a = amends.identify(net, rows, rows[:3], method=method).scores
    b = amends.identify(net, ({"dense": dense, "token": token}, y), ((dense[:3], token[:3]), y[:3]), method=method)
    assert np.allclose(a, b.scores, rtol=1e-5)
    listed = [(d.tolist(), int(k)) for d, k in zip(dense, y, strict=True)]
    assert len(amends.identify(nn.Linear(4, 3), listed, listed[:3], method=method).scores) == 12
    turned = dense.numpy()[:, ::-1]
    assert len(amends.identify(nn.Linear(4, 3), (turned, y), (turned[:3], y[:3]), method=method).scores) == 12
    narrow = y.to(torch.uint8)
    assert len(amends.identify(nn.Linear(4, 3), (dense, narrow), (dense[:3], narrow[:3])).scores) == 12
