"""Small models for every layer rule, and their curvature by slow loops."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call

from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.exact import curvature as exact


class Tied(nn.Module):
    """An embedding whose weight is also the output layer, once as a module and once by hand."""

    def __init__(self, by_hand: bool):
        super().__init__()
        self.embed = nn.Embedding(5, 4, padding_idx=0)
        self.mix = nn.Linear(4, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.by_hand = by_hand
        if by_hand:
            del self.out
        else:
            self.out.weight = self.embed.weight

    def forward(self, x):
        h = torch.tanh(self.mix(self.embed(x))).mean(1)
        return nn.functional.linear(h, self.embed.weight) if self.by_hand else self.out(h)


class Twice(nn.Module):
    """The same layer called twice, and a parameter without a module."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.randn(6))

    def forward(self, x):
        h = torch.tanh(self.layer(x))
        return self.head(torch.tanh(self.layer(h)) * self.scale)


class Inplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.b(self.a(x))
        h += 0.5
        h = torch.relu_(h)
        return self.c(h.mean((2, 3)))


class Attention(nn.Module):
    """MultiheadAttention uses its output layer's weight without calling that layer."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.attend(x, x, x, need_weights=False)[0].mean(1))


class Recurrent(nn.Module):
    """No rule, no batching rule."""

    def __init__(self):
        super().__init__()
        self.read, self.out = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x):
        return self.out(self.read(x)[0][:, -1])


def pooled(*layers, width=3):
    return nn.Sequential(*layers, nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3))


def pooled1d(*layers, width=3):
    return nn.Sequential(*layers, nn.Tanh(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 3))


IMAGE, SIGNAL, ROW = (2, 7, 6), (4, 9), (6,)
CASES = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)), ROW),
    "linear on a sequence": (lambda: nn.Sequential(nn.Linear(9, 5), nn.Tanh(), nn.Flatten(), nn.Linear(20, 3)), SIGNAL),
    "conv2d": (lambda: pooled(nn.Conv2d(2, 3, 3)), IMAGE),
    "conv2d, padded": (lambda: pooled(nn.Conv2d(2, 3, 3, padding=1)), IMAGE),
    "conv2d, uneven padding": (lambda: pooled(nn.Conv2d(2, 3, (3, 2), padding=(0, 2))), IMAGE),
    "conv2d, stride": (lambda: pooled(nn.Conv2d(2, 3, 3, stride=2, padding=1)), IMAGE),
    "conv2d, stride across": (lambda: pooled(nn.Conv2d(2, 3, (2, 3), stride=(1, 2))), IMAGE),
    "conv2d, dilation": (lambda: pooled(nn.Conv2d(2, 3, 2, dilation=(2, 3))), IMAGE),
    "conv2d, groups": (lambda: pooled(nn.Conv2d(2, 4, 3, groups=2, padding=1), width=4), IMAGE),
    "conv2d, groups and stride": (lambda: pooled(nn.Conv2d(2, 4, 3, groups=2, stride=2, dilation=2), width=4), IMAGE),
    "conv2d, same": (lambda: pooled(nn.Conv2d(2, 3, (3, 2), dilation=(1, 2), padding="same", bias=False)), IMAGE),
    "conv2d, circular": (lambda: pooled(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")), IMAGE),
    "conv1d": (lambda: pooled1d(nn.Conv1d(4, 3, 3, padding=2, dilation=2)), SIGNAL),
    "conv1d, stride, groups": (lambda: pooled1d(nn.Conv1d(4, 6, 2, stride=3, groups=2), width=6), SIGNAL),
    "layer norm": (lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3)), ROW),
    "layer norm on a sequence": (lambda: nn.Sequential(nn.LayerNorm(9), nn.Flatten(), nn.Linear(36, 3)), SIGNAL),
    "group norm": (lambda: pooled(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), width=4), IMAGE),
    "batch norm 2d": (lambda: pooled(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), width=4), IMAGE),
    "batch norm 1d": (lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), ROW),
    "embedding": (lambda: nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Tanh(), nn.Flatten(), nn.Linear(24, 5)),
                  "tokens"),
    "embedding, tied to a layer": (lambda: Tied(False), "tokens"),
    "embedding, tied by hand": (lambda: Tied(True), "tokens"),
    "called twice, loose parameter": (Twice, ROW),
    "changed in place": (Inplace, IMAGE),
    "transposed convolution": (lambda: pooled(nn.ConvTranspose2d(2, 3, 3, stride=2)), IMAGE),
    "prelu": (lambda: nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3)), ROW),
    "attention": (Attention, (5, 4)),
    "recurrent": (Recurrent, (5, 4)),
}  # fmt: skip


def world(case, dtype, n=9):
    make, shape = CASES[case]
    torch.manual_seed(3)
    model = make().to(dtype)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    classes = 5 if shape == "tokens" else 3
    x = torch.randint(0, 5, (n, 6)) if shape == "tokens" else torch.randn(n, *shape, dtype=dtype)
    network = Network.of(model, Categorical())
    return factor(network, x, torch.randint(0, classes, (n,)), batch=4), x


def reference(data, x, kind):
    """Rows Jᵀu of every example and output vector; double precision throughout."""
    network = data.network
    params = {k: v.double() for k, v in network.params.items()}
    x = x.double() if x.is_floating_point() else x
    model = network.module.double()
    with torch.no_grad():
        outputs = functional_call(model, params, (x,))
    vectors = [exact.scores(outputs, data.examples.y)] if kind == "empirical" else exact.ggn_vectors(outputs)
    return torch.cat([exact.per_example_vectors(model, params, x, u) for u in vectors])
