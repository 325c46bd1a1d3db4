"""A run folder, read for people: nothing is computed, and what is damaged is said in one line."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from amends.errors import BadInput, DiskError, RunMismatch, first_line
from amends.runs.run import NUMBERS, decided, separator

DONE, IDENTIFIED = "done", "identified"
ROWS = 1000  # of the causes that are kept in memory
COLUMNS = {
    "curve.csv": ("by", "removed"),
    "causes.csv": (
        "index", "score", "given", "suggested", "predicted", "predicted_after", "p_given", "p_given_after",
        "conflicts_with", "decision",
    ),
}  # fmt: skip
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+\Z")
NEEDED: dict[str, type | tuple[type, ...]] = {
    "verdict": str, "reason": str, "query": dict, "holdout": dict, "overall": dict, "intervals": dict, "changes": dict,
    "p_values": dict, "fixed": int, "newly_broken": int, "removed": int, "controls": dict, "groups": dict,
    "classes": dict, "harmed": list, "keep": dict, "suspects": list, "duplicates": list, "warnings": list,
    "fixed_at": list, "broken_at": list,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RunFolder:
    """What the files of a run say. `metrics` and `curve` are empty where nothing has been treated yet;
    `causes` are the first of the causes, of `total` in all."""

    path: Path
    about: dict[str, Any]
    metrics: dict[str, Any]
    curve: list[dict[str, Any]]
    causes: list[dict[str, Any]]
    total: int
    looks: dict[str, Any]
    heard: list[dict[str, Any]]  # the members that scored the examples

    @property
    def done(self) -> bool:
        return bool(self.metrics)

    @property
    def run(self) -> dict[str, Any]:
        return self.about["run"]

    @property
    def name(self) -> str:
        return str(self.run.get("name") or self.path.resolve().name)

    def label(self, value: Any) -> str:
        """A label as a person reads it: numbers short, several labels by their names."""
        text, names = str(value).strip(), self.looks.get("classes") or ()
        if re.fullmatch(r"\[[01](, [01])*\]", text) and text.count(",") + 1 == len(names):
            holds = [name for name, k in zip(names, text[1:-1].split(", "), strict=True) if k == "1"]
            return _shorter(", ".join(holds) or "none")
        if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text):
            return f"{float(text):.4g}".replace("-", "−")
        return _shorter(text)

    def look(self, kind: str, position: Any) -> dict[str, Any]:
        return self.looks.get(kind, {}).get(str(position), {})


def read(folder: Path) -> RunFolder:
    folder = Path(folder)
    if not folder.is_dir():
        raise BadInput(f"no such run folder; {folder}; name one that amends wrote")
    about = _toml(folder / "run.toml")
    state = about["run"].get("state", DONE if (folder / "metrics.json").exists() else IDENTIFIED)
    if state not in (DONE, IDENTIFIED):
        raise RunMismatch(f"state is {state!r}; {folder / 'run.toml'}; it is {DONE!r} or {IDENTIFIED!r}")
    metrics, curve, wanted = {}, [], None
    if state == DONE:
        metrics = _metrics(folder / "metrics.json")
        curve = [_point(row, folder / "curve.csv") for row in _csv(folder / "curve.csv", 10**6)[0]]
        wanted = _treated if metrics["removed"] else None
    rows, total = _csv(folder / "causes.csv", ROWS, wanted)
    causes = [_cause(row, folder / "causes.csv", i) for i, row in enumerate(rows, 2)]
    looks = _looks(folder / "looks.json") if (folder / "looks.json").exists() else {"kind": "none"}
    heard = metrics.get("identified_with", [])
    if not metrics and (folder / "identified" / "heard.json").exists():
        heard = _json(folder / "identified" / "heard.json", list)
    return RunFolder(folder, about, metrics, curve, causes, total, looks, heard)


def _treated(row: dict[str, str]) -> bool:
    """Whether a training example was removed or given another label; the others stand in causes.csv too
    where a repair went on from a search."""
    return decided(row.get("decision") or "") in ("remove", "relabel")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RunMismatch(f"{path.name} is missing; {path.parent}; make the run again, or copy all of it") from None
    except UnicodeDecodeError as e:
        raise RunMismatch(f"{path.name} is damaged ({first_line(e)}); {path}; make the run again") from e
    except OSError as e:
        raise DiskError(f"{e.strerror or e}; {path}; check the disk and the rights to read it") from e


def _toml(path: Path) -> dict[str, Any]:
    try:
        about = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as e:
        raise RunMismatch(f"run.toml is damaged ({first_line(e)}); {path}; make the run again") from e
    if not isinstance(about.get("run"), dict):
        raise RunMismatch(f"no table [run]; {path}; make the run again")
    return about


def _json(path: Path, kind: type = dict) -> Any:
    try:
        found = json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as e:
        raise RunMismatch(f"{path.name} is damaged ({first_line(e)}); {path}; make the run again") from e
    if not isinstance(found, kind):
        raise RunMismatch(
            f"{path.name} holds a {type(found).__name__}, not a {kind.__name__}; {path}; make the run again"
        )
    return found


def _metrics(path: Path) -> dict[str, Any]:
    found = _json(path)
    for name, kind in NEEDED.items():
        if not isinstance(found.get(name), kind):
            raise RunMismatch(f"{name} is missing or of another kind; {path}; make the run again")
    for name in ("query", "holdout", "remaining", "overall"):
        row = found.get(name)
        if row is not None and not {"before", "after", "n"} <= set(row):
            raise RunMismatch(f"{name} lacks before, after or n; {path}; make the run again")
    return found


def _looks(path: Path) -> dict[str, Any]:
    found = _json(path)
    for name in ("train", "failures", "remaining"):
        entries = found.get(name, {})
        if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
            raise RunMismatch(f"{name} does not hold one entry an example; {path}; make the run again")
        for position, entry in entries.items():
            if "image" in entry and not PICTURE.match(str(entry["image"])):
                raise RunMismatch(f"the image is no PNG; {path}, {name}[{position}]; make the run again")
    return found


def _with_points(row: dict[str, str]) -> dict[str, str]:
    return {k: v.replace(",", ".") if k in NUMBERS and v else v for k, v in row.items()}


def _csv(path: Path, most: int, wanted: Callable[[Any], bool] | None = None) -> tuple[list[dict[str, str]], int]:
    """The first of the rows that are wanted, and how many of those there are."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a column may hold a whole document
    try:
        text = _text(path).removeprefix("\ufeff")
        apart = separator(text[: text.find("\n")])
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=apart)
        rows = (_with_points(row) if apart == ";" else row for row in table if wanted is None or wanted(row))
        first = list(islice(rows, most))
        total = len(first) + sum(1 for _ in rows)
    except csv.Error as e:
        raise RunMismatch(f"{path.name} is damaged ({first_line(e)}); {path}; make the run again") from e
    missing = [name for name in COLUMNS[path.name] if name not in (table.fieldnames or ())]
    if missing:
        raise RunMismatch(f"there is no column {missing[0]}; {path}; put it back, or make the run again")
    return first, total


def _point(row: dict[str, str], path: Path) -> dict[str, Any]:
    try:
        return {k: v if k == "by" else (float(v) if v else None) for k, v in row.items()} | {
            "removed": int(row["removed"]), "by": row["by"]
        }  # fmt: skip
    except (KeyError, TypeError, ValueError) as e:
        raise RunMismatch(f"a row cannot be read ({first_line(e)}); {path}; make the run again") from e


def _cause(row: dict[str, Any], path: Path, line: int) -> dict[str, Any]:
    try:
        against = row.get("conflicts_with") or "[]"
        found = ast.literal_eval(against) if against.startswith("[") else against.split()
        return row | {
            "index": int(row["index"]),
            "score": float(row["score"]),
            "p_given": float(row["p_given"]) if row.get("p_given") else None,
            "p_given_after": float(row["p_given_after"]) if row.get("p_given_after") else None,
            "conflicts_with": [int(j) for j in found],
        }
    except (KeyError, TypeError, ValueError, SyntaxError, AttributeError) as e:
        raise RunMismatch(f"a row cannot be read ({first_line(e)}); {path} line {line}; make the run again") from e


def _shorter(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
