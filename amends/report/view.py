"""A run as the report shows it: the contents of its files, and how to write labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from amends.report.markup import shortened
from amends.runs.run import DONE, Run

ROWS = 1000  # of the causes that are kept in memory
LONGEST = 60  # characters of a label


@dataclass(frozen=True, eq=False)
class View:
    """A run folder, or a result as the run folder it would be saved as. `metrics` and `curve` are empty if nothing has
    been treated yet; `causes` are the first of `total` causes."""

    name: str
    about: dict[str, Any]
    metrics: dict[str, Any]
    curve: list[dict[str, Any]]
    causes: list[dict[str, Any]]
    total: int
    looks: dict[str, Any]
    members: list[dict[str, Any]]  # the members that scored the examples
    patch: dict[str, Any] = field(default_factory=dict)  # the repair as a small file, where one was made

    @classmethod
    def of(cls, run: Run) -> View:
        done = run.state == DONE
        causes, total = run.first_causes(ROWS)
        return cls(
            name=str(run.about["run"].get("name") or run.name), about=run.about, metrics=run.metrics if done else {},
            curve=run.curve if done else [], causes=causes, total=total, looks=run.looks, members=run.members,
            patch=run.patch,
        )  # fmt: skip

    @property
    def done(self) -> bool:
        return bool(self.metrics)

    @property
    def run(self) -> dict[str, Any]:
        return self.about["run"]

    def label(self, value: Any) -> str:
        """A label as a person reads it: numbers short, several labels by their names."""
        text, names = str(value).strip(), self.looks.get("classes") or ()
        if re.fullmatch(r"\[[01](, [01])*\]", text) and text.count(",") + 1 == len(names):
            holds = [name for name, k in zip(names, text[1:-1].split(", "), strict=True) if k == "1"]
            return shortened(", ".join(holds) or "none", LONGEST)
        if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text):
            return f"{float(text):.4g}".replace("-", "−")
        return shortened(text, LONGEST)

    def look(self, kind: str, position: Any) -> dict[str, Any]:
        return self.looks.get(kind, {}).get(str(position), {})
