"""A patch as a safetensors file: where it comes from as JSON in the metadata, for any tool to read; and one tensor with
a sha256, hashes, ids and layers as packed JSON, and what it moves.

The sha256 is of all the rest, so that damage is found before anything is moved. Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from amends.errors import BadInput, first_line
from amends.patches.codes import Damaged, packed, unpacked
from amends.patches.moves import KINDS
from amends.patches.patch import Base, Layer, Patch
from amends.runs.disk import write_file

FORMAT = 1  # one more whenever older amends can no longer read it
KEY, TENSOR = "amends_patch", "patch"  # of the metadata, and the name of the tensor
IDS = ("removed", "relabelled")  # of what a patch says of itself, the long ones, packed
HASH = hashlib.sha256().digest_size
LONGEST = 2**30  # bytes of JSON


def as_bytes(patch: Patch) -> bytes:
    """The file, in the format of safetensors."""
    parts = _parts(patch)
    sizes = {name: {key: len(part) for key, part in own.items()} for name, own in parts.items()}
    open_to_all = {"format": FORMAT, "about": {k: v for k, v in patch.about.items() if k not in IDS}}
    told, said = _json(open_to_all), _json(_said(patch, sizes)).encode()
    text = packed(said)
    body = len(said).to_bytes(8, "little") + len(text).to_bytes(8, "little") + text
    body += b"".join(part for own in parts.values() for part in own.values())
    data = _sha256(told, body) + body
    where = {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}
    head = _json({"__metadata__": {KEY: told}, TENSOR: where}).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def _json(said: Mapping[str, Any]) -> str:
    return json.dumps(_rounded(said), ensure_ascii=False, separators=(",", ":"), default=str)


def _sha256(told: str, body: bytes) -> bytes:
    return hashlib.sha256(f"{len(told.encode())};{told}".encode() + body).digest()


def save_patch(patch: Patch, path: Path) -> Path:
    return write_file(path, lambda made: made.write_bytes(patch.data))


def _parts(patch: Patch) -> dict[str, dict[str, bytes]]:
    """For each layer its move, and what leads to and from each of the bases beside it."""
    parts = {}
    for name, layer in patch.layers.items():
        ways = {f"bits{number or ''}": base.ways.get(name, b"") for number, base in enumerate(patch.bases)}
        own = {} if layer.move is None else layer.move.parts
        parts[name] = own | {key: way for key, way in ways.items() if way}
    return parts


def _said(patch: Patch, sizes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    layers = {
        name: {"shape": list(layer.shape), "changed": layer.changed, "moved": layer.moved, "bytes": sizes[name]}
        | ({"kind": "exact"} if layer.move is None else layer.move.about)
        for name, layer in patch.layers.items()
    }
    first, *more = patch.bases
    bases = [{"before": dict(first.before), "after": dict(first.after), "judged": dict(first.judged)}]
    for base in more:
        other = {name: value for name, value in base.before.items() if value != first.before[name]}
        bases.append({"before": other, "after": dict(base.after), "judged": dict(base.judged)})
    tables = {"tied": dict(patch.tied), "stored": dict(patch.stored)}
    ids = {k: _steps(patch.about[k]) for k in IDS if k in patch.about}
    return {"ids": ids, "layers": layers, **{k: v for k, v in tables.items() if v}, "bases": bases}


def _steps(ids: Any) -> Any:
    """Of positions in their order each as the step from the one before; of anything else as it is."""
    if not isinstance(ids, list) or not ids or not all(type(i) is int for i in ids):
        return ids
    return {"steps": [b - a for a, b in pairwise([0, *ids])]}


def _positions(steps: Any) -> Any:
    """Back from `_steps`."""
    known = isinstance(steps, dict) and isinstance(steps.get("steps"), list)
    return list(accumulate(steps["steps"])) if known else steps


def _rounded(said: Any) -> Any:
    """With six digits for every number that is not whole."""
    if isinstance(said, Mapping):
        return {name: _rounded(value) for name, value in said.items()}
    if isinstance(said, list | tuple):
        return [_rounded(value) for value in said]
    return float(f"{said:.6g}") if isinstance(said, float) else said


def read_patch(path: Path) -> Patch:
    """BadInput where the file is damaged, was made by a later amends, or is no patch."""
    told, data = _file(path)
    if told is None:
        raise BadInput(
            f"this is no patch; patch {path}; give a file that amends patch wrote, then the weights it is for"
        )
    if _sha256(told, data[HASH:]) != data[:HASH]:
        raise _damaged(path, "its sha256 is another")
    try:
        open_to_all = json.loads(told)
        if open_to_all["format"] != FORMAT:
            age = "a later" if open_to_all["format"] > FORMAT else "an earlier"
            raise BadInput(f"the patch was made by {age} amends; patch {path}; make it again")
        return _patch(open_to_all["about"], data[HASH:])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, Damaged) as e:
        if isinstance(e, BadInput):
            raise
        raise _damaged(path, f"{type(e).__name__}: {first_line(e)}") from e


def _file(path: Path) -> tuple[str | None, bytes]:
    """What it says to all, None where it is no patch, and its tensor."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "this is not a file" if path.exists() else "no such file"
        raise BadInput(f"{what}; patch {path}; give a file that amends patch wrote")
    try:
        with safe_open(path, framework="numpy") as file:
            told = (file.metadata() or {}).get(KEY)
            return told, b"" if told is None else file.get_tensor(TENSOR).tobytes()
    except OSError as e:
        raise BadInput(f"the file cannot be read ({e.strerror or first_line(e)}); patch {path}; check the path") from e
    except (SafetensorError, ValueError, TypeError) as e:
        raise _damaged(path, first_line(e)) from e


def _damaged(path: Path, why: str) -> BadInput:
    return BadInput(f"the patch is damaged ({why}); patch {path}; copy it again, or make it again with amends patch")


def _patch(about: Mapping[str, Any], data: bytes) -> Patch:
    length, end = (int.from_bytes(data[at : at + 8], "little") for at in (0, 8))
    said: dict[str, Any] = json.loads(unpacked(data[16 : 16 + end], min(length, LONGEST)))
    at, parts = 16 + end, {}
    for name, row in said["layers"].items():
        parts[name] = {}
        for key, size in row["bytes"].items():
            parts[name][key], at = data[at : at + size], at + size
    layers = {}
    for name, row in said["layers"].items():
        shape, kind = tuple(int(n) for n in row["shape"]), row["kind"]
        move = None if kind == "exact" else KINDS[kind].of(row, parts[name], int(np.prod(shape, dtype=np.int64)))
        layers[name] = Layer(shape, float(row["changed"]), float(row["moved"]), move)
    bases = []
    for number, row in enumerate(said["bases"]):
        before = row["before"] if not number else {**bases[0].before, **row["before"]}
        ways = {name: parts[name].get(f"bits{number or ''}", b"") for name in layers}
        bases.append(Base(before, row["after"], ways, row["judged"]))
    ids = {k: _positions(v) for k, v in said["ids"].items()}
    return Patch(layers, tuple(bases), said.get("tied", {}), said.get("stored", {}), {**about, **ids})
