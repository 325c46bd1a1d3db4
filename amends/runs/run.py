"""A run folder: its state, its causes and its results."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amends.config.decisions import GONE, NEW, words
from amends.config.read import Config, as_config
from amends.distributed.group import held_by_first
from amends.errors import BadInput, DiskError, RunMismatch
from amends.runs import manifest
from amends.runs.disk import locked, on_disk, writable
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
from amends.runs.trust import ask_for_trust

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 3  # of a run folder; raised whenever older folders can no longer be read
IDENTIFIED, DONE, SHARD = "identified", "done", "shard"  # a shard holds a part of a search
NUMBERS = ("score", "p_given", "p_given_after")  # of causes.csv, with a decimal comma where semicolons separate columns
SHOWN = ("given", "suggested", "predicted", "predicted_after", "p_given", "p_given_after", "conflicts_with")


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    folder: Path
    about: dict[str, Any]  # run.toml
    trusted: bool = False  # whether code that it names may run although the run was made elsewhere

    @classmethod
    def open(cls, folder: Path, *, shards: bool = False) -> Run:
        """A finished search or repair; with `shards` also a shard of a search."""
        if not folder.exists():
            raise BadInput(f"no such run folder; {folder}; list those there are with amends runs ls")
        if manifest.unsettled(folder):
            with on_disk(folder), locked(folder):
                manifest.settle(folder)
        path = folder / "run.toml"
        if not path.is_file():
            raise RunMismatch(f"run.toml is missing, so this is not a run folder; {folder}; give the folder of a run")
        about = read_toml(path)
        if not isinstance(about.get("run"), dict):
            raise RunMismatch(f"there is no table [run]; {path}; {AGAIN}")
        version = about["run"].get("format", 1)
        if version != FORMAT:
            age = "a later" if isinstance(version, int) and version > FORMAT else "an earlier"
            raise RunMismatch(f"{folder} was made by {age} amends (format {version}, this one reads {FORMAT}); {AGAIN}")
        state = about["run"].get("state")
        if state == SHARD and not shards:
            raise BadInput(
                f"the run is one shard of a search; {folder}; run amends merge with the folders of all shards"
            )
        if state not in (IDENTIFIED, DONE, SHARD):
            raise RunMismatch(f"state is {state!r}, not {IDENTIFIED!r} or {DONE!r}; {path}; {AGAIN}")
        return cls(folder, about)

    @classmethod
    def sound(cls, folder: Path, but: Collection[str] = ()) -> Run:
        """An opened run whose files, except those in `but`, were checked: RunMismatch if one is damaged."""
        run = cls.open(folder)
        manifest.verify(folder, but)
        return run

    @classmethod
    def writing(cls, folder: Path, but: Collection[str] = ()) -> AbstractContextManager[Run]:
        """A context with a checked run that nobody else writes into, so that what is read stays true. Of several
        processes the first holds it."""
        return held_by_first(cls._writing(folder, but))

    @classmethod
    @contextmanager
    def _writing(cls, folder: Path, but: Collection[str]) -> Iterator[Run]:
        cls.open(folder)  # raises if it is not a run or of another format, before anything is touched
        with locked(folder):
            with on_disk(folder):
                manifest.settle(folder)
            run = cls.sound(folder, but)
            writable(folder)
            yield run

    def trusting(self, trust: bool) -> Run:
        return replace(self, trusted=trust)

    def damage(self) -> Iterator[str]:
        """A line for each file that is damaged or missing. A shard has no causes.csv yet."""
        return manifest.damage(self.folder, (manifest.EDITED,) if self.state == SHARD else ())

    @property
    def done(self) -> bool:
        return self.state == DONE

    @property
    def state(self) -> str:
        return self.about["run"]["state"]

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def config(self) -> Config:
        """The config the run was made with; paths count from where that config was."""
        if "config" not in self.about:
            raise BadInput(
                f"the run was made in Python, so no config says how to load model and data; {self.folder}; "
                "go on in Python, or make a new run with amends identify"
            )
        if not self.trusted:
            ask_for_trust(self.about, self.folder)
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
        """How examples are shown to a person; `kind` is none if nothing can be shown."""
        path = self.folder / "looks.json"
        return read_looks(path) if path.exists() else {"kind": "none"}

    @property
    def patch(self) -> dict[str, Any]:
        """A description of the last patch made of the run; empty if there is none."""
        path = self.folder / "patch.json"
        return read_json(path, dict) if path.exists() else {}

    @property
    def members(self) -> list[dict[str, Any]]:
        """The members of the committee that scored the examples; none for a single method."""
        if self.state == DONE:
            return self.metrics.get("identified_with", [])
        paths = (self.folder / name / "members.json" for name in ("identified", "rounds/1"))
        return next((read_json(path, list) for path in paths if path.exists()), [])

    def summary(self) -> dict[str, Any]:
        """One line of a list of runs."""
        run, metrics = self.about["run"], self.metrics if self.state == DONE else {}
        share = {k: (metrics.get(k) or {}).get("after") for k in ("holdout", "remaining")}
        return {"run": str(self.folder), "made": run.get("made", ""), "state": self.state,
                "verdict": metrics.get("verdict", ""), "removed": metrics.get("removed"), **share}  # fmt: skip

    def causes(self) -> pd.DataFrame:
        """causes.csv, as a person may have edited it: decisions as text, empty where there is none."""
        frame = self._causes((), dtype={"decision": str, "id": str, NEW: str})
        if "id" in frame and frame["id"].tolist() == [str(i) for i in frame["index"]]:
            frame["id"] = frame["index"]
        return frame

    def table(self) -> pd.DataFrame:
        """causes.csv, every word as the file has it."""
        return self._causes(SHOWN, dtype=str, keep_default_na=False)

    def failures(self) -> pd.DataFrame:
        """failures.csv, every word as the file has it."""
        path = self.folder / "failures.csv"
        frame = read_table(path, ("id", "index", "part", "group"), dtype=str, keep_default_na=False)
        return frame.assign(index=whole_numbers(frame, "index", path))

    def first_causes(self, most: int) -> tuple[list[dict[str, Any]], int]:
        """For a person to look at: the first causes that were treated, or of all if none was, every word as the file
        has it; and how many there are."""
        frame = self.table()
        if self.state == DONE and self.metrics["removed"]:
            frame = frame.loc[frame["decision"].isin(GONE)]
        rows = [{str(k): v for k, v in row.items()} for row in frame.head(most).to_dict("records")]
        for line, row in zip(frame.index, rows, strict=False):
            try:
                row["conflicts_with"] = [int(j) for j in json.loads(row["conflicts_with"] or "[]")]
            except (ValueError, TypeError):
                where = f"{self.folder / 'causes.csv'} line {line + 2}"
                what = f"conflicts_with is {row['conflicts_with']!r}"
                raise RunMismatch(f"{what}; {where}; put the list back, or {AGAIN}") from None
        return rows, len(frame)

    def _causes(self, shown: Sequence[str], **how: Any) -> pd.DataFrame:
        """causes.csv, checked. A number that only people read is left out if a spreadsheet has spoilt it."""
        import pandas as pd

        path = self.folder / "causes.csv"
        frame = read_table(path, ("index", "rank", "score", "decision", *shown), **how)
        frame["index"] = whole_numbers(frame, "index", path)
        n = self.about.get("data", {}).get("train", {}).get("n")
        outside = frame.index[frame["index"] >= n].tolist() if n is not None else []
        if outside:
            what = f"index is {frame['index'][outside[0]]}, but train has {n} examples"
            raise RunMismatch(f"{what}; {path} line {outside[0] + 2}; put the number back, or {AGAIN}")
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
        """The examples of train that were `removed`, `relabelled` or `kept`, every word as the file has it."""
        path = self.folder / "dataset" / f"{name}.csv"
        needed = ("index", "given", "label") if name == "relabelled" else ("index", "given")
        frame = read_table(path, needed, dtype=str, keep_default_na=False)
        return frame.assign(index=whole_numbers(frame, "index", path))


def runs_in(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs in a folder, oldest first, and a line for each that cannot be read."""
    runs, unreadable = [], []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            if path.is_dir() and not path.name.startswith(".") and (path / "run.toml").is_file():
                run = Run.open(path, shards=True)
                run.summary()
                runs.append(run)
        except (RunMismatch, DiskError) as e:
            unreadable.append(str(e))
        except OSError as e:
            unreadable.append(f"the run cannot be read ({e.strerror}); {path}; change its permissions")
    return sorted(runs, key=lambda r: str(r.about["run"].get("made", ""))), unreadable


def remove(folder: Path) -> None:
    """Deletes the run, unless its folder also holds something of the user's."""
    Run.open(folder, shards=True)
    with on_disk(folder), locked(folder):
        manifest.settle(folder)
        homes = [*manifest.repairs(folder), folder]
        for home in homes:
            strange = manifest.strangers(home)
            if strange:
                what = f"the folder holds {strange[0]}, which amends did not write"
                raise BadInput(f"{what}; {home}; move it away first")
        for home in homes:
            manifest.remove_own(home)
