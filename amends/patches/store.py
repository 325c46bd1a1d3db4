"""A patch as a safetensors file: what it moves as packed bytes, all that it says as JSON in the metadata.

A sha256 of both is in it, so that damage is found before anything is moved. Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from amends.errors import BadInput, first_line
from amends.patches.codes import Damaged, packed, unpacked
from amends.patches.moves import KINDS
from amends.patches.patch import Base, Layer, Patch
from amends.runs.disk import write_file

FORMAT = 1  # one more whenever older amends can no longer read it
ABOUT, SHA = "amends_patch", "sha256"  # keys of the metadata
IDS = ("removed", "relabelled")  # of what a patch says of itself, the long ones, packed
LONGEST = 2**30  # bytes of ids


def as_bytes(patch: Patch) -> bytes:
    """The file, in the format of safetensors."""
    parts = _parts(patch)
    ids = json.dumps({k: patch.about[k] for k in IDS if k in patch.about}).encode()
    parts["ids"] = packed(ids)
    said = json.dumps(_said(patch) | {"ids": len(ids)}, ensure_ascii=False, separators=(",", ":"), default=str)
    header: dict[str, Any] = {"__metadata__": {ABOUT: said, SHA: _sha256(said, parts)}}
    end = 0
    for name, part in parts.items():
        header[name] = {"dtype": "U8", "shape": [len(part)], "data_offsets": [end, end + len(part)]}
        end += len(part)
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(parts.values())


def save_patch(patch: Patch, path: Path) -> Path:
    return write_file(path, lambda made: made.write_bytes(patch.data))


def _parts(patch: Patch) -> dict[str, bytes]:
    parts = {}
    for name, layer in patch.layers.items():
        parts |= {f"{name}/{k}": v for k, v in ({} if layer.move is None else layer.move.parts()).items()}
        for number, base in enumerate(patch.bases):
            if base.ways.get(name):
                parts[f"{name}/bits{number or ''}"] = base.ways[name]
    return parts


def _said(patch: Patch) -> dict[str, Any]:
    layers = {
        name: {"shape": list(layer.shape), "changed": round(layer.changed, 6), "moved": float(f"{layer.moved:.4g}")}
        | ({"kind": "exact"} if layer.move is None else layer.move.about)
        for name, layer in patch.layers.items()
    }
    first, *more = patch.bases
    bases = [{"before": dict(first.before), "after": dict(first.after), "judged": dict(first.judged)}]
    for base in more:
        other = {name: value for name, value in base.before.items() if value != first.before[name]}
        bases.append({"before": other, "after": dict(base.after), "judged": dict(base.judged)})
    about = {k: v for k, v in patch.about.items() if k not in IDS}
    tables = {"tied": dict(patch.tied), "stored": dict(patch.stored)}
    return {"format": FORMAT, "about": about, "layers": layers, **{k: v for k, v in tables.items() if v},
            "bases": bases}  # fmt: skip


def _sha256(said: str, parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(f"{len(said.encode())};{said}".encode())
    for name in sorted(parts):
        total.update(f"{name} {len(parts[name])};".encode() + parts[name])
    return total.hexdigest()


def read_patch(path: Path) -> Patch:
    """BadInput where the file is damaged, was made by a later amends, or is no patch."""
    metadata, parts = _file(path)
    if ABOUT not in metadata:
        raise BadInput(
            f"this is no patch; patch {path}; give a file that amends patch wrote, then the weights it is for"
        )
    said = metadata[ABOUT]
    if _sha256(said, parts) != metadata.get(SHA):
        raise _damaged(path, "its sha256 is another")
    try:
        about = json.loads(said)
        if about["format"] != FORMAT:
            age = "a later" if about["format"] > FORMAT else "an earlier"
            raise BadInput(f"the patch was made by {age} amends; patch {path}; make it again")
        return _patch(about, parts)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, Damaged) as e:
        if isinstance(e, BadInput):
            raise
        raise _damaged(path, f"{type(e).__name__}: {first_line(e)}") from e


def _file(path: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "this is not a file" if path.exists() else "no such file"
        raise BadInput(f"{what}; patch {path}; give a file that amends patch wrote")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            names = list(file.keys()) if ABOUT in metadata else []
            return metadata, {name: file.get_tensor(name).tobytes() for name in names}
    except OSError as e:
        raise BadInput(f"the file cannot be read ({e.strerror or first_line(e)}); patch {path}; check the path") from e
    except (SafetensorError, ValueError, TypeError) as e:
        raise _damaged(path, first_line(e)) from e


def _damaged(path: Path, why: str) -> BadInput:
    return BadInput(f"the patch is damaged ({why}); patch {path}; copy it again, or make it again with amends patch")


def _patch(said: Mapping[str, Any], parts: Mapping[str, bytes]) -> Patch:
    layers = {}
    for name, row in said["layers"].items():
        shape = tuple(int(n) for n in row["shape"])
        own = {key.rpartition("/")[2]: part for key, part in parts.items() if key.rpartition("/")[0] == name}
        kind = row["kind"]
        move = None if kind == "exact" else KINDS[kind].of(row, own, int(np.prod(shape, dtype=np.int64)))
        layers[name] = Layer(shape, float(row["changed"]), float(row["moved"]), move)
    bases = []
    for number, row in enumerate(said["bases"]):
        before = row["before"] if not number else {**bases[0].before, **row["before"]}
        ways = {name: parts.get(f"{name}/bits{number or ''}", b"") for name in layers}
        bases.append(Base(before, row["after"], ways, row["judged"]))
    ids = json.loads(unpacked(parts["ids"], min(int(said["ids"]), LONGEST)))
    return Patch(layers, tuple(bases), said.get("tied", {}), said.get("stored", {}), {**said["about"], **ids})
