"""A run folder, read with nothing believed."""

from __future__ import annotations

import json
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amends.config.read import Config, as_config
from amends.errors import BadInput, RunMismatch
from amends.runs.disk import locked, on_disk

if TYPE_CHECKING:
    import pandas as pd

IDENTIFIED, DONE = "identified", "done"
NUMBERS = ("score", "p_given", "p_given_after")  # of causes.csv, with a comma where semicolons set columns apart
GONE = ("remove", "relabel")  # decisions that take an example's own label away
FILES = {
    "run.toml", "identified", "causes.csv", "causes.parquet", "curve.csv", "failures.csv", "metrics.json", "looks.json",
    "repaired", "dataset", "report.html", "curve.png", "strongest.png", "least_harmful.png",
}  # fmt: skip


def separator(head: str) -> str:
    """What sets the columns of a CSV apart, by its first line: spreadsheets of many countries save semicolons."""
    return ";" if head.count(";") > head.count(",") else ","


def decided(said: str) -> str:
    """A decision as a person may write it."""
    return said.strip().lower()


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    folder: Path
    about: dict[str, Any]  # run.toml

    @classmethod
    def open(cls, folder: Path) -> Run:
        if not folder.exists():
            raise BadInput(f"no such run; {folder}; see amends runs ls")
        path = folder / "run.toml"
        if not path.is_file():
            raise RunMismatch(f"there is no run.toml, so this is no run folder; {folder}; give the folder of a run")
        try:
            about = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise RunMismatch(f"damaged ({e}); {path}; make the run again") from None
        if about.get("run", {}).get("state") not in (IDENTIFIED, DONE):
            raise RunMismatch(f"it does not say how far the run is; {path}; make the run again")
        return cls(folder, about)

    @property
    def state(self) -> str:
        return self.about["run"]["state"]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def config(self) -> Config:
        """As it was made with, paths counting from where the config was."""
        if "config" not in self.about:
            raise BadInput(
                f"it was made in Python, so no config says how to load model and data; {self.folder}; "
                "go on from it in Python, or make a run with amends identify"
            )
        return as_config(self.about["config"], Path(self.about["run"]["folder"]), str(self.folder / "run.toml"))

    @property
    def metrics(self) -> dict[str, Any]:
        if self.state != DONE:
            raise BadInput(f"nothing is repaired yet; {self.folder}; run amends treat {self.folder}")
        return self.json("metrics.json")

    def json(self, name: str) -> Any:
        path = self.folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunMismatch(f"it has no {name}; {self.folder}; make the run again") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as e:
            raise RunMismatch(f"damaged ({e}); {path}; make the run again") from None

    def summary(self) -> dict[str, Any]:
        """One line of a list of runs."""
        run, told = self.about["run"], self.metrics if self.state == DONE else {}
        share = {k: (told.get(k) or {}).get("after") for k in ("holdout", "remaining")}
        return {"run": str(self.folder), "made": run.get("made", ""), "state": self.state,
                "verdict": told.get("verdict", ""), "removed": told.get("removed"), **share}  # fmt: skip

    def causes(self) -> pd.DataFrame:
        """causes.csv, as a person may have edited it: decisions as text, empty where there is none."""
        import pandas as pd

        path = self.folder / "causes.csv"
        try:
            with path.open(encoding="utf-8-sig") as file:
                apart = separator(file.readline())
            frame = pd.read_csv(path, sep=apart, dtype={"decision": str, "id": str}, keep_default_na=True)
        except FileNotFoundError:
            raise RunMismatch(f"it has no causes.csv; {self.folder}; make the run again") from None
        except (ValueError, UnicodeDecodeError) as e:
            raise RunMismatch(f"damaged ({' '.join(str(e).split())}); {path}; mend it, or make the run again") from None
        for column in ("index", "rank", "score", "decision"):
            if column not in frame.columns:
                raise RunMismatch(f"there is no column {column}; {path}; put it back, or make the run again")
        for column in NUMBERS:
            if column in frame and not pd.api.types.is_numeric_dtype(frame[column]):
                numbers = frame[column].astype(str).str.replace(",", ".", regex=False)
                frame[column] = pd.to_numeric(numbers, errors="coerce")
        if "id" in frame and frame["id"].tolist() == [str(i) for i in frame["index"]]:
            frame["id"] = frame["index"]
        return frame.assign(decision=frame["decision"].fillna("").map(decided))

    def same_as(self, hashes: dict[str, str]) -> None:
        """RunMismatch unless model and data are those the run was made with."""
        for name, value in hashes.items():
            known = self.about["model"] if name == "model" else self.about["data"].get(name, {})
            if known.get("sha256") != value:
                what = "the weights are" if name == "model" else f"{name} is"
                raise RunMismatch(
                    f"{what} not what this run was made with; {self.folder}; put it back, or make a new run"
                )


def runs_in(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs in a folder, oldest first, and what is wrong with those that cannot be read."""
    found, damaged = [], []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            if path.is_dir() and not path.name.startswith(".") and (path / "run.toml").is_file():
                run = Run.open(path)
                run.summary()
                found.append(run)
        except RunMismatch as e:
            damaged.append(str(e))
        except OSError as e:
            damaged.append(f"it cannot be read ({e.strerror}); {path}; change its permissions")
    return sorted(found, key=lambda r: str(r.about["run"].get("made", ""))), damaged


def strange_in(folder: Path) -> list[str]:
    """Names in a run folder that amends did not write."""
    return sorted(p.name for p in folder.iterdir() if p.name not in FILES)


def remove(run: Run) -> None:
    """For good; a folder that also holds something of the user's stays."""
    strange = strange_in(run.folder)
    if strange:
        raise BadInput(f"the folder holds {strange[0]}, which amends did not write; {run.folder}; move it away first")
    with on_disk(run.folder), locked(run.folder):
        shutil.rmtree(run.folder)
