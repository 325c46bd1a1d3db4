"""A run folder: how far it is, what was found, and what came of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amends.config.read import Config, as_config
from amends.data.decisions import GONE, NEW, words
from amends.errors import BadInput, DiskError, RunMismatch
from amends.runs.disk import locked, on_disk
from amends.runs.files import (
    AGAIN,
    read_json,
    read_looks,
    read_metrics,
    read_parquet,
    read_table,
    read_toml,
    whole_numbers,
)

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2  # of a run folder; one more whenever older folders can no longer be read
IDENTIFIED, DONE = "identified", "done"
NUMBERS = ("score", "p_given", "p_given_after")  # of causes.csv, with a comma where semicolons set columns apart
SHOWN = ("given", "suggested", "predicted", "predicted_after", "p_given", "p_given_after", "conflicts_with")
FILES = {
    "run.toml", "identified", "rounds", "causes.csv", "causes.parquet", "curve.csv", "failures.csv", "metrics.json",
    "looks.json", "repaired", "dataset", "report.html", "curve.png", "strongest.png", "least_harmful.png",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    folder: Path
    about: dict[str, Any]  # run.toml

    @classmethod
    def open(cls, folder: Path) -> Run:
        if not folder.exists():
            raise BadInput(f"no such run folder; {folder}; list those there are with amends runs ls")
        path = folder / "run.toml"
        if not path.is_file():
            raise RunMismatch(f"run.toml is missing, so this is not a run folder; {folder}; give the folder of a run")
        about = read_toml(path)
        if not isinstance(about.get("run"), dict):
            raise RunMismatch(f"there is no table [run]; {path}; {AGAIN}")
        made = about["run"].get("format", 1)
        if made != FORMAT:
            age = "a later" if isinstance(made, int) and made > FORMAT else "an earlier"
            raise RunMismatch(f"{folder} was made by {age} amends (format {made}, this one reads {FORMAT}); {AGAIN}")
        state = about["run"].get("state")
        if state not in (IDENTIFIED, DONE):
            raise RunMismatch(f"state is {state!r}, not {IDENTIFIED!r} or {DONE!r}; {path}; {AGAIN}")
        return cls(folder, about)

    @property
    def state(self) -> str:
        return self.about["run"]["state"]

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def config(self) -> Config:
        """As it was made with, paths counting from where the config was."""
        if "config" not in self.about:
            raise BadInput(
                f"the run was made in Python, so no config says how to load model and data; {self.folder}; "
                "go on in Python, or make a new run with amends identify"
            )
        return as_config(self.about["config"], Path(self.about["run"]["folder"]), str(self.folder / "run.toml"))

    @cached_property
    def metrics(self) -> dict[str, Any]:
        if self.state != DONE:
            raise BadInput(f"nothing is repaired yet; {self.folder}; run amends treat {self.folder}")
        return read_metrics(self.folder / "metrics.json")

    def json(self, name: str, kind: type = object) -> Any:
        return read_json(self.folder / name, kind)

    @property
    def curve(self) -> list[dict[str, Any]]:
        """One row for each number of examples tried and each way to choose them; none before a curve is made."""
        path = self.folder / "curve.csv"
        if self.state != DONE and not path.exists():
            return []
        frame = read_table(path, ("by", "removed"), dtype={"by": str})
        whole_numbers(frame, "removed", path)
        for column in frame.columns.drop("by"):
            if frame[column].dtype.kind not in "iuf" and len(frame):
                raise RunMismatch(f"column {column} holds something that is not a number; {path}; {AGAIN}")
        rows = frame.astype(object)
        return rows.where(rows.notna(), None).to_dict("records")

    @property
    def looks(self) -> dict[str, Any]:
        """What a person sees of the examples; `kind` is none where nothing can be shown."""
        path = self.folder / "looks.json"
        return read_looks(path) if path.exists() else {"kind": "none"}

    @property
    def heard(self) -> list[dict[str, Any]]:
        """The members of the committee that scored the examples; none for a single method."""
        if self.state == DONE:
            return self.metrics.get("identified_with", [])
        paths = (self.folder / name / "heard.json" for name in ("identified", "rounds/1"))
        return next((read_json(path, list) for path in paths if path.exists()), [])

    def summary(self) -> dict[str, Any]:
        """One line of a list of runs."""
        run, told = self.about["run"], self.metrics if self.state == DONE else {}
        share = {k: (told.get(k) or {}).get("after") for k in ("holdout", "remaining")}
        return {"run": str(self.folder), "made": run.get("made", ""), "state": self.state,
                "verdict": told.get("verdict", ""), "removed": told.get("removed"), **share}  # fmt: skip

    def causes(self) -> pd.DataFrame:
        """causes.csv, as a person may have edited it: decisions as text, empty where there is none."""
        frame = self._causes((), dtype={"decision": str, "id": str, NEW: str})
        if "id" in frame and frame["id"].tolist() == [str(i) for i in frame["index"]]:
            frame["id"] = frame["index"]
        return frame

    def first_causes(self, most: int) -> tuple[list[dict[str, Any]], int]:
        """For a person to look at: the first of what was treated, or of all where nothing was, every word as
        the file has it; and how many there are."""
        frame = self._causes(SHOWN, dtype=str, keep_default_na=False)
        if self.state == DONE and self.metrics["removed"]:
            frame = frame.loc[frame["decision"].isin(GONE)]
        rows = [{str(k): v for k, v in row.items()} for row in frame.head(most).to_dict("records")]
        for line, row in zip(frame.index, rows, strict=False):
            try:
                row["conflicts_with"] = [int(j) for j in json.loads(row["conflicts_with"] or "[]")]
            except (ValueError, TypeError):
                where = f"{self.folder / 'causes.csv'} line {line + 2}"
                said = f"conflicts_with is {row['conflicts_with']!r}"
                raise RunMismatch(f"{said}; {where}; put the list back, or {AGAIN}") from None
        return rows, len(frame)

    def _causes(self, shown: Sequence[str], **how: Any) -> pd.DataFrame:
        """Where a spreadsheet has spoilt a number that only people read, it is left out."""
        import pandas as pd

        path = self.folder / "causes.csv"
        frame = read_table(path, ("index", "rank", "score", "decision", *shown), **how)
        frame["index"] = whole_numbers(frame, "index", path)
        for column in NUMBERS:
            if column in frame and not pd.api.types.is_numeric_dtype(frame[column]):
                numbers = frame[column].astype(str).str.replace(",", ".", regex=False)
                frame[column] = pd.to_numeric(numbers, errors="coerce")
        frame = frame.assign(decision=words(frame, "decision"))
        return frame.assign(**{NEW: words(frame, NEW)}) if NEW in frame else frame

    def typed_causes(self) -> pd.DataFrame:
        """causes.parquet: the table as it was written, numbers and lists as such."""
        return read_parquet(self.folder / "causes.parquet")

    def dataset(self, name: str) -> pd.DataFrame:
        """Those of train that were `removed`, `relabelled` or `kept`, every word as the file has it."""
        path = self.folder / "dataset" / f"{name}.csv"
        needed = ("index", "given", "label") if name == "relabelled" else ("index", "given")
        frame = read_table(path, needed, dtype=str, keep_default_na=False)
        return frame.assign(index=whole_numbers(frame, "index", path))

    def same_as(self, hashes: dict[str, str]) -> None:
        """RunMismatch unless model and data are those the run was made with."""
        for name, value in hashes.items():
            known = self.about["model"] if name == "model" else self.about["data"].get(name, {})
            if known.get("sha256") != value:
                what = "the weights are" if name == "model" else f"{name} is"
                todo = "put back what it was made with, or make a new run"
                raise RunMismatch(f"{what} not what this run was made with; {self.folder}; {todo}")


def runs_in(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs in a folder, oldest first, and a line for each that cannot be read."""
    runs, unreadable = [], []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            if path.is_dir() and not path.name.startswith(".") and (path / "run.toml").is_file():
                run = Run.open(path)
                run.summary()
                runs.append(run)
        except (RunMismatch, DiskError) as e:
            unreadable.append(str(e))
        except OSError as e:
            unreadable.append(f"the run cannot be read ({e.strerror}); {path}; change its permissions")
    return sorted(runs, key=lambda r: str(r.about["run"].get("made", ""))), unreadable


def strange_in(folder: Path) -> list[str]:
    """Names in a run folder that amends did not write."""
    return sorted(p.name for p in folder.iterdir() if p.name not in FILES)


def remove(run: Run) -> None:
    """Deletes the folder, unless it also holds something of the user's."""
    strange = strange_in(run.folder)
    if strange:
        raise BadInput(f"the folder holds {strange[0]}, which amends did not write; {run.folder}; move it away first")
    with on_disk(run.folder), locked(run.folder):
        shutil.rmtree(run.folder)
