"""Models of every kind, before and after something moved their weights."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn


class Tied(nn.Module):
    """The embedding is the output as well."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x):
        return self.out(self.embed(x).mean(1))


class Odd(nn.Module):
    """Buffers of whole numbers, a single number, no number, and a parameter in complex numbers."""

    def __init__(self):
        super().__init__()
        self.scale, self.none = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.zeros(0, 3))
        self.turn = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        self.register_buffer("seen", torch.tensor(7))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("zero", torch.tensor([-0.0, 0.0]))


def made() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    return {
        "float32": mlp, "float64": deepcopy(mlp).double(), "float16": deepcopy(mlp).half(),
        "bfloat16": deepcopy(mlp).bfloat16(), "convolution": nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)),
        "recurrent": nn.LSTM(5, 7), "attention": nn.TransformerEncoderLayer(8, 2, 16), "tied": Tied(), "odd": Odd(),
    }  # fmt: skip


def moved(model: nn.Module, seed: int = 1, some: bool = False) -> nn.Module:
    """Every trainable weight a little elsewhere, or those of the first layer alone."""
    after = deepcopy(model)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for number, p in enumerate(after.parameters()):
            if not some or number < 1:
                step = torch.randn(p.shape, generator=draw, dtype=torch.float64).to(p.dtype)
                p.add_(step * 0.05)
    return after


def same(a: nn.Module, b: nn.Module) -> bool:
    """To the bit: 0 is not −0."""
    from amends.patches.codes import bits

    states = [m.state_dict() for m in (a, b)]
    return states[0].keys() == states[1].keys() and all(
        (bits(states[0][k]) == bits(states[1][k])).all() and states[0][k].dtype == states[1][k].dtype for k in states[0]
    )
