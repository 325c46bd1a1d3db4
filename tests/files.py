"""Files in every format, made from real digits, and what they read back as."""

from __future__ import annotations

import pickle

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits

N = 24
FOUND = load_digits()
PIXELS = (FOUND.images[:N] * 15).astype(np.uint8)  # [24, 8, 8], 0..240
LABELS = FOUND.target[:N].astype(np.int64)
FLOATS = torch.tensor(PIXELS).float()[:, None] / 255
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def folder(path, split=None):
    root = path / "digits"
    for i in range(N):
        inner = root / (split or "") / NAMES[LABELS[i]] / ("more" if i % 2 else "")
        inner.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[i]).save(inner / f"{i:03}.png")
    return root


TEXTS = ["a fine film", "dull", "None", "NA and null"]


def lengths(texts):
    """Stands for a tokenizer: words as numbers, padded on the right."""
    ids = [[len(w) for w in t.split()] for t in texts]
    longest = max(map(len, ids))
    return {
        "input_ids": [row + [0] * (longest - len(row)) for row in ids],
        "attention_mask": [[1] * len(row) + [0] * (longest - len(row)) for row in ids],
    }


def idx_bytes(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.astype(np.uint8).tobytes()


def cifar():
    """Digits in the shape of CIFAR-10."""
    big = PIXELS.repeat(4, 1).repeat(4, 2)
    return np.stack([big, big // 2, 255 - big], 1)


COLOUR = torch.tensor(cifar()).float() / 255


def binary(at):
    rows = [bytes([LABELS[i]]) + cifar()[i].tobytes() for i in range(N)[at]]
    return b"".join(rows)


def python_batch(at, protocol=2):
    """As the authors' files: written by python 2, keys and names in bytes, an array of bytes, a list."""
    batch = {
        b"batch_label": b"testing batch", b"labels": LABELS[at].tolist(), b"data": cifar()[at].reshape(-1, 3072),
        b"filenames": [b"a.png"] * len(LABELS[at]),
    }  # fmt: skip
    return pickle.dumps(batch, protocol=protocol)


def same(records, x=FLOATS, y=LABELS):
    assert torch.equal(records.x, torch.as_tensor(x))
    assert torch.equal(records.y, torch.as_tensor(y))
    assert records.y.dtype == torch.long
