"""What an experiment tracker gets from a run: settings, numbers, the curve, and the files worth keeping."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amends.runs.compare import flat
from amends.runs.run import DONE, Run

PROJECT = "amends"
FILES = ("report.html", "causes.csv", "metrics.json", "curve.csv", "run.toml")
MEASURED = ("query", "holdout", "remaining", "overall")
COUNTED = ("fixed", "newly_broken", "removed")


def parameters(run: Run) -> dict[str, Any]:
    """The config as flat keys, what the run was made with, and how large its sets were."""
    about = run.about["run"]
    made_with = {f"run.{k}": about[k] for k in ("seed", "rule", "device", "amends", "torch") if k in about}
    sizes = {f"data.{name}.n": row["n"] for name, row in run.about.get("data", {}).items()}
    return made_with | sizes | flat(run.about.get("config", {}))


def measured(run: Run) -> dict[str, float]:
    """Accuracies before and after, and counts; empty if nothing was treated yet."""
    if run.state != DONE:
        return {}
    metrics = run.metrics
    shares = {
        f"{name}/{when}": metrics[name][when]
        for name in MEASURED if metrics.get(name) for when in ("before", "after")
    }  # fmt: skip
    values = shares | {name: metrics.get(name) for name in COUNTED}
    return {k: float(v) for k, v in values.items() if v is not None}


def verdict(run: Run) -> str:
    return str(run.metrics.get("verdict", "")) if run.state == DONE else run.state


def curve(run: Run) -> list[tuple[int, dict[str, float]]]:
    """Each number removed, in rising order, with the accuracies there, by how the examples were chosen."""
    steps: dict[int, dict[str, float]] = {}
    for row in run.curve:
        by = re.sub(r"[^\w.-]", "_", row["by"])
        numbers = {k: v for k, v in row.items() if k not in ("by", "removed", "refits") and v is not None}
        at = steps.setdefault(row["removed"], {})
        at |= {f"curve/{by}/{k}": float(v) for k, v in numbers.items() if math.isfinite(v)}
    return sorted(steps.items())


def files(run: Run) -> list[Path]:
    """The files of FILES that exist."""
    return [run.folder / name for name in FILES if (run.folder / name).is_file()]


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Sets what a library reads only from the environment, for as long as it is used."""
    before = {k: os.environ.get(k) for k in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
