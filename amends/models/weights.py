"""Weights from a file, without running anything that is in it."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amends.errors import BadInput, first_line

WRAPPERS = ("state_dict", "model_state_dict", "model")  # what training scripts and Lightning put them under
PREFIXES = ("module.", "model.", "_orig_mod.")  # of DataParallel, of Lightning modules, of torch.compile
DONE_WITH_IT = "load the network it was made from, and give its state dict"


def read_weights(path: Path) -> dict[str, Tensor]:
    """Named tensors of a safetensors file or a torch state dict, also inside a checkpoint."""
    if path.is_dir():
        raise BadInput(f"a folder in place of a file; weights {path}; give a file, or huggingface = the folder")
    try:
        with path.open("rb") as f:
            head = f.read(16)
    except OSError as e:
        raise BadInput(f"cannot be read ({e.strerror or first_line(e)}); weights {path}; check the path") from e
    _refuse(path, head)
    if path.suffix == ".safetensors" or head[8:9] == b"{":
        return _safetensors(path)
    return _state(_unpickled(path), path)


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(str(path))
    except SafetensorError as e:
        raise BadInput(f"not a whole safetensors file ({first_line(e)}); weights {path}; copy it again") from e


def _refuse(path: Path, head: bytes) -> None:
    """What holds no weights that could be trained further is known by its first bytes, or by its name."""
    names = _archived(path) if head[:2] == b"PK" else []
    what = None
    if any(name.endswith((".weights.h5", "keras_metadata.pb")) for name in names) or head[:4] == b"\x89HDF":
        what = "a Keras model, which torch cannot train", "rebuild the network in torch and give its state dict"
    elif any("exported_program" in name or name.endswith("archive_format") for name in names):
        what = "a torch.export program, a fixed graph whose weights cannot be edited", DONE_WITH_IT
    elif any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        what = "a TorchScript archive, a fixed graph whose weights cannot be edited", DONE_WITH_IT
    elif path.suffix == ".onnx":
        what = "an ONNX graph, fixed and without a backward pass", DONE_WITH_IT
    elif head[:4] == b"GGUF":
        what = "quantised weights (GGUF), too coarse for a small edit", "give the weights before quantisation"
    elif head[4:8] == b"TFL3" or path.suffix == ".pb":
        what = "a TensorFlow graph, which torch cannot train", "rebuild the network in torch and give its state dict"
    if what is not None:
        raise BadInput(f"{what[0]}; weights {path}; {what[1]}")


def _archived(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile as e:
        raise BadInput(f"a damaged archive ({first_line(e)}); weights {path}; copy it again") from e


def _unpickled(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old formats; what matters is said below
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # of a file that is none of torch's, the reader may raise anything
        if isinstance(e, pickle.UnpicklingError) and ("Unsupported" in str(e) or "GLOBAL" in str(e)):
            raise BadInput(
                f"it holds a whole module or other objects, which would run code when opened; weights {path}; save its "
                "state dict alone: safetensors.torch.save_model(model, path), or torch.save(model.state_dict(), path)"
            ) from e
        raise BadInput(
            f"not a file of weights ({first_line(e)}); weights {path}; give safetensors or a torch state dict"
        ) from e


def _state(given: Any, path: Path) -> dict[str, Tensor]:
    if isinstance(given, Mapping):
        for wrapper in WRAPPERS:
            if isinstance(given.get(wrapper), Mapping):
                given = given[wrapper]
                break
        found = {str(k): v for k, v in given.items() if isinstance(v, Tensor)}
        if found and len(found) == len(given):
            return found
    names = f" with {', '.join(map(str, list(given)[:5]))}" if isinstance(given, Mapping) and given else ""
    raise BadInput(
        f"a {type(given).__name__}{names} in place of named tensors; weights {path}; "
        f"give a state dict, plain or under {', '.join(WRAPPERS)}"
    )


def put_weights(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Into the model, in place. A prefix is dropped only where the names then fit exactly; of tied weights
    one is enough."""
    wanted = model.state_dict()
    for fitted in _prefixed(state):
        if not any(_misfits(wanted, fitted)):
            state = fitted
            break
    missing, unexpected = _misfits(wanted, state)
    if missing or unexpected:
        parts = [f"{kind} {_some(names)}" for kind, names in (("no", missing), ("unexpected", unexpected)) if names]
        raise BadInput(f"the weights do not fit the model: {', '.join(parts)}; {where}; give those of this model")
    for name, value in state.items():
        if value.is_quantized or (wanted[name].is_floating_point() and not value.is_floating_point()):
            raise BadInput(
                f"{name} is {str(value.dtype).removeprefix('torch.')}, quantised; {where}; "
                "give the weights before quantisation"
            )
        if value.shape != wanted[name].shape:
            raise BadInput(
                f"{name} is {list(value.shape)}, the model's {list(wanted[name].shape)}; {where}; "
                "give those of this model"
            )
    model.load_state_dict(state, strict=False)


def _prefixed(state: Mapping[str, Tensor]) -> Iterator[Mapping[str, Tensor]]:
    yield state
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in state):
            yield {name.removeprefix(prefix): value for name, value in state.items()}


def _misfits(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Names that are missing and names too many; a tied weight is there if any of its names is."""
    there = {_place(wanted[name]) for name in state if name in wanted}
    absent = [name for name in wanted if name not in state]
    missing = [name for name in absent if not wanted[name].data_ptr() or _place(wanted[name]) not in there]
    return missing, [name for name in state if name not in wanted]


def _place(t: Tensor) -> tuple[Any, ...]:
    return t.data_ptr(), t.shape, t.stride()


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
