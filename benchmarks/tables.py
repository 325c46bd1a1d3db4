"""Rows of several seeds as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rows import IDENTIFYING, REPAIRS, TREATING, Rows


def ordered(results: list[Rows]) -> list[str]:
    """The names of the rows, in the order of the tables."""
    listed = [f"identify: {n}" for n in IDENTIFYING] + [f"treat: {n}" for n in TREATING]
    return [n for n in listed + [f"repair: {n}" for n in REPAIRS] if any(n in r for r in results)]


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def table(results: list[Rows], prefix: str, columns: list[str]) -> Iterator[str]:
    """Mean ± standard deviation over the seeds, in Markdown."""
    yield f"| {prefix[:-2]} | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name in (n for n in ordered(results) if n.startswith(prefix)):
        own = [overall(r[name], r["base"]["accuracy"]) for r in results if name in r]
        rows = [r for r in own if "refused" not in r]
        cells = []
        for column in columns:
            values = [r[column] for r in rows if column in r]
            cells.append(spread(values) if values else "-")
            if column == "seconds" and values:
                cells[-1] = f"{np.mean(values):.1f}"
        note = "" if len(rows) == len(own) else f" (refused {len(own) - len(rows)} of {len(own)})"
        note += "" if len(own) == len(results) else f" ({len(own)} seeds)"
        yield f"| {name[len(prefix) :]}{note} | " + " | ".join(cells) + " |"


def overall(row: dict[str, Any], accuracy: float) -> dict[str, Any]:
    """The row with the accuracy on failures and right examples together, in the proportion they occurred."""
    if "overall" in row or "holdout" not in row:
        return row
    return {**row, "overall": (1 - accuracy) * row["holdout"] + accuracy * row["remaining"]}


def report(setting: str, results: list[Rows]) -> str:
    def mean(key: str) -> str:
        values = [r["base"][key] for r in results]
        return spread(values) if np.mean(values) < 2 else f"{np.mean(values):.0f}"

    head = (f"{len(results)} seeds; base accuracy {mean('accuracy')}; {mean('failures')} failures; {mean('wrong')} "
            f"wrong labels, of which the model gives back {mean('fitted')}.")  # fmt: skip
    after, timing = ["query", "holdout", "remaining"], ["seconds"]
    identified = table(results, "identify: ", ["AP", "AP × loss", "AUC", "P@100", *after, *timing])
    treated = table(results, "treat: ", [*after, "overall", *timing])
    whole = table(results, "repair: ", ["repaired", "removed", "of them wrong", *after, "overall", *timing])
    parts = [f"## Setting {setting}", head, "\n".join(identified), "\n".join(treated), "\n".join(whole)]
    reasons = {n[10:]: r[n]["refused"] for r in results for n in r if "refused" in r[n]}
    return "\n\n".join([*parts, *(f"Refused: {name}: {why}." for name, why in reasons.items())])


PEERS = (
    "loss", "self_confidence, out of fold", "grad_dot", "linear, cg", "linear, cg, damping 1000", "linear, kronecker",
)  # fmt: skip
TOLD = ("treat: fine_tune, nothing removed", "treat: fine_tune, every wrong label removed", "repair: by default")
KNOWN = ("random", *(n for n in IDENTIFYING if n.startswith("default")))


def summary(every: dict[str, list[Rows]]) -> str:
    """How well the default ranks, its accuracies after a repair, and by how much both exceed the targets."""
    ranked, after = ranking(every), accuracies(every)
    return "\n\n".join(["\n".join(ranked), "\n".join(after), bars(ranked[2:], after[2:])])


def over_seeds(results: list[Rows], name: str, column: str = "AP") -> str | None:
    values = [r[name][column] for r in results if column in r.get(name, {})]
    return spread(values) if values else None


def ranking(every: dict[str, list[Rows]]) -> list[str]:
    """The default compared with the methods people usually install, and with the best of all rows, chosen in
    hindsight."""
    lines = ["| AP | default | best other row | " + " | ".join(PEERS) + " |", "|---" * (len(PEERS) + 3) + "|"]
    for setting, results in every.items():
        others = [(n, c) for n in ordered(results) if n.startswith("identify: ") and n[10:] not in KNOWN
                  for c in ("AP", "AP × loss") if over_seeds(results, n, c)]  # fmt: skip
        if not others:
            continue
        best = max(others, key=lambda o: over_seeds(results, *o) or "")
        cells = [over_seeds(results, "identify: default") or "-"]
        cells.append(f"{over_seeds(results, *best)} ({best[0][10:]}{', × loss' if best[1] != 'AP' else ''})")
        cells += [over_seeds(results, f"identify: {peer}") or "-" for peer in PEERS]
        lines.append(f"| {setting} | " + " | ".join(cells) + " |")
    return lines


def accuracies(every: dict[str, list[Rows]]) -> list[str]:
    """The default's repair between its two reference points: nothing removed, and every wrong label removed."""
    lines = [
        "| holdout / remaining | " + " | ".join(name.split(": ", 1)[1] for name in TOLD) + " |",
        "|---|---|---|---|",
    ]
    for setting, results in every.items():
        pairs = ([over_seeds(results, name, column) for column in ("holdout", "remaining")] for name in TOLD)
        lines.append(f"| {setting} | " + " | ".join(" / ".join(p or "-" for p in pair) for pair in pairs) + " |")
    return lines


def bars(ranked: list[str], after: list[str]) -> str:
    """By how much the default exceeds its targets, from the rows of the other two tables of the summary.

    AP should be at least the best other row's minus .03, and .05 above the mean of the loss, out-of-fold confidence,
    the gradient and linear influence. Holdout should be at least the oracle's; remaining at most one point below it.
    """

    def numbers(line: str) -> tuple[str, list[list[float]]]:
        setting, *cells = line.strip("| ").split(" | ")
        return setting, [[float(part.split(" ± ")[0]) for part in c.split(" / ") if "±" in part] for c in cells]

    def cell(above: float) -> str:
        return "-" if np.isnan(above) else f"{above:+.3f}" if above > -0.0005 else f"**{above:+.3f}**"

    repairs = dict(map(numbers, after))
    lines = ["| above what is asked | AP, best other | AP, peers | holdout | remaining |", "|---|---|---|---|---|"]
    for setting, figures in map(numbers, ranked):
        (default,), (best,), *peers = (f or [np.nan] for f in figures)
        _, oracle, repair = (np.array(r or [np.nan, np.nan]) for r in repairs[setting])
        above = [default - best + 0.03, default - np.nanmean(peers) - 0.05, *(repair - oracle + (0, 0.01))]
        lines.append(f"| {setting} | " + " | ".join(map(cell, above)) + " |")
    return "\n".join(lines)
