"""How hostile files are made. Each maker writes into this folder, a project of digits, and returns the config that
names what it wrote; what a file would run makes a folder `pwned`, here or above."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

from tests.projects import CONFIG

Maker = Callable[[], str]
PWNED = "pwned"
BERT = {"architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 8, "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}  # fmt: skip
BIG = 10**15
DEEP = b"[" * 100_000 + b"]" * 100_000
SHAPE = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }"


class Harm:
    """Unpickled, it calls something."""

    def __init__(self, call: Any = os.mkdir, *args: Any):
        self.call, self.args = call, args or (PWNED,)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.args


class Builds:
    """Unpickled, it is given a state by a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (), None, iter(()), iter([("a", Harm())])


def weights(path: str) -> str:
    return CONFIG.replace("model.safetensors", path)


def train(path: str, more: str = "") -> str:
    return CONFIG.replace('path = "train.npz"', f'path = "{path}"\n{more}')


def folder(path: str) -> str:
    return CONFIG.replace('function = "my_model:build"\nweights = "model.safetensors"', f'huggingface = "{path}"')


def saved(name: str, what: Any, **how: Any) -> Maker:
    """A torch file that holds this."""

    def make() -> str:
        torch.save(what(), name, **how)
        return weights(name)

    return make


def written(name: str, data: Callable[[], bytes], config: Callable[[str], str] = weights) -> Maker:
    def make() -> str:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data())
        return config(name)

    return make


def raw_pickle(what: Any = Harm, protocol: int = 2) -> Callable[[], bytes]:
    return lambda: pickle.dumps(what(), protocol)


def spelled(*codes: bytes) -> Callable[[], bytes]:
    """A pickle by its letters: what no class of Python would write."""

    def data() -> bytes:
        made = b"".join(codes) + b"."
        pickletools.dis(made, out=io.StringIO())  # it is one
        return made

    return data


def archive(files: dict[str, bytes]) -> Callable[[], bytes]:
    def data() -> bytes:
        with zipfile.ZipFile(out := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in files.items():
                made.writestr(name, content)
        return out.getvalue()

    return data


def tensors(header: Any, body: bytes = b"\0" * 16, length: int | None = None) -> Callable[[], bytes]:
    """A safetensors file with this header, and perhaps a lie about its length."""
    said = header if isinstance(header, bytes) else json.dumps(header).encode()
    return lambda: struct.pack("<Q", len(said) if length is None else length) + said + body


def tensor(**about: Any) -> dict[str, Any]:
    return {"0.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **about}}


def npy(header: str, body: bytes = b"") -> bytes:
    said = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said)) + said + body


def arrays(x: bytes) -> Callable[[], bytes]:
    with io.BytesIO() as out:
        np.save(out, np.arange(3))
        return archive({"x.npy": x, "y.npy": out.getvalue()})


def packed_lie() -> str:
    """Header and archive agree that an array is larger than memory."""
    data = bytearray(arrays(npy(SHAPE % f"({BIG},)", b"\0" * 64))())
    at = data.index(b"PK\x01\x02")
    for place in (22, at + 24):  # the size before it was packed, here and in the list at the end
        data[place : place + 4] = struct.pack("<I", 2**32 - 2)
    Path("a.npz").write_bytes(data)
    return train("a.npz")


def made_elsewhere(link: str, target: str, config: Callable[[str], str]) -> Maker:
    def make() -> str:
        Path(link).symlink_to(target)
        return config(link)

    return make


def hole(name: str, size: int, config: Callable[[str], str]) -> Maker:
    """A file that says it is so large, and takes no room."""

    def make() -> str:
        with open(name, "wb") as file:
            file.truncate(size)
        return config(name)

    return make


def directory(files: dict[str, Any]) -> Maker:
    """A Hugging Face model with these files, and code that would run."""

    def make() -> str:
        here = Path("model")
        here.mkdir()
        (here / "evil.py").write_text(f"import os\nos.mkdir({PWNED!r})\nclass Evil: pass\n")
        for name, content in {"config.json": BERT, **files}.items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            data = content() if callable(content) else json.dumps(content).encode()
            (here / name).write_bytes(data)
        return folder("model")

    return make


def evil(kind: str) -> dict[str, Any]:
    return {"auto_map": {kind: "evil.Evil"}}


def table_that_unpickles() -> str:
    """Arrow's own type for Python's: reading such a file ran its pickle once."""
    field = pa.field("x", pa.float64(), metadata={
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Harm()),
    })  # fmt: skip
    schema = pa.schema([field, pa.field("label", pa.int64())])
    pq.write_table(pa.table([pa.array([1.0]), pa.array([0])], schema=schema), "a.parquet")
    return train("a.parquet")


def pipe(name: str, config: Callable[[str], str]) -> Maker:
    def make() -> str:
        os.mkfifo(name)
        return config(name)

    return make


def picture(data: Callable[[], bytes], name: str = "photos/a/0.png") -> Maker:
    return written(name, data, lambda _: train("photos", 'format = "images"'))


def png(width: int, height: int) -> bytes:
    """Of so many pixels by what it says, and of no pixel in truth."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"")),
        (b"IEND", b""),
    )
    made = (struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def script() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has another way by now
        torch.jit.save(torch.jit.script(torch.nn.Linear(64, 10)), "a.pt")
    return weights("a.pt")


def linked_picture() -> str:
    Path("photos/a").mkdir(parents=True)
    Path("photos/a/0.png").symlink_to("/etc/passwd")
    return train("photos", 'format = "images"')


def shards_from_above() -> str:
    """An index says that they lie outside of the folder."""
    save_file({"a": torch.zeros(2)}, "outside.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "../outside.safetensors"}}
    return directory({"model.safetensors.index.json": index})()
