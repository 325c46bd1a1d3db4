"""Results as tables on stdout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from amends.demo import Demo


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name == columns[0] else "right")
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def show_demo(demo: Demo, out: Path) -> None:
    console = Console(highlight=False, width=None if Console().is_terminal else 100)
    metrics, causes = demo.repair.metrics, demo.repair.causes
    flipped = int((demo.given != demo.true).sum())
    console.print(
        f"A small CNN learned from {len(demo.given):,} real digits, {flipped} of them with a wrong label. "
        f"It gets {demo.accuracy:.1%} of 2,000 others right.\n"
    )
    table = _table("Failures", "true → predicted", "number")
    for pair, count in demo.pairs[:8]:
        table.add_row(pair, str(count))
    rest = sum(count for _, count in demo.pairs[8:])
    table.add_row("others", str(rest))
    console.print(table, "")

    columns = ("rank", "index", "given", "suggested", "true", "p(given)", "score")
    table = _table("The training examples that stand behind them", *columns)
    for row in causes.head(10).to_dict("records"):
        shown = (row["rank"], row["index"], row["given"], row["suggested"], demo.true[row["index"]])
        table.add_row(*map(str, shown), f"{row['p_given']:.3f}", f"{row['score']:.2f}")
    if len(causes):
        hits = float((demo.given != demo.true)[demo.repair.removed].mean())
        console.print(table)
        console.print(f"{len(causes)} removed in all; {hits:.0%} of them do have a wrong label.\n")

    table = _table("How many to remove", "removed", "holdout", "at random", "remaining", "at random ")
    rows = {(r["by"], r["removed"]): r for r in metrics["curve"]}
    nothing = rows["nothing", 0]
    table.add_row("0 (control)", _share(nothing["holdout"]), "", _share(nothing["remaining"]), "")
    for (by, count), row in rows.items():
        if by == "causes":
            control = rows["random", count]
            mark = " ←" if count == metrics["removed"] else ""
            table.add_row(
                f"{count}{mark}", _share(row["holdout"]), _share(control["holdout"]), _share(row["remaining"]),
                _share(control["remaining"]),
            )  # fmt: skip
    console.print(table)
    alone = (
        "Each line goes on training on what is left. That alone fixes some failures, with nothing removed or as "
        "many at random; what the causes add is the difference.\n"
    )
    console.print(alone if demo.trains else "What the causes add over as many at random is the difference.\n")

    console.print(f"[bold]{metrics['verdict'].capitalize()}[/bold]: {metrics['reason']}.")
    h, r, o = metrics["holdout"], metrics["remaining"], metrics["overall"]
    console.print(f"  fixed         {metrics['fixed']} of {h['n']} failures it was not shown")
    console.print(
        f"  newly broken  {metrics['newly_broken']} of {r['n']} that were right; {_share(r['after'])} still right"
    )
    console.print(f"  overall       {o['before']:.3f} → {o['after']:.3f}")
    for warning in metrics["warnings"]:
        console.print(f"  warning       {warning}")
    console.print(f"\nWritten to {out}/: {', '.join(sorted(p.name for p in out.iterdir()))}")
