"""How two runs differ, and whether a run may go on with the present config, model, data and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amends.config.decisions import GONE
from amends.errors import RunMismatch
from amends.runs.run import DONE, Run

VERSIONS = ("amends", "torch", "numpy", "python", "device", "dtype")  # keys of [run] that results also depend on
PARTS = {"labels": "the labels of {} are", "sha256": "{} is", "columns": "the columns of {} are"}  # of a set
MODEL = {"sha256": "the weights are", "code": "the code of model, likelihood and transforms is"}


def same_data(run: Run, name: str, sha256: str) -> None:
    """RunMismatch unless a set is the one the run was made with."""
    if run.about.get("data", {}).get(name, {}).get("sha256") != sha256:
        raise _other(run, f"{name} is")


def same_recipe(run: Run, now: Mapping[str, Any]) -> None:
    """RunMismatch, naming what differs, unless the run was begun with `now`, what its run.toml would hold today."""
    was = run.about
    if "config" in now:
        a, b = flat(was.get("config", {})), flat(now["config"])
        for key in sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key)):
            text = f"{key} is {b.get(key)!r}, but the run was begun with another config, in which it is {a.get(key)!r}"
            raise RunMismatch(f"{text}; {run.folder}; give that one, or choose another folder with -o")
    for key, what in MODEL.items():
        if was["model"].get(key) != now["model"].get(key):
            raise _other(run, what)
    for name in sorted(was["data"].keys() | now["data"].keys()):
        a, b = was["data"].get(name, {}), now["data"].get(name, {})
        for key, what in PARTS.items():
            if a.get(key) != b.get(key):
                raise _other(run, what.format(name))
    for key in VERSIONS:
        if was["run"].get(key) != now["run"].get(key):
            text = f"{key} is {now['run'].get(key)}, but the run was begun with {was['run'].get(key)}"
            raise RunMismatch(f"{text}; {run.folder}; go back to that, or make a new run")


def _other(run: Run, what: str) -> RunMismatch:
    todo = "put back what it was made with, or make a new run"
    return RunMismatch(f"{what} not what this run was made with; {run.folder}; {todo}")


def difference(one: Run, other: Run) -> dict[str, Any]:
    """Settings and results that differ, each as [one, other], and the causes that only one of them removed."""
    a, b = (flat({k: v for k, v in r.about.items() if k in ("config", "data", "model", "run")}) for r in (one, other))
    skip = {"run.name", "run.made", "run.state", "run.folder"}
    settings = {k: [a.get(k), b.get(k)] for k in sorted((a.keys() | b.keys()) - skip) if a.get(k) != b.get(k)}
    differs: dict[str, Any] = {"settings": settings}
    if one.state == other.state == DONE:
        names = ("verdict", "query", "holdout", "remaining", "overall", "fixed", "newly_broken", "removed")
        m, n = ({k: r.metrics.get(k) for k in names} for r in (one, other))
        differs["results"] = {k: [m[k], n[k]] for k in names if m[k] != n[k]}
    gone = [set(_removed(r)) for r in (one, other)]
    differs["causes"] = {"both": len(gone[0] & gone[1]), "only_one": sorted(gone[0] - gone[1]),
                         "only_other": sorted(gone[1] - gone[0])}  # fmt: skip
    return differs


def _removed(run: Run) -> list[int]:
    frame = run.causes()
    return frame.loc[frame["decision"].isin(GONE), "index"].tolist()


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one: {"repair": {"seed": 0}} is {"repair.seed": 0}."""
    values = {}
    for key, value in tables.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return values
