"""The ResNet-9 of TRAK's and kronfluence's CIFAR-10 examples: eight convolutions and a linear layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf


class ResNet9(nn.Module):
    """Its logits are `scale` times the outputs of the last layer."""

    def __init__(
        self, classes: int = 10, width: int = 64, scale: float = 0.2, nonlinearity: Callable[[], nn.Module] = nn.ReLU
    ) -> None:
        super().__init__()
        a, b, c = width, 2 * width, 4 * width

        def convolution(inputs: int, outputs: int, size: int = 3, stride: int = 1, padding: int = 1) -> nn.Module:
            conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(outputs), nonlinearity())

        def shortcut(width: int) -> nn.Module:
            return Shortcut(nn.Sequential(convolution(width, width), convolution(width, width)))

        self.features = nn.Sequential(
            convolution(3, a), convolution(a, b, 5, stride=2, padding=2), shortcut(b), convolution(b, c),
            nn.MaxPool2d(2), shortcut(c), convolution(c, b, padding=0), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.out, self.scale = nn.Linear(b, classes, bias=False), scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.out(self.features(x))


class Shortcut(nn.Module):
    """x + f(x)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


def step(net: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """One training step; in bfloat16 on a GPU."""
    optimiser.zero_grad()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
        loss = nnf.cross_entropy(net(x), y)
    loss.backward()
    optimiser.step()
