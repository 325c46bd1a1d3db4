"""Train as the user has it: the table, the texts, the image files, before they are prepared for a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from amends.data import formats
from amends.data.examples import examples
from amends.data.formats.columns import IMAGES, TEXTS
from amends.data.formats.jsonl import lines_of, table_of
from amends.data.formats.pictures import Pictures
from amends.data.formats.raw import COLUMNS, IMAGE, ROW, TEXT, Asked, Raw
from amends.data.hashes import set_hash
from amends.data.inputs import leaves
from amends.data.read import read
from amends.data.records import Records
from amends.data.views import LABELS
from amends.errors import BadInput, RunMismatch
from amends.runs.compare import same_data
from amends.runs.run import Run
from amends.tables.looks import kind_of, pictures_in, text_column
from amends.workflow.job import train_of

if TYPE_CHECKING:
    import pandas as pd

NAMES = ({"input_ids", "attention_mask", "token_type_ids", "pixel_values"}, set())  # inputs among named columns


@dataclass(frozen=True, eq=False)
class Source:
    """All of train. An input is a file, the bytes of one, an array [C, H, W], a text, or a row of numbers.

    `table` holds the user's own columns, a text or path among them, and the labels in the user's words; it is
    `whole` when it holds the inputs too.
    """

    kind: str
    inputs: Any
    records: Records
    table: pd.DataFrame
    labels: tuple[str, ...]  # their columns in the table
    whole: bool
    input: str | None = None  # the column that holds the text, or the path of the image
    folder: Path | None = None  # what those paths count from
    ids: str = "id"  # the column of ids, if there is one
    hub: Any = None  # a Hugging Face dataset, which is handed on as it is

    def __len__(self) -> int:
        return len(self.records)

    @property
    def where(self) -> str:
        return self.records.where or "train"

    def image(self, i: int) -> Tensor:
        """Example i as a picture [1|3, H, W]."""
        given = self.inputs[i]
        if isinstance(given, Tensor):
            return given
        return Pictures(Raw(IMAGE, [given], None, f"{self.where}[{i}]"), None, False)[0]

    def id(self, i: int) -> str | None:
        ids = self.records.columns.get("id")
        return None if ids is None else str(ids[i])

    def needs(self, kind: str, to: str, instead: str) -> None:
        if self.kind != kind:
            raise BadInput(f"{to} needs {kind}s, but train holds {self.kind}s; {self.where}; {instead}")


def source(run: Run, data: Any = None) -> Source:
    """The train set of the run: `data` if it is given, otherwise the set its config names."""
    return _in_memory(run, data) if data is not None else _on_disk(run)


def _same(run: Run, train: Records) -> bool:
    return run.about["data"]["train"]["sha256"] == set_hash(train.x, train.y)


def _on_disk(run: Run) -> Source:
    path, keys = train_of(run.config)
    train = read(path, **keys)
    same_data(run, "train", set_hash(train.x, train.y))
    columns: dict[str, Any] = {k: keys.get(k) for k in COLUMNS}
    ready = "transform" in keys or "encode" in keys
    target = keys.get("target", "class")
    asked = Asked(**columns, classes=tuple(train.classes if target == "class" else ()), target=target, encoded=ready)
    name = keys.get("format") or formats.guess(path)
    raw = formats.raw(path, name, asked)
    left = train.columns["row"] if len(train) < len(raw.inputs) else np.arange(len(train))  # others cannot be read
    raw = raw.only(left) if len(left) < len(raw.inputs) else raw
    file = Path(raw.where)
    if name == "huggingface" and (file / "state.json").exists():
        from datasets import load_from_disk

        hub: Any = load_from_disk(str(file))
        hub = hub if len(left) == len(hub) else hub.select(left)
        return _tabular(hub.with_format("arrow")[:].to_pandas(), raw, train, asked, file, hub)
    if name in ("csv", "parquet", "jsonl"):
        table = _table(file, name).iloc[left].reset_index(drop=True)
        return _tabular(table, raw, train, asked, file.parent)
    return _as_table(raw, train, file if file.is_dir() else file.parent)


def _table(file: Path, name: str) -> pd.DataFrame:
    """A CSV word for word, nothing in it taken for a number."""
    import pandas as pd

    if name == "parquet":
        return pd.read_parquet(file)
    if name == "jsonl":
        return pd.DataFrame(table_of(lines_of(file)))
    return pd.read_csv(file, sep="\t" if ".tsv" in file.suffixes else ",", dtype=str, keep_default_na=False)


def _tabular(table: pd.DataFrame, raw: Raw, train: Records, asked: Asked, folder: Path, hub: Any = None) -> Source:
    """The user's table, without columns that hold lists or bytes."""
    table = table.rename(columns=str)
    labels = () if asked.target in ("tokens", "response") else _labels(table, asked)
    known = {IMAGE: (asked.image, IMAGES), TEXT: (asked.text, TEXTS)}.get(raw.kind)
    column = None if known is None else known[0] or next((c for c in known[1] if c in table and c not in labels), None)
    nested = [c for c in table if _is_nested(table[c])]
    return Source(
        raw.kind, raw.inputs, train, table.drop(columns=nested), labels, whole=not nested, input=column, folder=folder,
        ids=asked.id or "id", hub=hub,
    )  # fmt: skip


def _is_nested(column: Any) -> bool:
    return isinstance(next(iter(column.dropna()), None), np.ndarray | list | Mapping | bytes)


def _labels(table: pd.DataFrame, asked: Asked) -> tuple[str, ...]:
    if asked.label is not None:
        return (asked.label,) if isinstance(asked.label, str) else tuple(asked.label)
    return (next(c for c in LABELS if c in table.columns),)


def _as_table(raw: Raw, train: Records, folder: Path, column: str | None = None) -> Source:
    """A table for a set that has none on disk: the user's columns, the numbers of a row, and the label."""
    import pandas as pd

    table = pd.DataFrame({str(k): v for k, v in raw.columns.items()}, index=range(len(train)))
    flat = raw.kind == ROW and np.ndim(raw.inputs) == 2
    if raw.kind == TEXT and column is None:
        column, table["text"] = "text", list(raw.inputs)
    elif raw.kind == IMAGE and isinstance(raw.inputs[0], Path):
        column = next((c for c in IMAGES if c in table.columns), None)
    words: dict[str, Any] = label_words(train.y, train)
    if flat:
        names = raw.features or [f"x{i}" for i in range(np.shape(raw.inputs)[1])]
        words = dict(zip(names, np.asarray(raw.inputs).T, strict=True)) | words
    table = pd.concat([table.drop(columns=[c for c in words if c in table.columns]),
                       pd.DataFrame(words, index=table.index)], axis=1)  # fmt: skip
    labels, whole = tuple(label_words(train.y[:1], train)), flat or column is not None
    pictures = pictures_in(torch.as_tensor(np.asarray(raw.inputs))) if raw.kind == ROW else None
    if pictures is not None:
        return Source(IMAGE, pictures, train, table, labels, whole, column, folder)
    return Source(raw.kind, raw.inputs, train, table, labels, whole, column, folder)


def label_words(y: Tensor, train: Records) -> dict[str, list[Any]]:
    """Targets as columns a person reads: a class by its name, a number, a column of 0 and 1 for each label."""
    if y.ndim > 1 and not y.is_floating_point():  # tokens, which are the text itself
        return {}
    if y.ndim == 1 and y.is_floating_point():
        return {"label": y.tolist()}
    if y.ndim == 1:
        return {"label": [train.classes[k] if 0 <= k < len(train.classes) else k for k in y.tolist()]}
    flat = y.reshape(len(y), -1)
    if flat.shape[1] == 1:
        return {"label": flat[:, 0].tolist()}
    several = len(train.classes) == flat.shape[1]
    names = train.classes if several else [f"label_{i}" for i in range(flat.shape[1])]
    rows = flat.long() if several else flat
    return {str(name): rows[:, i].tolist() for i, name in enumerate(names)}


def _in_memory(run: Run, data: Any) -> Source:
    """The source of data given in Python: its own table if it is one."""
    train = _records(run, data)
    shown = examples(train, "train")
    kind, text = kind_of(shown), text_column(shown)
    folder = Path(train.where) if train.where else Path()
    folder = folder if folder.is_dir() else folder.parent
    inputs: Any = leaves(train.x)[0]
    if kind == TEXT:
        inputs = train.columns[text]
    elif kind == IMAGE:
        inputs = _files(train, folder) or pictures_in(train.x)
    raw = Raw(kind, inputs, None, train.where, train.columns, train.classes, train.features)
    asked = Asked(text=text if kind == TEXT else None)
    if hasattr(data, "column_names") and hasattr(data, "to_pandas"):
        return _tabular(data.with_format("arrow")[:].to_pandas(), raw, train, asked, folder, data)
    if hasattr(data, "to_csv") and hasattr(data, "columns"):
        return _tabular(data.reset_index(drop=True), raw, train, asked, folder)
    return _as_table(raw, train, folder, text if kind == TEXT else None)


def _records(run: Run, data: Any) -> Records:
    """The records as the run saw them. The model is not loaded, so each choice of input columns is tried."""
    for names in NAMES:
        seen = data if isinstance(data, Records) else examples(data, "train", accepts=names)
        x, y = seen.x, seen.y if seen.y.is_floating_point() else seen.y.long()
        where = data.where if isinstance(data, Records) else ""
        train = Records(x, y, seen.columns, seen.classes, seen.features, where=where)
        if _same(run, train):
            return train
    raise RunMismatch(f"train is not what this run was made with; {run.folder}; pass the set it was made with")


def _files(train: Records, folder: Path) -> list[Path] | None:
    """The image files, if a column names them and all exist; else None."""
    column = next((c for c in IMAGES if c in train.columns), None)
    if column is None:
        return None
    files = [folder / str(p) for p in train.columns[column]]
    return files if all(f.is_file() for f in files) else None
