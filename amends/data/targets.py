"""From the labels in a file to the targets of a likelihood."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from amends.data.formats.raw import Asked, Raw
from amends.data.inputs import Inputs
from amends.errors import BadInput, nearest

NO_TARGET = -100  # a target where no token is to be predicted: the prompt, padding


def targets(x: Inputs, raw: Raw, asked: Asked) -> tuple[Inputs, Tensor, tuple[str, ...]]:
    """The inputs, their targets, and the names of the classes where there are any.

    Targets are class indices, real numbers [N, dims], rows of 0 and 1, or the tokens of the inputs.
    """
    if asked.target in ("tokens", "response"):
        return *_tokens(x, raw, asked.target), ()
    return x, *_labelled(raw, asked)


def _tokens(x: Inputs, raw: Raw, target: str) -> tuple[Inputs, Tensor]:
    """The text itself as the target, or the labels that the encoder returns."""
    if not isinstance(x, dict) or "input_ids" not in x:
        raise BadInput(f"target is {target!r}, but the inputs have no input_ids; {raw.where}; give encode, a tokenizer")
    if "labels" in x:
        y = x["labels"].long()
        cut = ((y[:, 1:] != NO_TARGET).sum(1) == 0).nonzero()
        if target == "response" and len(cut):
            raise BadInput(
                f"nothing of the response is left within {y.shape[1]} tokens; {raw.at(int(cut[0]))}; "
                "give a larger max_length, or drop the row"
            )
        return {k: v for k, v in x.items() if k != "labels"}, y
    if target == "response":
        raise BadInput(
            f"encode returns no labels, so the response cannot be told from the prompt; {raw.where}; "
            "give encode=amends.models.chat(tokenizer)"
        )
    return x, token_targets(x["input_ids"].long(), x.get("attention_mask"))


def token_targets(tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    """Every token but padding as a target: `tokens` [batch, length], and the attention mask where there is one."""
    return tokens.clone() if mask is None else torch.where(mask.bool(), tokens, NO_TARGET)


def _labelled(raw: Raw, asked: Asked) -> tuple[Tensor, tuple[str, ...]]:
    values = raw.labels
    if values is None:
        raise BadInput(f"the examples have no labels; {raw.where}; give a set with labels")
    if asked.target == "class":
        indices, classes = _classes(values, raw, asked)
        return torch.tensor(indices), classes
    numbers = _numbers(values, raw)
    if asked.target == "labels" and (numbers.ndim != 2 or not np.isin(numbers, (0, 1)).all()):
        bad = int(np.flatnonzero(~np.isin(numbers, (0, 1)).reshape(len(numbers), -1).all(1))[:1].sum())
        raise BadInput(
            f"several labels must be columns of 0 and 1, got {values[bad]}; {raw.at(bad)}; write 1 where a label holds"
        )
    y = numbers.reshape(len(numbers), -1)
    return torch.tensor(y, dtype=torch.get_default_dtype()), raw.classes if asked.target == "labels" else ()


def _numbers(values: np.ndarray, raw: Raw) -> np.ndarray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(numbers).reshape(len(numbers), -1).all(1))
    except (TypeError, ValueError):
        numbers, bad = values, np.array([i for i, v in enumerate(values) if not _is_number(v)])
    if len(bad):
        raise BadInput(f"label {values[bad[0]]!r} is not a number; {raw.at(int(bad[0]))}; give numbers")
    return numbers


def _is_number(value: object) -> bool:
    try:
        return bool(np.isfinite(np.asarray(value, dtype=np.float64)).all())
    except (TypeError, ValueError):
        return False


def _classes(values: np.ndarray, raw: Raw, asked: Asked) -> tuple[np.ndarray, tuple[str, ...]]:
    if values.ndim != 1:
        raise BadInput(
            f"labels have shape {list(values.shape)}; {raw.where}; give one class per example, or another target"
        )
    if any(isinstance(v, str) for v in values):
        return _named(values, raw, asked.classes)
    numbers = _numbers(values, raw)
    uneven = np.flatnonzero(numbers != np.round(numbers))
    if len(uneven):
        what = f"label {values[uneven[0]]} is not a class"
        raise BadInput(f'{what}; {raw.at(int(uneven[0]))}; give whole numbers, or target = "real"')
    indices = numbers.astype(np.int64)
    known = raw.classes or asked.classes
    outside = np.flatnonzero((indices < 0) | (indices >= len(known) if known else False))
    if len(outside) and not raw.classes and {str(i) for i in np.unique(indices)} <= set(known):
        return _named(indices, raw, known)  # not positions, so names
    if len(outside):
        expected = f"0 to {len(known) - 1}" if known else "0 or more"
        raise BadInput(
            f"label {indices[outside[0]]}, expected {expected}; {raw.at(int(outside[0]))}; check the classes"
        )
    if asked.classes and raw.classes and asked.classes != raw.classes:  # the file names them in another order
        names = np.array([raw.classes[i] for i in indices], dtype=object)
        return _named(names, raw, asked.classes)
    return indices, known


def _named(values: np.ndarray, raw: Raw, classes: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Names as indices into the given classes, or into all names that occur, sorted."""
    names = [str(v) for v in values]
    classes = classes or tuple(sorted(set(names)))
    place = {name: i for i, name in enumerate(classes)}
    for i, name in enumerate(names):
        if name not in place:
            raise BadInput(f"label {name!r} is not a class; {raw.at(i)}; {nearest(name, classes)}")
    return np.array([place[name] for name in names], dtype=np.int64), classes


def target_of(word: str, y: Tensor, classes: Sequence[str], where: str) -> Tensor:
    """A label as a person writes it (the name or number of a class, a number, a list in brackets), as a target like
    those of `y`."""
    one = y.ndim == 1 and not y.is_floating_point()
    whole = str(int(float(word))) if one and _is_number(word) and float(word) % 1 == 0 else word  # 7.0 is 7
    if one and classes:
        known = [*classes, *map(str, range(len(classes)))]  # a name counts before a number
        at = next((known.index(name) for name in (word, whole) if name in known), None)
        if at is None:
            raise BadInput(f"label {word!r} is not a class; {where}; {nearest(word, classes)}")
        return torch.tensor(at % len(classes))
    try:
        value = np.asarray(json.loads(whole), dtype=np.float64).reshape(y.shape[1:])
    except (ValueError, TypeError):
        value = np.full(1, np.nan)
    if not np.isfinite(value).all() or (not y.is_floating_point() and (value % 1 != 0).any()):
        raise BadInput(f"{word!r} is not a label of train; {where}; write one like those given")
    return torch.tensor(value, dtype=y.dtype)
