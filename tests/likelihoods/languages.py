"""A tiny causal language model and its sentences."""

from __future__ import annotations

import torch
from torch import nn


class Language(nn.Module):
    """Each token predicts the next by its embedding and its place: the smallest causal model."""

    def __init__(self, words=6, width=8, places=4):
        super().__init__()
        self.words, self.place = nn.Embedding(words, width), nn.Embedding(places, width)
        self.mix, self.leave = nn.Linear(width, width), nn.Linear(width, words, bias=False)
        self.leave.weight = self.words.weight

    def forward(self, input_ids):
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        word = self.words(input_ids)
        seen = word + self.place(positions) + word.cumsum(1) / 10
        return self.leave(torch.tanh(self.mix(seen)))


def language(seed=0):
    torch.manual_seed(seed)
    return Language().double()


def sentences(n=8, seed=1):
    x = torch.randint(0, 6, (n, 4), generator=torch.Generator().manual_seed(seed))
    y = x.clone()
    y[:, 0] = -100
    y[::2, 1] = -100
    return x, y
