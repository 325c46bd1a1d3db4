"""Digits, a model of them, and a set that gives them with noise, each time another: for tests of what is read."""

from __future__ import annotations

import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

N = 60


def digits():
    pixels, labels = load_digits(return_X_y=True)
    return torch.tensor(pixels[:N] / 16.0, dtype=torch.float32), torch.tensor(labels[:N])


X, Y = digits()


class Shaken(Dataset):
    """Digits with noise from one of the three places a transform may draw from; counts what is read."""

    def __init__(self, draw, scale=0.3, n=N):
        self.draw, self.scale, self.n, self.read = draw, scale, n, []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.read.append(i)
        return X[i] + self.scale * torch.as_tensor(self.draw(), dtype=torch.float32), int(Y[i])


DRAWS = {
    "torch": lambda: torch.randn(64),
    "numpy": lambda: np.random.standard_normal(64),
    "python": lambda: [random.gauss(0, 1) for _ in range(64)],
}


def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(64, 10)
