"""The networks of the settings; a ResNet-50 is in resnet.py."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf


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


def residual_cnn(width: int = 16, channels: int = 1) -> nn.Module:
    """Three stages with batch norm, each with a shortcut around its last two layers."""
    wide = (channels, width, 2 * width, 4 * width)
    stages = (
        nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), Around(b))
        for a, b in pairwise(wide)
    )
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide[-1], 10))


class Around(nn.Module):
    """Two layers with batch norm, and a shortcut around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return nnf.relu(x + self.layers(x))


class MeanOfWords(nn.Module):
    """The mean of word embeddings, then a linear layer. Word 0 is padding."""

    def __init__(self, words: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width, padding_idx=0), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        is_word = (x != 0).unsqueeze(-1).to(self.embed.weight.dtype)
        return self.out((self.embed(x) * is_word).sum(1) / is_word.sum(1).clamp(min=1))


class Block(nn.Module):
    """A block of a causal transformer: every token sees itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
        attended = nnf.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.project(attended)
        return x + self.back(nnf.gelu(self.wide(self.after(x))))


class Convolved(nn.Module):
    """Convolutions over three words each; of every feature the highest value in the text is kept. Word 0 is padding."""

    def __init__(self, words: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.conv, self.out = nn.Conv1d(width, 2 * width, 3, padding=1), nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.conv(self.embed(x).transpose(1, 2)).relu().amax(2))


class Transformer(nn.Module):
    """One block in which every word sees all others, then the mean over words. Word 0 is padding."""

    def __init__(self, words: int, classes: int, width: int = 64, longest: int = 512) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width, padding_idx=0), nn.Embedding(longest, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.where(x.any(1, keepdim=True), torch.ones_like(x))  # a text without words has one that is unknown
        is_word = (x != 0).unsqueeze(-1)
        seen = self.embed(x) + self.place(torch.arange(x.shape[1], device=x.device))
        out = self.norm(self.block(seen, src_key_padding_mask=~is_word.squeeze(-1))) * is_word
        return self.out(out.sum(1) / is_word.sum(1))


class Recurrent(nn.Module):
    """A recurrent layer with gates over the words, then the mean over words. Word 0 is padding."""

    def __init__(self, words: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.embed, self.gates = nn.Embedding(words, width, padding_idx=0), nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        is_word = (x != 0).unsqueeze(-1)
        out, _ = self.gates(self.embed(x))
        return self.out((out * is_word).sum(1) / is_word.sum(1).clamp(min=1))
