"""report.html: one file that opens from disk, makes no request, and shows what a repair did."""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from amends.errors import RunMismatch, first_line, many
from amends.evaluation.words import conflicting
from amends.report import gallery, outcome, settings, tables
from amends.report.markup import Html, count, join, section, tag
from amends.report.matrix import matrices
from amends.report.then import listed, next_steps
from amends.report.view import View
from amends.runs.run import Run

LARGEST = 5_000_000  # bytes
PART = 400_000  # bytes of pictures for each part except the causes
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # the browser refuses any request
PRIVACY = (
    "Deleting examples this way repairs a model. It is not a privacy guarantee: "
    "do not rely on it to make a person's data unrecoverable."
)


def report(folder: Path) -> str:
    """The run folder as one HTML document of at most 5 MB. A file that is missing or damaged is a RunMismatch."""
    run = View.of(Run.open(Path(folder)))
    try:
        return _document(run)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        what = f"{type(e).__name__}: {first_line(e)}"
        raise RunMismatch(f"its files do not fit together ({what}); {folder}; make the run again") from e


def style() -> str:
    return files("amends.report").joinpath("style.css").read_text(encoding="utf-8")


def _document(run: View) -> str:
    plain = _repaired if run.done else _identified
    bare = _page(run, plain(run, gallery.Room(0)))
    room = gallery.Room(LARGEST - len(bare.encode()) - 10_000)
    return _page(run, plain(run, room))


def _page(run: View, parts: list[Html]) -> str:
    verdict = run.metrics["verdict"] if run.done else "identified"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{run.name}: {verdict}"),
        tag("style", Html(style())),
    )
    top = tag("div", tag("span", "amends", class_="mark"), tag("span", run.name, class_="run"), tag("span", _when(run)),
              class_="masthead")  # fmt: skip
    by = f"Made by amends {run.run.get('amends', '')} for the run {run.name}."
    foot = tag("footer", tag("p", PRIVACY), tag("p", by, class_="soft"))
    body = tag("body", tag("main", top, *parts, foot))
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _when(run: View) -> str:
    """The day it was made, in words."""
    try:
        moment = datetime.fromisoformat(str(run.run.get("made", "")))
    except ValueError:
        return ""
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".strip()


def _contents(sections: list[tuple[str, str, Any]]) -> list[Html]:
    """A line of links, then the sections themselves."""
    present = [(name, title, inside) for name, title, inside in sections if inside is not None]
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in present]
    nav = tag("nav", tag("ul", *links), aria_label="contents")
    return [nav, *(section(name, title, inside) for name, title, inside in present)]


def _trained(run: View) -> int | None:
    return run.about.get("data", {}).get("train", {}).get("n")


def _repaired(run: View, room: gallery.Room) -> list[Html]:
    m = run.metrics
    top = [outcome.verdict(m), outcome.figures(m, _trained(run)), outcome.warnings(m["warnings"])]
    small = [
        ("copies", "Near copies among the causes", _copies(run, room) if m["duplicates"] else None),
        ("suspects", "Failures whose own label looks wrong", _suspects(run, room) if m["suspects"] else None),
        ("changed", "Fixed and newly broken", _changed(run, room)),
    ]
    sections = [
        ("before-after", "Before and after", join([outcome.changes(m), outcome.before_after(m)])),
        ("curve", "How many to remove", _curve(run)),
        ("causes", "The causes" if m["removed"] else "What the search found", _causes(run, room)),
        *small,
        ("confusion", "Confusion matrices", _confusion(run) if m.get("confusion") else None),
        ("groups", "By failure group", tables.by_group(run) if m["groups"] else None),
        ("classes", "By class", _classes(run) if m["classes"] else None),
        ("calibration", "Calibration", tables.calibration(run) if m.get("calibration") else None),
        ("keep", "Sets to keep", tables.keep(run) if m["keep"] else None),
        ("patch", "The patch", tables.patch(run) if run.patch else None),
        ("method", "Method and settings", _method(run)),
        ("next", "What next", listed(next_steps(m, run.about, run.name))),
    ]
    return [p for p in [*top, *_contents(sections)] if p is not None]


def _identified(run: View, room: gallery.Room) -> list[Html]:
    scored = many(run.total, "training example was", "training examples were")
    conflicts = conflicting(run.total, [c["score"] for c in run.causes], run.members)
    more = "at least " if conflicts == len(run.causes) < run.total else ""  # the report holds only the strongest
    shown = f"{scored} scored; {more}{many(conflicts, 'of them conflicts', 'of them conflict')} with the failures"
    words = tag("p", shown + ". Nothing has been treated or judged yet.", class_="reason")
    top = tag("div", outcome.glyph("identified"), tag("div", tag("h1", "Causes identified"), words), class_="verdict")
    sections = [
        ("causes", "The causes", _causes(run, room)),
        ("method", "Method and settings", _method(run)),
        ("next", "What next", listed(next_steps({}, run.about, run.name))),
    ]
    return [top, *_contents(sections)]


def _curve(run: View) -> Html:
    m = run.metrics
    words = (
        "Each point is the model after the treatment, with that many training examples removed, most harmful first. "
        "The controls are the same treatment with nothing removed and with as many removed at random; what the "
        "repair gains over them is due to the causes."
    )
    several = None
    if len(m.get("rounds", ())) > 1:
        several = join([tag("p", "The curve shows the last round."), tables.rounds(run)])
    why = tag("p", tag("b", "Removed: "), f"{m['chosen']}.") if m.get("chosen") else None
    return join([why, tag("p", words), outcome.curves(run.curve, m), several, outcome.controls(m),
                 outcome.curve_table(run.curve)])  # fmt: skip


def _causes(run: View, room: gallery.Room) -> Html:
    kept = ""
    if run.done and not run.metrics["removed"]:
        kept = "Nothing was removed: this is the ranking of all of train, for you to look at and decide. "
    words = (
        "Training examples that conflict with the failures, most harmful first. “Suggested” is the label the model "
        "leans to once it learns the failures. An example that conflicts with the failures need not have a wrong "
        "label: look at it. Below each example are the failures it conflicts with most, with their label and what the "
        "model predicts"
    )
    return join([tag("p", kept + words + (", before → after." if run.done else ".")), gallery.causes(run, room)])


def _copies(run: View, room: gallery.Room) -> Html:
    words = "Each group is the same example, or nearly, several times. Decide the same for all of a group."
    return join([tag("p", words), gallery.copies(run, room, PART)])


def _suspects(run: View, room: gallery.Room) -> Html:
    words = (
        "Examples nearby that the model gets right all have the label it predicts for these failures, and a model "
        "that learns the other failures still does not predict their given label. Correct or drop them before the "
        "next repair."
    )
    return join([tag("p", words), gallery.changed(run, run.metrics["suspects"], "failures", room, PART)])


def _changed(run: View, room: gallery.Room) -> Html | None:
    m = run.metrics
    parts = []
    for title, at, kind in (("Newly broken", m["broken_at"], "remaining"), ("Fixed", m["fixed_at"], "failures")):
        if at:
            parts += [tag("h3", f"{title}: {count(len(at))}"), gallery.changed(run, at, kind, room, PART)]
    return join(parts) if parts else None


def _confusion(run: View) -> Html:
    shown, merged = matrices(run.metrics["confusion"])
    words = (
        "Holdout and remaining together: rows are the true class, columns the predicted one. In the difference, "
        "changes for the worse are hatched."
    )
    if merged:
        words += f" {many(merged, 'class', 'classes')} that are rarely confused are shown together as “others”."
    return join([tag("p", words), shown])


def _classes(run: View) -> Html:
    harmed = run.metrics["harmed"]
    words = "No class lost accuracy beyond chance."
    if harmed:
        words = f"Accuracy fell beyond chance (5% level over all classes) on: {', '.join(map(run.label, harmed))}."
    return join([tag("p", words), tables.by_class(run)])


def _method(run: View) -> Html:
    parts = [tables.members(run) if run.members else None, settings.config(run), settings.made_with(run)]
    return join([*parts, tag("h3", "Make this run again"), settings.replay(run)])
