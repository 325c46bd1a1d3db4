"""The tensors of a model under the names in its files, and how these match the tensors of a patch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from amends.errors import BadInput
from amends.models.estimators import Around
from amends.models.weights import PREFIXES
from amends.patches.codes import bits

DIGITS = 16  # of a sha256, enough to distinguish tensors


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every tensor that a file of the model holds, by its name there, sharing memory with the model. Only the adapter
    where the model has one."""
    inner = model.inner if isinstance(model, Around) else model
    state = {name: value.detach() for name, value in inner.state_dict().items() if isinstance(value, Tensor)}
    if not hasattr(inner, "peft_config"):
        return state
    from peft import get_peft_model_state_dict

    names = set(get_peft_model_state_dict(inner, save_embedding_layers=False))
    return {_in_file(name): value for name, value in state.items() if _in_file(name) in names}


def _in_file(name: str) -> str:
    """The name as peft writes it: without the name of the adapter."""
    return name.replace(".modules_to_save.default.", ".").replace(".default.", ".")


def tied(state: Mapping[str, Tensor]) -> dict[str, str]:
    """For tensors with several names: the first name, by each of the others."""
    seen: dict[Any, str] = {}
    again = {}
    for name, value in state.items():
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if not value.numel() or place not in seen:
            seen[place] = name
        else:
            again[name] = seen[place]
    return again


def digest(value: Tensor) -> str:
    """The dtype of a tensor, in words, then a hash of its shape and every bit."""
    total = hashlib.sha256(f"{list(value.shape)};".encode())
    total.update(bits(value).data)
    return f"{dtype_name(value.dtype)} {total.hexdigest()[:DIGITS]}"


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def widened(value: Tensor, known: str) -> Tensor:
    """The tensor in the dtype that a digest names, if that holds its numbers exactly; else as it is."""
    wanted = getattr(torch, known.partition(" ")[0], None)
    if not isinstance(wanted, torch.dtype) or value.dtype == wanted or not value.is_floating_point():
        return value
    return value.to(wanted) if torch.promote_types(value.dtype, wanted) == wanted else value


@dataclass(frozen=True, eq=False)
class Fitted:
    """Given tensors as a patch knows them: each under its name in the patch, with all the names it was given by."""

    state: dict[str, Tensor]
    names: dict[str, list[str]]


def fitted(given: Mapping[str, Tensor], known: Mapping[str, str], tied: Mapping[str, str], where: str) -> Fitted:
    """BadInput unless the given tensors are those a patch knows, by name; of tied ones a single name is enough. A
    prefix is dropped only if the names fit then."""
    for renamed in _renamed(given):
        by_name: dict[str, list[str]] = {}
        for name, in_patch in renamed.items():
            by_name.setdefault(tied.get(in_patch, in_patch), []).append(name)
        if by_name.keys() == known.keys():
            return Fitted({name: given[those[0]] for name, those in by_name.items()}, by_name)
    by_name = {tied.get(name, name): [name] for name in given}
    missing, other = sorted(known.keys() - by_name.keys()), sorted(by_name.keys() - known.keys())
    parts = [f"{what} {some(names)}" for what, names in (("without", missing), ("with", other)) if names]
    raise BadInput(f"the patch is of another model, {' and '.join(parts)}; {where}; give the model it was made for")


def _renamed(given: Mapping[str, Tensor]) -> Iterator[dict[str, str]]:
    yield {name: name for name in given}
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in given):
            yield {name: name.removeprefix(prefix) for name in given}


def some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
