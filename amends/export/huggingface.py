"""Cleaned data as a Hugging Face dataset directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from amends.data.formats.raw import IMAGE, ROW, TEXT
from amends.export.files import Exported, as_run, library, place, write_folder
from amends.export.kept import Kept
from amends.export.pictures import file_of
from amends.export.source import Source, label_words, source
from amends.export.tables import relabelled


def to_huggingface(run: Any, out: Any = None, data: Any = None) -> Exported:
    """The kept examples as what `datasets.load_from_disk` reads.

    A Hugging Face dataset goes back with its own columns and features. Anything else becomes the user's
    columns, the image or the numbers, and the label with the names of its classes.
    """
    run = as_run(run)
    target = place(run, "huggingface", out)
    datasets = library("datasets", "huggingface")
    kept = Kept.of(run)
    train = source(run, data)
    with _quiet(datasets):
        cleaned = _own(train, kept) if train.hub is not None else _built(datasets, train, kept)
        write_folder(target, lambda folder: cleaned.save_to_disk(str(folder)))
    return Exported("huggingface", target, len(cleaned))


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Hides the progress bars of the library."""
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _own(train: Source, kept: Kept) -> Any:
    cleaned = train.hub.with_format(None).select(kept.at)
    if kept.relabelled:
        table = relabelled(train, kept).iloc[kept.at]
        order, features = cleaned.column_names, cleaned.features
        for name in train.labels:
            changed = cleaned.remove_columns(name).add_column(name, table[name].tolist())
            cleaned = changed.cast_column(name, features[name])
        cleaned = cleaned.select_columns(order)
    return cleaned


def _built(datasets: Any, train: Source, kept: Kept) -> Any:
    columns = _inputs(train, kept)
    pictures = [name for name, values in columns.items() if values and isinstance(values[0], dict)]
    others = datasets.Dataset.from_dict({name: values for name, values in columns.items() if name not in pictures})
    features = {**others.features, **{name: datasets.Image() for name in pictures}}
    for name, (values, feature) in _targets(datasets, train, kept).items():
        columns[name], features[name] = values, feature
    return datasets.Dataset.from_dict(columns, features=datasets.Features({k: features[k] for k in columns}))


def _inputs(train: Source, kept: Kept) -> dict[str, list[Any]]:
    """The user's columns without the labels, and the inputs of the model if no column holds them."""
    table = relabelled(train, kept).iloc[kept.at]
    columns = {str(c): _typed(table[c], plain=c in (train.input, train.ids)) for c in table if c not in train.labels}
    if train.kind == IMAGE:
        name = train.input if train.input is not None and train.input != "path" else "image"
        columns[name] = [_picture(train, int(i)) for i in kept.at]
    elif train.kind not in (TEXT, ROW) or not train.whole:
        x = train.records.x
        x = {"x": x} if isinstance(x, Tensor) else x
        named = x if isinstance(x, dict) else {f"x{i}": t for i, t in enumerate(x)}
        columns |= {k: t[kept.at].tolist() for k, t in named.items()}
    return columns


def _targets(datasets: Any, train: Source, kept: Kept) -> dict[str, tuple[list[Any], Any]]:
    """The label columns with their features: a class with all class names, several labels as 0 and 1, or numbers."""
    y, classes = kept.targets(train.records)[kept.at], train.records.classes
    if y.ndim == 1 and not y.is_floating_point():
        names = classes or range(int(train.records.y.max()) + 1)
        return {train.labels[0]: (y.tolist(), datasets.ClassLabel(names=[str(n) for n in names]))}
    feature = datasets.Value("int64" if len(classes) == y[0].numel() > 1 else "float64")
    columns = label_words(y, train.records).values()
    return {name: (values, feature) for name, values in zip(train.labels, columns, strict=True)}


def _picture(train: Source, i: int) -> dict[str, Any]:
    content, suffix = file_of(train, i)
    given = train.inputs[i]
    return {"bytes": content, "path": given.name if isinstance(given, Path) else f"{train.id(i) or i}{suffix}"}


def _typed(column: Any, plain: bool) -> list[Any]:
    """Numbers if all words of a CSV column are numbers; ids and texts stay words."""
    import pandas as pd

    if column.dtype.kind in "biuf":
        return column.tolist()
    words = [None if v is None or v is pd.NA or v != v else v for v in column.tolist()]
    if not plain and all(isinstance(v, str) for v in words):
        try:
            numbers: Any = pd.to_numeric(column)
            return numbers.tolist() if any(words) else words
        except (ValueError, TypeError):
            return words
    if len({type(v) for v in words if v is not None}) > 1:
        return [None if v is None else str(v) for v in words]
    return [v.item() if isinstance(v, np.generic) else v for v in words]
