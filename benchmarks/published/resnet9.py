"""The ResNet-9 of TRAK's and kronfluence's CIFAR-10 examples: eight convolutions and a linear layer."""

from __future__ import annotations

from torch import Tensor, nn


def convolution(inputs: int, outputs: int, size: int = 3, stride: int = 1, padding: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Shortcut(nn.Module):
    """x + f(x), f two convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(convolution(width, width), convolution(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class ResNet9(nn.Module):
    """Logits are a fifth of what the last layer gives."""

    def __init__(self, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        a, b, c = width, 2 * width, 4 * width
        self.features = nn.Sequential(
            convolution(3, a), convolution(a, b, 5, stride=2, padding=2), Shortcut(b), convolution(b, c),
            nn.MaxPool2d(2), Shortcut(c), convolution(c, b, padding=0), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.out = nn.Linear(b, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return 0.2 * self.out(self.features(x))
