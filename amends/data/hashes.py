"""Hashes that tell one set of examples, or one set of weights, from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import Inputs, leaves

BLOCK = 4096  # rows hashed at once


def set_hash(x: Inputs, y: Tensor) -> str:
    """sha256 over inputs and targets, in order."""
    return _hash([("", t) for t in [*leaves(x), y]])


def labels_hash(y: Tensor) -> str:
    """sha256 over the targets, in order."""
    return _hash([("", y)])


def columns_hash(columns: Mapping[str, np.ndarray], *names: Sequence[str]) -> str:
    """sha256 over the user's own columns, cell by cell, and over names such as those of the classes."""
    total = hashlib.sha256(repr([list(n) for n in names]).encode())
    for name in sorted(columns):
        values = np.asarray(columns[name])
        total.update(f"{name} {values.dtype} {list(values.shape)};".encode())
        total.update(repr(values.tolist()).encode() if values.dtype.kind == "O" else np.ascontiguousarray(values).data)
    return total.hexdigest()


def weights_hash(state: Mapping[str, Tensor]) -> str:
    """sha256 over names, shapes and values, in order of names."""
    return _hash([(name, state[name]) for name in sorted(state)])


def _hash(tensors: Iterable[tuple[str, Tensor]]) -> str:
    total = hashlib.sha256()
    for name, tensor in tensors:
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
        rows = len(tensor) if len(tensor.shape) else 0
        for part in (tensor[i : i + BLOCK] for i in range(0, rows, BLOCK)) if rows else (tensor,):
            array = part.detach().cpu().contiguous()
            total.update(array.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
