"""Cleaned data as a CSV: the user's own columns, one row per kept example."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amends.errors import BadInput
from amends.export.files import Exported, as_run, place, write_file
from amends.export.kept import Kept
from amends.export.source import Source, label_words, source
from amends.tables.cells import write_table

if TYPE_CHECKING:
    import pandas as pd


def to_csv(run: Any, out: Any = None, data: Any = None) -> Exported:
    """The kept examples as a CSV file.

    What came from a CSV goes back word for word, less the rows that were removed; a changed label is written
    as the file writes that class elsewhere. Paths of images count from the new file.
    """
    run = as_run(run)
    target = place(run, "csv", out)
    kept = Kept.of(run)
    train = source(run, data)
    if not train.whole:
        raise BadInput(f"the inputs do not fit into a CSV; {train.where}; export to images or huggingface instead")
    table = relabelled(train, kept).iloc[kept.at]
    if train.input is not None and isinstance(train.inputs[0], Path) and train.folder is not None:
        paths = [_from(target.parent, train.folder, str(p)) for p in table[train.input]]
        table = table.assign(**{train.input: paths})
    write_file(target, lambda path: write_table(table, path, guard=False))
    return Exported("csv", target, len(table))


def _from(new: Path, old: Path, path: str) -> str:
    """A path that counted from one folder, counting from another; in the same folder it stays as it is."""
    if Path(path).is_absolute() or new.resolve() == old.resolve():
        return path
    return Path(os.path.relpath((old / path).resolve(), new.resolve())).as_posix()


def relabelled(train: Source, kept: Kept) -> pd.DataFrame:
    """The user's table with the changed labels, written as the table writes them."""
    if not kept.relabelled:
        return train.table
    if not train.labels:
        raise BadInput(f"no column holds labels, so none can be changed; {train.where}; remove the examples instead")
    table, at = train.table.copy(), sorted(kept.relabelled)
    y = kept.targets(train.records)
    columns = label_words(y[at], train.records)
    if y.ndim == 1 and not y.is_floating_point():
        columns = {train.labels[0]: [_word(train, int(k)) for k in y[at]]}
    for name, values in zip(train.labels, columns.values(), strict=True):
        cells = table[name].tolist()
        for i, value in zip(at, values, strict=True):
            cells[i] = str(value) if isinstance(cells[i], str) else value
        table[name] = cells
    return table


def _word(train: Source, k: int) -> Any:
    """How the table writes class k: as for another example of it, else by its name or number."""
    column, y = train.table[train.labels[0]], train.records.y
    written = next((column.iloc[int(i)] for i in (y == k).nonzero()[:1]), None)
    if written is not None:
        return written.item() if hasattr(written, "item") else written
    names = train.records.classes
    by_name = bool(names) and str(column.iloc[0]) == names[int(y[0])]
    return names[k] if by_name else k
