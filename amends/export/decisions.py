"""Scores, labels and decisions of a run, example by example."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from amends.config.decisions import NEW, words
from amends.errors import BadInput
from amends.export.kept import Kept
from amends.runs.run import DONE, Run
from amends.tables.columns import COLUMNS
from amends.tables.frames import with_new_labels
from amends.workflow.checkpoint import SEARCH, read_identified

if TYPE_CHECKING:
    import pandas as pd


def decisions(run: Run, top: int | None = None) -> pd.DataFrame:
    """The table of causes as it was written, with decisions and new labels as a person has left them in causes.csv, or
    relabel and its label where a repair gave another; and `harm`, from 0 to 1: the share of train that is less
    harmful, by rank."""
    frame = run.typed_causes()
    causes = run.causes().drop_duplicates("index").set_index("index")
    frame["decision"] = causes["decision"].reindex(frame["index"]).fillna("").to_numpy()
    if NEW in causes:
        frame[NEW] = causes[NEW].reindex(frame["index"]).fillna("").to_numpy()
    if run.state == DONE:
        frame = with_new_labels(frame, Kept.of(run, whole=True).relabelled)
    frame[NEW] = words(frame, NEW)
    if top is not None and top < 1:
        raise BadInput(f"top is {top}; --top; give a whole number of 1 or more")
    frame["harm"] = 1 - placed(run, frame)
    return frame.head(top) if top is not None else frame


def undecided(run: Run) -> str:
    """If a run removed nothing: a note that the export is only a ranking. Else empty."""
    if run.state != DONE or run.metrics["removed"]:
        return ""
    return f"{run.metrics['verdict']}, so nothing was removed: the examples are ranked, and nothing is decided; "


def scores(run: Run) -> np.ndarray | None:
    """A score for each example of train; None if groups were repaired one after the other."""
    folder = run.folder / SEARCH
    return read_identified(folder).scores if folder.is_dir() else None


def placed(run: Run, frame: pd.DataFrame) -> np.ndarray:
    """From 0 for the most harmful of train to 1 for the least: (rank − 1) / (N − 1)."""
    n = int(run.about["data"]["train"]["n"])
    every = scores(run)
    rank = frame["rank"].to_numpy() - 1 if every is None else ranks(every)[frame["index"].to_numpy()]
    return rank / max(n - 1, 1)


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, 0 for the highest; equal values in the order of train, as in every table of a run."""
    place = np.empty(len(values), dtype=np.int64)
    place[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return place


def about(row: Any) -> dict[str, Any]:
    """One row without the user's own columns, ready for JSON."""
    return {name: plain(row[name]) for name in (*COLUMNS, NEW)}


def plain(value: Any) -> Any:
    """What JSON can hold: NaN and infinity become null."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(v) for v in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
