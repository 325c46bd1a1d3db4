"""ResNet-50 (He et al. 2016) for images of 32x32: a 3x3 convolution in front, no pooling after it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut, each followed by batch norm."""

    wider = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        sizes = (inputs, width, width, 4 * width)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, k, stride=s, padding=k // 2, bias=False)
            for a, b, k, s in zip(sizes, sizes[1:], (1, 3, 1), (1, stride, 1), strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in sizes[1:])
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != 4 * width:
            self.shortcut.append(nn.Conv2d(inputs, 4 * width, 1, stride=stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            out = norm(conv(out)) if i == 2 else nnf.relu(norm(conv(out)))
        return nnf.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    """Blocks of four widths; (3, 4, 6, 3) of them make ResNet-50."""

    def __init__(
        self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 10,
        block: type[Bottleneck] | type[Basic] = Bottleneck,
    ) -> None:  # fmt: skip
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        layers, inputs = [], width
        for level, number in enumerate(blocks):
            for i in range(number):
                layers.append(block(inputs, width * 2**level, 2 if level and not i else 1))
                inputs = block.wider * width * 2**level
        self.blocks, self.out = nn.Sequential(*layers), nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = nnf.relu(self.norm(self.stem(x.contiguous(memory_format=torch.channels_last))))
        return self.out(self.blocks(x).mean((2, 3)))


class Basic(nn.Module):
    """Two 3x3 convolutions around a shortcut, each followed by batch norm."""

    wider = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(a, width, 3, stride=s, padding=1, bias=False) for a, s in ((inputs, stride), (width, 1))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut.append(nn.Conv2d(inputs, width, 1, stride=stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norms[1](self.convs[1](nnf.relu(self.norms[0](self.convs[0](x)))))
        return nnf.relu(out + self.shortcut(x))


def resnet18() -> nn.Module:
    return ResNet((2, 2, 2, 2), block=Basic)
