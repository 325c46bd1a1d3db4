"""How an example is shown to a person: its picture, its text, or the columns in which it stands out."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from amends.data.examples import AT_ONCE, Examples, Inputs, leaves
from amends.evaluation.predictions import predicted
from amends.evidence.factor import Factor
from amends.evidence.params import Params

if TYPE_CHECKING:
    import pandas as pd

    from amends.algorithm.identify import Influence

SIDE = {"train": 96, "failures": 64, "remaining": 64}  # pixels; failures are shown smaller, next to a cause
TEXTS = ("text", "sentence", "review", "question", "prompt", "content", "document", "body", "comment")
LONG = 30  # mean length from which a column with another name counts as the text
CUT = 700  # characters of a text that are shown
STANDING_OUT = 5
ROW = 64  # a row with at most this many columns is shown whole
FLAT = {784: (1, 28, 28), 3072: (3, 32, 32)}  # pictures that are often given as rows
CAUSES, COPIES, CHANGED, SUSPECTS = 60, 24, 40, 24  # how many of each are shown

Shown = tuple[Examples, Sequence[int] | np.ndarray]


def looks(train: Shown | None = None, failures: Shown | None = None, remaining: Shown | None = None) -> dict[str, Any]:
    """The examples at these positions of the user's sets, as looks.json holds them."""
    sets = {"train": train, "failures": failures, "remaining": remaining}
    kinds = {name: kind_of(shown[0]) for name, shown in sets.items() if shown is not None}
    kind = next(iter(kinds.values()), "none")
    first = next((shown[0] for shown in sets.values() if shown is not None), None)
    typical = _typical(first) if first is not None and kind == "row" else None
    seen: dict[str, Any] = {"kind": kind, "features": list(getattr(first, "features", ()))}
    seen["classes"] = list(getattr(first, "classes", ()))
    for name, shown in sets.items():
        seen[name] = {} if shown is None else _set(*shown, kinds[name], typical, SIDE[name])
    return seen


def looks_of(
    influence: Influence,
    causes: pd.DataFrame,
    failures: Examples,
    remaining: Examples | None = None,
    *,
    metrics: Mapping[str, Any] | None = None,
    after: Params | None = None,
) -> dict[str, Any]:
    """Every example a report shows: the strongest causes and near copies among them, the failures they conflict
    with, and what was fixed, newly broken or has a doubtful label; with what the model predicts, before and `after`.

    `failures` and `remaining` are the sets the user gave. Where groups were repaired one after the other,
    `influence` is that of the first, which has the model as it came.
    """
    figures = metrics or {}
    strongest = causes["index"].tolist()[:CAUSES]
    copies = [i for group in figures.get("duplicates", ()) for i in group][:COPIES]
    conflicting = [j for row in causes["conflicts_with"].tolist()[:CAUSES] for j in row]
    at = {
        "train": _once(strongest + copies),
        "failures": _once(
            [*conflicting, *figures.get("fixed_at", ())[:CHANGED], *figures.get("suspects", ())[:SUSPECTS]]
        ),
        "remaining": _once(figures.get("broken_at", ())[:CHANGED]) if remaining is not None else [],
    }
    sets = {"train": influence.train.examples, "failures": failures, "remaining": remaining}
    seen = looks(**{name: None if data is None else (data, at[name]) for name, data in sets.items()})
    weights = {"predicted": influence.train.network.params} | ({} if after is None else {"predicted_after": after})
    for name in ("failures", "remaining"):
        data = sets[name]
        for key, theta in weights.items():
            if data is None or not at[name]:
                continue
            part = Factor.of(influence.train.network, data[np.array(at[name])], influence.train.batch)
            for position, value in zip(at[name], predicted(part, theta), strict=True):
                seen[name][str(position)][key] = _label(torch.as_tensor(value), data)
    return seen


def kind_of(data: Examples) -> str:
    """image, text, row or none."""
    pictures, text = pictures_in(data.x), bool(text_column(data))
    if pictures is not None and (not text or any(leaf.ndim == 4 for leaf in leaves(data.x))):
        return "image"  # with a text, a matrix or a flat row does not count as a picture
    if text:
        return "text"
    if data.stored is not None:
        return "row"
    x = leaves(data.x)[0]
    return "row" if isinstance(data.x, Tensor) and x.ndim == 2 and x.is_floating_point() else "none"


def _set(
    data: Examples, positions: Sequence[int] | np.ndarray, kind: str, typical: tuple[Tensor, Tensor] | None, side: int
) -> dict[str, dict[str, Any]]:
    names, column = list(getattr(data, "features", ())), text_column(data)
    called = _columns(data).get("id", _columns(data).get("path"))
    pictures = pictures_in(data.x) if kind == "image" else None
    seen = {}
    for position in map(int, positions):
        row = int(data.rows[position])
        entry: dict[str, Any] = {}
        if pictures is not None:
            entry["image"] = picture(pictures[row], side)
        elif kind == "text":
            text = str(_columns(data)[column][row])
            entry["text"] = text if len(text) <= CUT else text[:CUT].rsplit(" ", 1)[0] + " …"
        elif kind == "row":
            entry |= row_of(table_of(data)[row], names, typical)
        label = _label(data.y[position], data)
        entry |= {} if called is None else {"id": str(called[row])}
        seen[str(position)] = entry | ({} if label is None else {"label": label})
    return seen


def _label(y: Tensor, data: Examples) -> Any:
    """A label in the user's words if they are known: a class, the labels that hold, or a number."""
    classes = getattr(data, "classes", ())
    if y.ndim == 0 and not y.is_floating_point():
        k = int(y)
        return classes[k] if 0 <= k < len(classes) else k
    if y.ndim == 1 and len(classes) == len(y):
        return ", ".join(name for name, holds in zip(classes, y.tolist(), strict=True) if holds > 0.5) or "none"
    values = y.flatten().tolist()
    if not y.is_floating_point() and len(values) > 1 and min(values) < 0:  # targets of tokens
        return None
    return round(values[0], 4) if len(values) == 1 else [round(v, 4) for v in values[:20]]


# --- pictures ------------------------------------------------------------------------------------------


def pictures_in(x: Inputs) -> Tensor | None:
    """The input that is a stack of pictures, channels first; None if there is none."""
    for leaf in leaves(x):
        if leaf.ndim == 4 and leaf.shape[1] in (1, 3) and min(leaf.shape[2:]) >= 4:
            return leaf
        if leaf.ndim == 4 and leaf.shape[3] in (1, 3) and min(leaf.shape[1:3]) >= 4:
            return leaf.permute(0, 3, 1, 2)
        if leaf.ndim == 3 and min(leaf.shape[1:]) >= 8 and (leaf.is_floating_point() or leaf.dtype == torch.uint8):
            return leaf[:, None]
        if leaf.ndim == 2 and leaf.shape[1] in FLAT and leaf.is_floating_point():
            return leaf.unflatten(1, FLAT[leaf.shape[1]])
    return None


def picture(image: Tensor, side: int = 96) -> str:
    """[1|3, H, W] as a data URL of a PNG, averaged down to `side`."""
    return "data:image/png;base64," + base64.b64encode(png(pixels(image, side))).decode()


def pixels(image: Tensor, side: int | None = None) -> np.ndarray:
    """[1|3, H, W] as bytes [H, W, 1|3]. Bytes and values from 0 to 1 are shown as they are, other values scaled to
    their own range; a picture larger than `side` is averaged down."""
    x = image.detach().cpu().double()
    if image.dtype == torch.uint8:
        x = x / 255
    elif float(x.min()) < 0 or float(x.max()) > 1:
        x = (x - x.min()) / (x.max() - x.min()).clamp(min=1e-12)
    high, wide = x.shape[1:]
    if side is not None and max(high, wide) > side:
        scale = side / max(high, wide)
        x = adaptive_avg_pool2d(x, (max(1, round(high * scale)), max(1, round(wide * scale))))
    return (x * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def png(pixels: np.ndarray) -> bytes:
    """[H, W, 1|3] bytes as a PNG file."""
    high, wide, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(pixels))

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", wide, high, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


# --- text and tables -----------------------------------------------------------------------------------


def _columns(data: Examples) -> Mapping[str, Any]:
    return getattr(data, "columns", None) or {}


def text_column(data: Examples) -> str:
    """The name of the user's column that holds the text of an example; empty where there is none."""
    length = {}
    for name, values in _columns(data).items():
        few = [str(v) for v in values[:50] if isinstance(v, str)]
        if few and name not in ("id", "path"):
            length[name] = sum(map(len, few)) / len(few)
    known = next((name for name in TEXTS if name in length), "")
    longest = max(length, key=length.__getitem__, default="")
    return known or (longest if length.get(longest, 0) >= LONG else "")


def _typical(data: Examples) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every column of a table, which need not fit into memory."""
    table, n = table_of(data), len(data)
    parts = [data.rows[i : i + AT_ONCE].to(table.device) for i in range(0, n, AT_ONCE)]
    mean = torch.stack([table[part].double().sum(0) for part in parts]).sum(0) / n
    return mean, (torch.stack([(table[part].double() - mean).square().sum(0) for part in parts]).sum(0) / n).sqrt()


def table_of(data: Examples) -> Tensor:
    """The rows as the file has them, or if that is unknown as the model takes them."""
    return leaves(data.x)[0] if data.stored is None else torch.as_tensor(data.stored)


def row_of(values: Tensor, names: Sequence[str], typical: tuple[Tensor, Tensor] | None) -> dict[str, Any]:
    """A row, and what stands out in it: the columns furthest from their mean, in standard deviations."""
    values = values.double().cpu()
    named = list(names) if len(names) == len(values) else [f"column {i}" for i in range(len(values))]
    entry: dict[str, Any] = {"row": [_short(v) for v in values.tolist()] if len(values) <= ROW else []}
    if typical is None:
        return entry
    mean, spread = (t.cpu() for t in typical)
    away = torch.where(spread > 0, (values - mean) / spread.clamp(min=1e-12), torch.zeros(()).double())
    far = away.abs().argsort(descending=True, stable=True)[:STANDING_OUT].tolist()
    return entry | {
        "stands_out": [named[i] for i in far],
        "values": [_short(float(values[i])) for i in far],
        "deviations": [round(float(away[i]), 2) for i in far],
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _once(positions: Iterable[Any]) -> list[int]:
    """Each position once, in order."""
    return list(dict.fromkeys(int(p) for p in positions))
