"""Hashes that tell one set of examples, or one set of weights, from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from amends.data.inputs import Inputs, leaves


def set_hash(x: Inputs, y: Tensor) -> str:
    """sha256 over inputs and targets, in order."""
    return _hash([("", t) for t in [*leaves(x), y]])


def weights_hash(state: Mapping[str, Tensor]) -> str:
    """sha256 over names, shapes and values, in order of names."""
    return _hash([(name, state[name]) for name in sorted(state)])


def _hash(tensors: Iterable[tuple[str, Tensor]]) -> str:
    total = hashlib.sha256()
    for name, tensor in tensors:
        array = tensor.detach().cpu().contiguous()
        total.update(f"{name} {array.dtype} {list(array.shape)};".encode())
        total.update(array.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
