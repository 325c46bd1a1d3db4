"""A patch as a safetensors file: its name and verdict in the metadata, for any tool to read, and one tensor. This holds
a sha256, a JSON document (compressed with a dictionary of its usual words), ids, hashes, and what the patch moves.

The sha256 is of all the rest, so that damage is found before anything is moved. Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from amends.errors import BadInput, first_line
from amends.patches.codes import Damaged, as_gaps, from_gaps
from amends.patches.moves import KINDS
from amends.patches.names import DIGITS as CODE
from amends.patches.patch import Base, Layer, Patch
from amends.runs.disk import write_file

FORMAT = 1  # one more whenever older amends can no longer read it: also where a word of WORDS changes
KEY, TENSOR = "amends_patch", "patch"  # of the metadata, and the name of the tensor
OPEN = ("name", "verdict")  # what any tool can read
IDS = "removed"  # the key of `about` with a long list
WHEN = ("before", "after")  # hashes of tensors
HASH, SHORT = hashlib.sha256().digest_size, CODE // 2  # bytes of the hash of all, and of that of a tensor
LONGEST = 2**30  # bytes of JSON
DIGITS, FEW = 4, 3  # of any number that is not whole; of how far a layer moves
WORDS = (
    b'","relabelled":{"rule":"","model":"","recipe":{"config":{"data":{"train":{"n":"evaluation":{"path":"'
    b'"classes":["features":["tied":{"stored":{"float16","bfloat16","float64","int64","exact":"'
    b'no smaller form answers like the repaired weights"","budget":"quick","learned":false,"verdict":"partly repaired"'
    b'of the holdout failures are right, short of 50%, and .running_mean":".running_var":".num_batches_tracked'
    b'.bias","kind":"exact"{"about":{"made":"2026-1-1T1:0:0+00:00","versions":{"amends":"0.1.0","torch":"2.1.0+cpu",'
    b'"numpy":"2.2.0","python":"3.1.1"},"bytes":"reason":"% of the holdout failures are right, and 99.'
    b'% of what worked still works","fixed":1,"newly_broken":1,"learned":true,"budget":"default","seed":0,'
    b'"query":{"before":0.0,"after":0.,"n":1,"ids":{"removed":["relabelled":{}},"layers":{"0.weight":{"shape":[64,32,3,3],"changed":0.9'
    b',"moved":0.1,"bytes":{"left":2,"right":2,"bits":,"kind":"low rank","exponents":[-7,-8,-8,-8,-9],"rows":64},'
    b'{"grid":1},"kind":"grid","exponent":-5},.bias":{"shape":[10],"changed":1.0,"moved":0.01,"bytes":'
    b'"bases":[{"before":{"0.weight":"float32","0.bias":"float32"},"after":{"0.weight":"float32","2.weight":"float32"},'
    b'"judged":{"verdict":"repaired","holdout":{"before":0.0,"after":0.9,"n":1},"remaining":{"before":1.0,"after":0.99'
    b',"n":1},"overall":{"before":0.8,"after":0.9,"n":1},"fixed":1,"newly_broken":1,"p_value":1e-10}}],'
    b'"ids":{"n":60,"digits":2,"bytes":30,"words":false}}'
)  # the most frequent parts are last, as zlib wants them


def as_bytes(patch: Patch) -> bytes:
    """The file, in the format of safetensors."""
    ids, coded = _coded(patch.about.get(IDS))
    parts = _parts(patch)
    sizes = {name: {key: len(part) for key, part in own.items()} for name, own in parts.items()}
    metadata = {KEY: str(FORMAT)} | {name: str(patch.about[name]) for name in OPEN if name in patch.about}
    document, hashes = _without_hashes({**_document(patch, sizes), "ids": ids})
    body = _short(_json(document)) + coded + hashes
    body += b"".join(part for own in parts.values() for part in own.values())
    data = _sha256(metadata, body) + body
    entry = {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}
    head = _json({"__metadata__": metadata, TENSOR: entry}).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(_rounded(document, DIGITS), ensure_ascii=False, separators=(",", ":"), default=str)


def _short(text: str) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zdict=WORDS)
    return compressor.compress(text.encode()) + compressor.flush()


def _long(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The document that `_short` compressed, and the bytes after it."""
    reader = zlib.decompressobj(-zlib.MAX_WBITS, WORDS)
    text = reader.decompress(data, LONGEST)
    if not reader.eof:
        raise Damaged("too short")
    return json.loads(text), reader.unused_data


def _sha256(metadata: Mapping[str, str], body: bytes) -> bytes:
    words = _json(dict(sorted(metadata.items()))).encode()
    return hashlib.sha256(len(words).to_bytes(8, "little") + words + body).digest()


def save_patch(patch: Patch, path: Path) -> Path:
    return write_file(path, lambda target: target.write_bytes(patch.data))


def _parts(patch: Patch) -> dict[str, dict[str, bytes]]:
    """The bytes of each layer: its move, and what each base needs besides."""
    parts = {}
    for name, layer in patch.layers.items():
        ways = {f"bits{number or ''}": base.ways.get(name, b"") for number, base in enumerate(patch.bases)}
        own = {} if layer.move is None else layer.move.parts
        parts[name] = own | {key: way for key, way in ways.items() if way}
    return parts


def _document(patch: Patch, sizes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    layers = {}
    for name, layer in patch.layers.items():
        far = _rounded({"changed": layer.changed, "moved": layer.moved}, FEW)
        how = {"kind": "exact"} if layer.move is None else layer.move.about
        layers[name] = {"shape": list(layer.shape), **far, "bytes": sizes[name], **how}
    first, *more = patch.bases
    bases = [{"before": dict(first.before), "after": dict(first.after), "judged": dict(first.judged)}]
    for base in more:
        other = {name: value for name, value in base.before.items() if value != first.before[name]}
        bases.append({"before": other, "after": dict(base.after), "judged": dict(base.judged)})
    tables = {"tied": dict(patch.tied), "stored": dict(patch.stored)}
    about = {name: value for name, value in patch.about.items() if name not in (*OPEN, IDS)}
    return {"about": about, "layers": layers, **{k: v for k, v in tables.items() if v}, "bases": bases}


def _without_hashes(document: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The document with dtypes in place of digests, and the hashes as bytes, which no code makes shorter."""
    hashes, bases = b"", []
    for base in document["bases"]:
        short = dict(base)
        for when in WHEN:
            rows = {name: value.split(" ") for name, value in base[when].items()}
            short[when] = {name: dtype for name, (dtype, _) in rows.items()}
            hashes += b"".join(bytes.fromhex(code) for _, code in rows.values())
        bases.append(short)
    return {**document, "bases": bases}, hashes


def _with_hashes(document: dict[str, Any], data: bytes) -> bytes:
    """Puts the hashes back into the document; returns the bytes after them."""
    for base in document["bases"]:
        for when in WHEN:
            for name, dtype in base[when].items():
                if len(data) < SHORT:
                    raise Damaged("too short")
                base[when][name], data = f"{dtype} {data[:SHORT].hex()}", data[SHORT:]
    return data


def _coded(ids: Any) -> tuple[Any, bytes]:
    """Ids that are positions, in order and each once, are coded by their gaps: how, and the bytes. Others stay as they
    are."""
    try:
        digits, coded = as_gaps(sorted(map(int, ids)))
        how = {"n": len(ids), "digits": digits, "bytes": len(coded), "words": isinstance(ids[0], str)}
        if _ids(how, coded)[0] == ids:
            return how, coded
    except (TypeError, ValueError, IndexError, OverflowError):
        pass
    return ids, b""


def _ids(how: Any, data: bytes) -> tuple[Any, bytes]:
    """The ids that `_coded` coded, and the bytes after them."""
    if not isinstance(how, dict):
        return how, data
    end = int(how["bytes"])
    positions = from_gaps(int(how["n"]), int(how["digits"]), data[:end])
    return sorted(map(str, positions)) if how["words"] else positions, data[end:]


def _rounded(data: Any, digits: int) -> Any:
    """The data, with every number that is not whole rounded to that many digits."""
    if isinstance(data, Mapping):
        return {name: _rounded(value, digits) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value, digits) for value in data]
    return float(f"{data:.{digits}g}") if isinstance(data, float) else data


def read_patch(path: Path) -> Patch:
    """BadInput where the file is damaged, was made by a later amends, or is no patch."""
    metadata, data = _file(path)
    if metadata is None:
        raise BadInput(
            f"this is no patch; patch {path}; give a file that amends patch wrote, then the weights it is for"
        )
    if _sha256(metadata, data[HASH:]) != data[:HASH]:
        raise _damaged(path, "its sha256 is another")
    try:
        if int(metadata[KEY]) != FORMAT:
            age = "a later" if int(metadata[KEY]) > FORMAT else "an earlier"
            raise BadInput(f"the patch was made by {age} amends; patch {path}; make it again")
        return _patch({name: metadata[name] for name in OPEN if name in metadata}, data[HASH:])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, zlib.error, Damaged) as e:
        if isinstance(e, BadInput):
            raise
        raise _damaged(path, f"{type(e).__name__}: {first_line(e)}") from e


def _file(path: Path) -> tuple[dict[str, str] | None, bytes]:
    """The metadata of the file, None if it is no patch, and the bytes of its tensor."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "this is not a file" if path.exists() else "no such file"
        raise BadInput(f"{what}; patch {path}; give a file that amends patch wrote")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            return (metadata, file.get_tensor(TENSOR).tobytes()) if KEY in metadata else (None, b"")
    except OSError as e:
        raise BadInput(f"the file cannot be read ({e.strerror or first_line(e)}); patch {path}; check the path") from e
    except (SafetensorError, ValueError, TypeError) as e:
        raise _damaged(path, first_line(e)) from e


def _damaged(path: Path, why: str) -> BadInput:
    return BadInput(f"the patch is damaged ({why}); patch {path}; copy it again, or make it again with amends patch")


def _patch(metadata: Mapping[str, str], data: bytes) -> Patch:
    document, rest = _long(data)
    ids, rest = _ids(document["ids"], rest)
    rest = _with_hashes(document, rest)
    parts: dict[str, dict[str, bytes]] = {}
    for name, row in document["layers"].items():
        parts[name] = {}
        for key, size in row["bytes"].items():
            parts[name][key], rest = rest[:size], rest[size:]
    layers = {}
    for name, row in document["layers"].items():
        shape, kind = tuple(int(n) for n in row["shape"]), row["kind"]
        move = None if kind == "exact" else KINDS[kind].of(row, parts[name], int(np.prod(shape, dtype=np.int64)))
        layers[name] = Layer(shape, float(row["changed"]), float(row["moved"]), move)
    bases = []
    for number, row in enumerate(document["bases"]):
        before = row["before"] if not number else {**bases[0].before, **row["before"]}
        ways = {name: parts[name].get(f"bits{number or ''}", b"") for name in layers}
        bases.append(Base(before, row["after"], ways, row["judged"]))
    about = {**metadata, **document["about"], **({} if ids is None else {IDS: ids})}
    return Patch(layers, tuple(bases), document.get("tied", {}), document.get("stored", {}), about)
