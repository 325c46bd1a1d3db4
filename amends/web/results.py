"""The results of repairs: of the run itself if it is finished, and of those made from the page."""

from __future__ import annotations

import math
import re
from pathlib import Path
from textwrap import shorten
from typing import Any

from amends.errors import AmendsError, BadInput
from amends.runs.compare import difference
from amends.runs.manifest import REPAIRS
from amends.runs.run import Run
from amends.web.table import Missing, Table
from amends.web.trail import Step, do, now

SETS = ("query", "holdout", "remaining", "overall")
COUNTS = ("verdict", "reason", "removed", "relabelled", "fixed", "newly_broken")
SHOWN = 40  # fixed and newly broken each
LONGEST = 2000  # characters of a note
IN_TRAIL = 80  # of a note that the trail shows


def repairs(table: Table) -> list[dict[str, Any]]:
    """Every finished repair, the oldest first."""
    home = table.run / REPAIRS
    numbers = (
        sorted(int(p.name) for p in home.iterdir() if re.fullmatch(r"[1-9]\d{0,8}", p.name)) if home.is_dir() else []
    )
    rows = []
    for number in [0, *numbers]:
        try:
            run = _run(table, number)
        except AmendsError:
            continue
        if run.done:
            rows.append(_row(table, number, run))
    return rows


def repair(table: Table, number: int) -> dict[str, Any]:
    """One repair with every figure, and with examples that it fixed and broke."""
    run = finished(table, number)
    m, looks = run.metrics, run.looks
    shown = {}
    for name, at, kind in (("fixed_rows", m["fixed_at"], "failures"), ("broken_rows", m["broken_at"], "remaining")):
        entries = looks.get(kind) or {}
        shown[name] = [_shown(int(i), entries.get(str(i), {})) for i in at[:SHOWN]]
    marked = table.one("select marked from jobs where repair = ? and kind = 'repair'", [number]) or 0
    trained = run.about.get("data", {}).get("train", {}).get("n")
    patch = plain_of(run.patch) | {"file": patch_file(table, number).is_file()} if run.patch else None
    return {
        **_row(table, number, run), "metrics": plain_of(m), **shown, "trained": trained, "marked": marked,
        "patch": patch,
    }  # fmt: skip


def accept(
    table: Table, number: Any, accepted: Any, note: Any, *, person: str = "", key: str | None = None
) -> dict[str, Any]:
    """Accepted, rejected, or neither, with a note."""
    if type(number) is not int or not 0 <= number < 10**9:
        raise BadInput("repair is not the number of one; the request; give one that is listed")
    _ = finished(table, number)
    if not (accepted is None or type(accepted) is bool) or not isinstance(note, str) or len(note) > LONGEST:
        raise BadInput(f"accepted or note cannot be used; the request; give true, false or null, and up to {LONGEST} "
                       "characters")  # fmt: skip
    word = {True: "accepted", False: "rejected", None: "left open"}[accepted]
    with table.writing():
        was, will = now(table, "result", number), [None if accepted is None else int(accepted), note, person]
        changes = [] if will[:2] == was[:2] else [("result", number, was, will)]
        short = shorten(note, IN_TRAIL, placeholder=" …")
        text = f"{name_of(number)} {word}" + (f": {short}" if short else "")
        return do(table, Step("accept", text, changes, person, key))


def compared(table: Table, one: int, other: int) -> dict[str, Any]:
    return plain_of(difference(finished(table, one), finished(table, other)))


def finished(table: Table, number: int) -> Run:
    """The run of a repair; Missing if there is none or it has not ended."""
    try:
        run = _run(table, number)
    except AmendsError:
        raise Missing from None
    if not run.done:
        raise Missing
    return run


def folder_of(table: Table, number: int) -> Path:
    return table.run if number == 0 else table.run / REPAIRS / str(number)


def patch_file(table: Table, number: int) -> Path:
    """The path where the page writes the patch of a repair: next to its folder."""
    return table.run / REPAIRS / f"{number}.safetensors"


def _run(table: Table, number: int) -> Run:
    return Run.open(folder_of(table, number))


def name_of(number: int) -> str:
    return f"repair {number}" if number else "the run itself"


def _row(table: Table, number: int, run: Run) -> dict[str, Any]:
    accepted, note, person = now(table, "result", number)
    m = run.metrics
    return {
        "number": number, "name": f"{REPAIRS}/{number}" if number else run.name,
        "made": run.about["run"].get("made", ""), **{k: m.get(k) for k in COUNTS}, **{k: m.get(k) for k in SETS},
        "accepted": None if accepted is None else bool(accepted), "note": note, "by": person,
    }  # fmt: skip


def _shown(at: int, look: dict[str, Any]) -> dict[str, Any]:
    labels = {k: None if look.get(k) is None else str(look[k]) for k in ("label", "predicted", "predicted_after")}
    kept = ("image", "text", "row", "stands_out", "values", "deviations")
    return {"index": at, **labels, "look": {k: look[k] for k in kept if k in look}}


def plain_of(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinity become null, at any depth."""
    if isinstance(value, dict):
        return {str(k): plain_of(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_of(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
