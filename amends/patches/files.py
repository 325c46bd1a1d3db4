"""Weights in files, with a patch put on or taken off. The result is a new file, otherwise the same as the old one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from amends.errors import BadInput, first_line
from amends.models.weights import read_checkpoint, read_weights
from amends.patches.codes import bits
from amends.patches.names import dtype_name
from amends.runs.disk import occupied, write_file, write_folder

Change = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
SAFE, TORCH = (".safetensors",), (".pt", ".pth", ".bin", ".ckpt")
USUAL = ("model", "pytorch_model", "adapter_model")
NO_WEIGHTS = ("optimizer", "scheduler", "training_args", "rng_state", "scaler")  # .bin and .pt of training runs


def rewritten(source: Path, out: Path, change: Change) -> dict[str, Tensor]:
    """Writes to `out` the weights of `source`, a file or a model's directory, with the tensors that `change` returns in
    place of its own; returns those tensors."""
    if not source.exists():
        raise BadInput(f"no such file; weights {source}; check the path")
    if occupied(out) or (out.exists() and not source.is_dir()):
        raise BadInput(f"the target exists; {out}; choose another with -o, or remove it first")
    files = weight_files(source)
    states = {path: read_weights(path) for path in files}
    new = dict(change({name: value for state in states.values() for name, value in state.items()}))
    if source.is_dir():
        write_folder(out, lambda target: _folder(source, target, states, new))
    else:
        write_file(out, lambda target: _file(source, target, states[source], new, out.suffix))
    return new


def weight_files(source: Path) -> list[Path]:
    """The files with weights: the one given, or those of a directory. If this has an index of shards, or a file
    named as transformers and peft do, its other files are not weights of the model."""
    if not source.is_dir():
        return [source]
    inside = sorted(p for p in source.iterdir() if p.is_file() and not p.name.startswith((".", *NO_WEIGHTS)))
    for endings in (SAFE, TORCH):
        weights = [p for p in inside if p.suffix in endings]
        index = next((p for p in inside if p.name.endswith(tuple(f"{e}.index.json" for e in endings))), None)
        usual = [p for p in weights if p.stem in USUAL]
        if index is not None:
            return _shards(index)
        if weights:
            return usual or weights
    raise BadInput(
        f"there are no weights in this folder; weights {source}; give a file of weights, or a model's folder"
    )


def _shards(index: Path) -> list[Path]:
    try:
        named = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as e:
        raise BadInput(f"the index of shards cannot be read ({first_line(e)}); weights {index}; copy it again") from e
    files = [index.parent / Path(str(name)).name for name in named]
    for path in files:
        if not path.is_file():
            raise BadInput(f"a shard that the index names is missing; weights {path}; copy the whole folder")
    return files


def _folder(source: Path, target: Path, states: Mapping[Path, Mapping[str, Tensor]], new: Mapping[str, Tensor]) -> None:
    for path in source.iterdir():
        if path in states:
            _file(path, target / path.name, states[path], new, path.suffix)
        elif path.is_dir():
            shutil.copytree(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)


def _file(source: Path, target: Path, state: Mapping[str, Tensor], new: Mapping[str, Tensor], ending: str) -> None:
    """Writes the weights in the format of the source, unless `ending` names another."""
    own = {name: value for name, value in new.items() if name in state}
    safe = _is_safetensors(source)
    if safe and ending not in TORCH:
        _safetensors(source, target, state, own)
    elif not safe and ending not in SAFE:
        _torch(source, target, own)
    elif safe:
        torch.save({**state, **own}, target)
    else:
        from safetensors.torch import save_file

        kept = {name: value.detach().clone().contiguous() for name, value in {**state, **own}.items()}
        save_file(kept, target, metadata={"format": "pt"})


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _safetensors(source: Path, target: Path, state: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> None:
    """If no dtype changes, only the bytes of these tensors differ from the source, so that reverting gives the same
    file."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    if any(value.dtype != state[name].dtype for name, value in new.items()):
        with safe_open(source, framework="pt") as file:
            metadata = file.metadata()
        save_file({name: new.get(name, value).contiguous() for name, value in state.items()}, target, metadata=metadata)
        return
    shutil.copyfile(source, target)
    with target.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
        for name, value in new.items():
            file.seek(8 + length + header[name]["data_offsets"][0])
            file.write(bits(value).tobytes())


def _torch(source: Path, target: Path, new: Mapping[str, Tensor]) -> None:
    """The whole checkpoint, with everything else that is in it; tensors that share memory still do."""
    whole, state = read_checkpoint(source)
    for name, value in new.items():
        if state[name].dtype == value.dtype:
            state[name].copy_(value)
        else:
            state[name] = value
    torch.save(whole, target)


def widened(state: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> str:
    """Which dtypes changed, in words; empty if none did."""
    other = {(dtype_name(state[n].dtype), dtype_name(v.dtype)) for n, v in new.items() if state[n].dtype != v.dtype}
    return ", ".join(f"{a} → {b}" for a, b in sorted(other))
