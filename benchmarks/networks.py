"""The networks of the settings; a ResNet-50 is in resnet.py."""

from __future__ import annotations

from torch import Tensor, nn


def paper_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )  # fmt: skip


def strided_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 16, 10),
    )  # fmt: skip


class MeanOfWords(nn.Module):
    """The mean of word embeddings, then a linear layer; word 0 is no word."""

    def __init__(self, words: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width, padding_idx=0), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        here = (x != 0).unsqueeze(-1).to(self.embed.weight.dtype)
        return self.out((self.embed(x) * here).sum(1) / here.sum(1).clamp(min=1))
