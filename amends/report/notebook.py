"""Results in a notebook: the first parts of the report, shortened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amends.errors import many
from amends.evaluation.words import conflicting
from amends.report import gallery, outcome
from amends.report.markup import Html, count, join, tag
from amends.report.page import style
from amends.report.view import View

if TYPE_CHECKING:
    import pandas as pd

    from amends.algorithm.identify import Influence
    from amends.workflow.repair import Repair

SHOWN = 6  # causes
ROOM = 300_000  # bytes; a notebook keeps what it shows
SCOPE = "amends-result"
PANEL = (
    "& { background: var(--paper); color: var(--ink); font: 0.95rem/1.55 var(--sans); padding: 1.2rem 1.6rem; "
    "border-radius: 8px; max-width: 66rem; } .verdict { margin: 0 0 1.5rem; }"
)


def repair_html(result: Repair) -> str:
    """Verdict, before and after, the curve, and the strongest causes."""
    from amends.tables.looks import looks_of

    frame, m = result.causes.head(SHOWN), result.metrics
    failures = result.given["failures"].examples
    seen = looks_of(result.rounds[0].search.influence, frame, failures, after=result.after)
    run = _as_run(frame, seen, len(result.causes), m)
    parts = [
        outcome.verdict(m, "h3"), outcome.figures(m, len(result.influence)), outcome.warnings(m["warnings"], "h4"),
        outcome.before_after(m), outcome.curves(m["curve"], m),
        _causes(run, m["removed"] or len(result.causes)),
    ]  # fmt: skip
    return _fragment(parts)


def influence_html(influence: Influence) -> str:
    """How many training examples conflict with the failures, and the strongest of them."""
    import numpy as np

    from amends.tables.frames import causes_frame
    from amends.tables.looks import looks_of

    order = np.argsort(-influence.scores, kind="stable")[:SHOWN]
    frame = causes_frame(influence, order)
    run = _as_run(frame, looks_of(influence, frame, influence.failures.examples), len(influence), {})
    members = [member.row() for member in influence.members]
    harmful, failures = conflicting(len(influence), influence.scores.tolist(), members), len(influence.failures)
    words = f"{count(harmful)} of {many(len(influence), 'training example')} conflict with {many(failures, 'failure')}"
    return _fragment([tag("p", words + "; the strongest are shown.", class_="reason"), _causes(run, harmful)])


def _as_run(frame: pd.DataFrame, seen: dict[str, Any], total: int, metrics: Mapping[str, Any]) -> View:
    """A result as the view of the run folder it would be saved as."""
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    return View("", {"run": {}}, dict(metrics), [], rows, total, seen, [])


def _causes(run: View, total: int) -> Any:
    most = max(c["score"] for c in run.causes)
    cards = gallery.Room(ROOM).fit(gallery.cause_card(run, c, i, most) for i, c in enumerate(run.causes, 1))
    words = f"The {len(cards)} strongest causes of {count(total)}, with the failures they conflict with"
    return join([tag("p", tag("b", words)), tag("div", *cards, class_=f"cards {run.looks['kind']}")])


def _fragment(parts: list[Any]) -> str:
    """The parts with the style of the report, nested, so that it does not change the rest of the notebook."""
    rules = style().split("@media print")[0].replace(":root", "&")
    kept = Html(f".{SCOPE} {{ {rules} {PANEL} }}")
    return tag("div", tag("style", kept), *(p for p in parts if p is not None), class_=SCOPE)
