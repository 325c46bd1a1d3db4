"""Weights from a file, without running code from it."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amends.errors import BadInput, first_line, kind_of

WRAPPERS = ("state_dict", "model_state_dict", "model")  # keys of training scripts and Lightning
PREFIXES = ("module.", "model.", "_orig_mod.")  # of DataParallel, of Lightning modules, of torch.compile
EXPORTED = "load the network it was made from, and give its state dict"


def read_weights(path: Path, unsafe_pickle: bool = False) -> dict[str, Tensor]:
    """Named tensors of a safetensors file or a torch state dict, also inside a checkpoint; with `unsafe_pickle` also of
    whole modules, whose file may run any code."""
    if path.is_dir():
        raise BadInput(f"this is a folder, not a file; weights {path}; give a file, or huggingface = the folder")
    if path.exists() and not path.is_file():
        raise BadInput(f"this is not a file but a pipe or a device; weights {path}; give a file")
    try:
        with path.open("rb") as f:
            head = f.read(16)
    except OSError as e:
        raise BadInput(
            f"the file cannot be read ({e.strerror or first_line(e)}); weights {path}; check the path"
        ) from e
    _refuse(path, head)
    if path.suffix == ".safetensors" or head[8:9] == b"{":
        return _safetensors(path)
    whole = _anything(path) if unsafe_pickle else _unpickled(path)
    return {str(k): v for k, v in _inside(whole, path).items()}


def read_checkpoint(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """The contents of a torch file, and the named tensors inside, which share memory with them."""
    whole = _unpickled(path)
    return whole, _inside(whole, path)


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(str(path))
    except SafetensorError as e:
        raise BadInput(f"the safetensors file is damaged ({first_line(e)}); weights {path}; copy it again") from e


def _refuse(path: Path, head: bytes) -> None:
    """BadInput for a format without weights that torch could train, recognised by its first bytes or its name."""
    names = _archived(path) if head[:2] == b"PK" else []
    what = None
    if any(name.endswith((".weights.h5", "keras_metadata.pb")) for name in names) or head[:4] == b"\x89HDF":
        what = "a Keras model, which torch cannot train", "rebuild the network in torch and give its state dict"
    elif any("exported_program" in name or name.endswith("archive_format") for name in names):
        what = "a torch.export program, a fixed graph whose weights cannot be edited", EXPORTED
    elif any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        what = "a TorchScript archive, a fixed graph whose weights cannot be edited", EXPORTED
    elif path.suffix == ".onnx":
        what = "an ONNX graph, fixed and without a backward pass", EXPORTED
    elif head[:4] == b"GGUF":
        what = "quantised weights (GGUF), too coarse for a small edit", "give the weights before quantisation"
    elif head[4:8] == b"TFL3" or path.suffix == ".pb":
        what = "a TensorFlow graph, which torch cannot train", "rebuild the network in torch and give its state dict"
    if what is not None:
        raise BadInput(f"the file holds {what[0]}; weights {path}; {what[1]}")


def _archived(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as e:  # also names that are no text, unknown versions
        raise BadInput(f"the archive is damaged ({first_line(e)}); weights {path}; copy it again") from e


def _unpickled(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old formats
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # for a file of another kind, torch may raise anything
        if isinstance(e, pickle.UnpicklingError) and ("Unsupported" in str(e) or "GLOBAL" in str(e)):
            raise BadInput(
                f"the file holds a whole module or other objects, which run code when loaded; weights {path}; save the "
                "state dict alone: safetensors.torch.save_model(model, path), or torch.save(model.state_dict(), path)"
            ) from e
        if isinstance(e, pickle.UnpicklingError) and "weights_only" in str(e):  # torch's own message says how to run it
            what = "the file holds more than tensors, and unpickling it could run code"
        else:
            what = f"not a file of weights ({first_line(e)})"
        raise BadInput(f"{what}; weights {path}; give safetensors or a torch state dict") from e


def _anything(path: Path) -> Any:
    """The unpickled contents of a file, which may run any code: only if the user allowed it. State dicts for
    modules."""
    try:
        whole = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as e:  # whatever the code in the file raises
        raise BadInput(
            f"unpickling raised {type(e).__name__} ({first_line(e)}); weights {path}; give safetensors or a state dict"
        ) from e
    if isinstance(whole, dict):
        whole = {k: v.state_dict() if isinstance(v, nn.Module) else v for k, v in whole.items()}
    return whole.state_dict() if isinstance(whole, nn.Module) else whole


def _inside(given: Any, path: Path) -> dict[str, Tensor]:
    """The state dict of a torch file."""
    if isinstance(given, dict):
        for wrapper in WRAPPERS:
            if isinstance(given.get(wrapper), dict):
                given = given[wrapper]
                break
        if given and all(isinstance(v, Tensor) for v in given.values()):
            return given
    names = f" with {', '.join(map(str, list(given)[:5]))}" if isinstance(given, Mapping) and given else ""
    raise BadInput(
        f"expected named tensors, got {kind_of(given)}{names}; weights {path}; "
        f"give a state dict, plain or under one of {', '.join(WRAPPERS)}"
    )


def put_weights(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Loads the weights into the model, in place. A prefix is dropped only if the names then fit exactly; of
    tied weights, one is enough."""
    wanted = model.state_dict()
    for fitted in _prefixed(state):
        if not any(_misfits(wanted, fitted)):
            state = fitted
            break
    missing, unexpected = _misfits(wanted, state)
    if missing or unexpected:
        both = {"missing": missing, "unexpected": unexpected}
        parts = [f"{kind} {_some(names)}" for kind, names in both.items() if names]
        raise BadInput(f"the weights do not fit the model: {', '.join(parts)}; {where}; give the weights of this model")
    for name, value in state.items():
        if value.is_quantized or (wanted[name].is_floating_point() and not value.is_floating_point()):
            raise BadInput(
                f"{name} is quantised ({str(value.dtype).removeprefix('torch.')}); {where}; "
                "give the weights before quantisation"
            )
        if value.shape != wanted[name].shape:
            raise BadInput(
                f"{name} has shape {list(value.shape)}, expected {list(wanted[name].shape)}; {where}; "
                "give the weights of this model"
            )
    model.load_state_dict(state, strict=False)


def _prefixed(state: Mapping[str, Tensor]) -> Iterator[Mapping[str, Tensor]]:
    yield state
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in state):
            yield {name.removeprefix(prefix): value for name, value in state.items()}


def _misfits(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Missing names and unexpected ones; a tied weight is present if any of its names is."""
    present = {_place(wanted[name]) for name in state if name in wanted}
    absent = [name for name in wanted if name not in state]
    missing = [name for name in absent if not wanted[name].data_ptr() or _place(wanted[name]) not in present]
    return missing, [name for name in state if name not in wanted]


def _place(t: Tensor) -> tuple[Any, ...]:
    return t.data_ptr(), t.shape, t.stride()


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
