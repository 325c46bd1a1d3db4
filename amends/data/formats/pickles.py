"""Reads the python batches of CIFAR-10 without running code from the pickle.

A pickle names functions to call. Here only the few that numpy's arrays need are known, and each is
replaced by a harmless one that keeps what it is given; any other name is an error.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from amends.errors import BadInput, first_line, kind_of


class Kind:
    """A pickled dtype: its code."""

    def __init__(self, code: Any, *rest: Any):
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        if state[1] == ">":
            raise pickle.UnpicklingError("the numbers are big-endian")


class Array:
    """A pickled array: shape, kind and bytes."""

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.kind, self.fortran, self.data = state

    def values(self) -> np.ndarray:
        if self.kind.code not in ("u1", "i8", "i4") or self.fortran or not isinstance(self.data, bytes | bytearray):
            raise ValueError(f"it holds an array of kind {self.kind.code}")
        return np.frombuffer(self.data, self.kind.code).reshape(self.shape)


def _reconstruct(*_: Any) -> Array:
    return Array()


def _frombuffer(data: Any, kind: Kind, shape: Any, order: Any) -> Array:
    made = Array()
    made.__setstate__((1, shape, kind, order == "F", data))
    return made


def _encode(text: str, codec: Any = None) -> bytes:
    """How python 3 pickles bytes for python 2; the codec is always latin1."""
    return text.encode("latin1")


def _bytes(*nothing: Any) -> bytes:
    if nothing:
        raise pickle.UnpicklingError("it calls bytes with arguments")
    return b""


KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): Kind,
    ("_codecs", "encode"): _encode,
    ("builtins", "bytes"): _bytes,
    ("__builtin__", "bytes"): _bytes,
}


class Restricted(pickle.Unpickler):
    """Plain values and the names of KNOWN."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}".replace("\n", " "))
        return KNOWN[module, name]


def batch(data: bytes, where: str) -> dict[str, Any]:
    """The dict of one batch, with text as keys and numpy arrays."""
    try:
        loaded = Restricted(io.BytesIO(data), encoding="bytes").load()
        if not isinstance(loaded, dict):
            raise ValueError(f"it holds {kind_of(loaded)}, not a dict")
        named = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in loaded.items()}
        return {k: v.values() if isinstance(v, Array) else v for k, v in named.items()}
    except Exception as e:  # a broken pickle may raise anything
        raise BadInput(
            f"not a batch of CIFAR-10 ({first_line(e)}); {where}; download it again from the authors of CIFAR-10"
        ) from e
