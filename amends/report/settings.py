"""How a run was made, and how to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from amends.report.markup import Html, count, join, shortened, table, tag
from amends.report.view import View
from amends.runs.compare import flat

LEFT_OUT = ("folder", "format")  # the folder is private; the format means nothing to a reader
LONGEST = 300  # characters of one setting that are shown
ABOUT = {
    "name": "run", "made": "made", "amends": "amends", "torch": "torch", "python": "Python", "device": "device",
    "seed": "seed", "state": "state", "command": "command",
}  # fmt: skip


def made_with(run: View) -> Html:
    """Versions, and the hashes of data and weights."""
    rows = [(ABOUT.get(k, k), _value(v)) for k, v in run.run.items() if k not in LEFT_OUT]
    parts = [table(("", ""), rows, "The run", words=(0, 1), class_="plain")]
    hashed = [(name, count(row.get("n")), tag("code", row.get("sha256", "–"))) for name, row in _sets(run.about)]
    if "model" in run.about:
        hashed.append(("model", "–", tag("code", run.about["model"].get("sha256", "–"))))
    if hashed:
        parts.append(table(("set", "n", "sha256"), hashed, "What it was made from", words=(0, 2)))
    return join(parts)


def _sets(about: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((name, row) for name, row in about.get("data", {}).items() if isinstance(row, dict))


def config(run: View) -> Html | None:
    rows = [(tag("code", name), _value(value)) for name, value in flat(run.about.get("config", {})).items()]
    return table(("setting", "value"), rows, "The settings, as they were used", words=(0, 1)) if rows else None


def _value(value: Any) -> str:
    return shortened(str(value).lower() if isinstance(value, bool) else str(value), LONGEST)


def replay(run: View) -> Html:
    """The commands that make this run and this page again."""
    name = shlex.quote(run.name)
    verb = "repair" if run.done else "identify"
    lines = [f"amends {verb} {name}/run.toml -o {name}-again"] if "config" in run.about else [
        "# made in Python: call amends.repair with the same model, data and seed"
    ]  # fmt: skip
    if not run.done:
        lines.append(f"amends treat {name}")
    lines.append(f"amends report {name}")
    return tag("pre", tag("code", "\n".join(lines)))
