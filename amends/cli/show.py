"""Results as tables on stdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from amends.cli.options import note, print_json
from amends.config.read import Config, unmet
from amends.errors import many, visible
from amends.evaluation.words import forgetting_alone, over
from amends.report.markup import shortened
from amends.report.then import Next, next_steps

if TYPE_CHECKING:
    import pandas as pd

    from amends.demo import Demo


class Screen(Console):
    """A console on which text from a user's data cannot move the cursor or change a colour."""

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*(visible(o) if isinstance(o, str) else o for o in objects), **how)

    def on_broken_pipe(self) -> None:
        """Ends as with any closed pipe; rich would exit with 1, the code for a requirement that was not met."""
        raise BrokenPipeError


class Cells(Table):
    """A table whose cells cannot do so either."""

    def add_row(self, *cells: Any, **how: Any) -> None:
        super().add_row(*(visible(c) if isinstance(c, str) else c for c in cells), **how)


def console_of() -> Console:
    return Screen(highlight=False, markup=False, width=None if Console().is_terminal else 100)


def table_of(title: str, *columns: str) -> Table:
    table = Cells(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name == columns[0] else "right")
    return table


def share_of(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def finish(metrics: dict[str, Any], causes: pd.DataFrame, out: Path, as_json: bool, config: Config) -> int:
    """Prints the result of a repair; the exit code is 1 if a requirement was not met."""
    require = config.repair("require")
    missed = unmet(require, metrics)
    if as_json:
        print_json({**metrics, "run": str(out), "unmet": missed})
    else:
        console = console_of()
        show_causes(causes, console=console)
        removed = f"Removed: {metrics['chosen']}."
        console.print(f"{removed}\n")
        show_curve(metrics["curve"], metrics["removed"], console, metrics["learned"])
        console.print()
        show_verdict(metrics, console)
        console.print(f"\nWritten to {out}/: {', '.join(sorted(p.name for p in out.iterdir()))}")
        show_next(next_steps(metrics, {"config": config.tables}, str(out)), console)
    for line in missed:
        note(f"not met: {line}")
    return 1 if missed else 0


def show_identified(frame: pd.DataFrame, number: int, out: Path, warnings: Sequence[str] = ()) -> None:
    console = console_of()
    show_causes(frame, console=console)
    words = many(number, "training example conflicts", "training examples conflict")
    console.print(f"{words} with the failures, the first ones most.\n")
    for warning in warnings:
        console.print(f"warning: {warning}\n", markup=False)
    console.print(f"Written to {out}/. Look at report.html or causes.csv.")
    show_next(next_steps({}, {}, str(out)), console)


def show_next(steps: Sequence[Next], console: Console) -> None:
    """What to do next; a line to copy is never broken."""
    console.print("\nWhat next")
    for number, step in enumerate(steps, 1):
        console.print(f"  {number}. {step.words}")
        if step.line:
            console.print(f"       {step.line}", soft_wrap=True)


def show_causes(
    causes: pd.DataFrame, true: Sequence[Any] | None = None, console: Console | None = None, most: int = 10
) -> None:
    """The first causes, with their true labels if these are known."""
    named = ["id"] if bool((causes["id"].astype(str) != causes["index"].astype(str)).any()) else []
    extra = [] if true is None else ["true"]
    columns = ("rank", "index", *named, "given", "suggested", *extra, "p(given)", "score")
    table = table_of("The training examples behind the failures", *columns)
    for row in causes.head(most).to_dict("records"):
        cells = [row["rank"], row["index"], *(row[n] for n in named), _short(row["given"]), _short(row["suggested"])]
        if true is not None:
            cells.append(true[row["index"]])
        table.add_row(*map(str, cells), f"{row['p_given']:.3f}", f"{row['score']:.2f}")
    (console or console_of()).print(table)


def _short(value: Any, most: int = 24) -> str:
    return shortened(f"{value:.4g}" if isinstance(value, float) else str(value), most)


def show_curve(
    curve: Sequence[Mapping[str, Any]], chosen: int = 0, console: Console | None = None, learned: bool = False
) -> None:
    """An arrow marks the repair itself: the number that was chosen, or the row that learned too."""
    table = table_of("How many to remove (accuracy)", "removed", "holdout", "at random", "remaining", "at random ")
    rows = {(r["by"], int(r["removed"])): r for r in curve}
    nothing = rows["nothing", 0]
    table.add_row("0 (control)", share_of(nothing["holdout"]), "", share_of(nothing["remaining"]), "")
    for (by, count), row in rows.items():
        if by == "causes":
            control = rows.get(("random", count), {})  # a large model has one only at the chosen number
            mark = " ←" if count == chosen and not learned else ""
            pairs = [(share_of(row[name]), share_of(control.get(name))) for name in ("holdout", "remaining")]
            table.add_row(f"{count}{mark}", *pairs[0], *pairs[1])
        elif by == "causes, failures learned" and learned:  # the repair itself
            table.add_row(f"{count}, learned too ←", share_of(row["holdout"]), "", share_of(row["remaining"]), "")
    (console or console_of()).print(table)


def show_verdict(metrics: Mapping[str, Any], console: Console | None = None) -> None:
    console = console or console_of()
    from rich.text import Text

    reason = metrics["reason"] + ("" if metrics["reason"].endswith("?") else ".")
    console.print(Text(metrics["verdict"].capitalize(), style="bold") + Text(visible(f": {reason}")))
    h, r = metrics["holdout"], metrics["remaining"]
    console.print(f"  fixed         {metrics['fixed']} of {many(h['n'], 'holdout failure')}")
    if r is not None:
        now = f"accuracy on them is now {share_of(r['after'])}"
        console.print(f"  newly broken  {metrics['newly_broken']} of {r['n']} that were right; {now}")
    for name in ("overall", "evaluation"):
        row = metrics[name]
        what = over(name, row["n"], metrics["learned"])
        console.print(f"  {name:<12}  accuracy {row['before']:.3f} → {row['after']:.3f}, {what}")
    if metrics["learned"]:
        alone = (forgetting_alone(metrics) or {}).get("holdout")
        also = "" if metrics["remaining"] is None else " and from right examples"
        console.print(f"  learned       also from the query failures{also}")
        if alone is not None:
            console.print(f"                forgetting alone takes accuracy on the holdout failures to {alone:.3f}")
        console.print("                do not test the repaired model on them; failures.csv marks the failures")
    if metrics["offer"]:
        console.print(f"  offer         {metrics['offer']}")
    if metrics["left_out"]:
        console.print(f"  left out      with budget {metrics['budget']}: {metrics['left_out']}")
    for warning in metrics["warnings"]:
        console.print(f"  warning       {warning}")


def show_demo(demo: Demo, out: Path) -> None:
    console = console_of()
    metrics, causes = demo.repair.metrics, demo.repair.causes
    flipped = int((demo.given != demo.true).sum())
    console.print(
        f"A small CNN was trained on {len(demo.given):,} real digits, {flipped} of them with a wrong label. "
        f"Its accuracy on 2,000 others is {demo.accuracy:.1%}.\n"
    )
    table = table_of("Failures", "true → predicted", "number")
    for pair, count in demo.pairs[:8]:
        table.add_row(pair, str(count))
    rest = sum(count for _, count in demo.pairs[8:])
    table.add_row("others", str(rest))
    console.print(table, "")
    if metrics["removed"]:
        hits = float((demo.given != demo.true)[demo.repair.removed].mean())
        show_causes(causes, demo.true.tolist(), console)
        console.print(f"{len(causes)} removed in total; {hits:.0%} of them have a wrong label.\n")
    show_curve(metrics["curve"], metrics["removed"], console, metrics["learned"])
    alone = (
        "Each row is the model trained further on what is left. Rows without a control at random are shorter fits, "
        "made only to choose the size. Further training alone fixes some failures, as the "
        "controls show: nothing removed, and as many at random. The difference is due to the causes.\n"
    )
    console.print(alone if demo.trains else "The gain over removing as many at random is due to the causes.\n")
    show_verdict(metrics, console)
    console.print(f"\nWritten to {out}/: {', '.join(sorted(p.name for p in out.iterdir()))}")
    show_next(next_steps(metrics, {}, str(out)), console)


def show_runs(rows: Sequence[Mapping[str, Any]]) -> None:
    table = table_of("Runs", "run", "made", "verdict", "removed", "holdout", "remaining")
    for row in rows:
        verdict = row["verdict"] or row["state"]
        removed = "-" if row["removed"] is None else str(row["removed"])
        table.add_row(row["run"], row["made"], verdict, removed, share_of(row["holdout"]), share_of(row["remaining"]))
    console_of().print(table if rows else "No runs here.")


def show_settings(about: Mapping[str, Any]) -> None:
    console, run = console_of(), about["run"]
    console.print(
        f"{run['name']}: made {run['made']} with amends {run['amends']}, torch {run['torch']}, {run['device']}"
    )
    for name, row in about["data"].items():
        console.print(f"  {name:<12} {row['n']:,} examples")
    for key, value in about.get("config", {}).get("repair", {}).items():
        console.print(f"  {key:<12} {value}")
    console.print()


def show_diff(difference: Mapping[str, Any], one: Path, other: Path) -> None:
    console = console_of()
    table = table_of("What differs", "", str(one), str(other))
    for part in ("settings", "results"):
        for key, (a, b) in difference.get(part, {}).items():
            table.add_row(key, *(_measured(v) for v in (a, b)))
    console.print(table if table.row_count else "No setting and no result differs.")
    causes = difference["causes"]
    console.print(f"\nRemoved by both: {causes['both']}; only by the first: {len(causes['only_one'])}; "
                  f"only by the second: {len(causes['only_other'])}")  # fmt: skip


def _measured(value: Any) -> str:
    if isinstance(value, dict) and "after" in value:
        return f"{share_of(value['before'])} → {share_of(value['after'])}"
    return "-" if value is None else _short(value)


def show_check(checked: Mapping[str, Any]) -> None:
    console = console_of()
    for key in ("model", "likelihood", "device"):
        console.print(f"{key:<12} {checked[key]}")
    console.print(f"{'parameters':<12} {checked['parameters']:,}, of which {checked['trainable']:,} are trainable")
    table = table_of("", "set", "examples", "inputs", "targets")
    for name, row in checked["sets"].items():
        table.add_row(name, f"{row['n']:,}", row["inputs"], row["targets"])
    console.print(table, "")
    if checked["classes"]:
        console.print(
            f"{'classes':<12} {', '.join(checked['classes'][:12])}{', …' if len(checked['classes']) > 12 else ''}"
        )
    groups = ", ".join(f"{k} ({v})" for k, v in list(checked["groups"].items())[:8])
    console.print(f"{'failures':<12} {groups}")
    for name, row in checked["right"].items():
        console.print(f"{'right':<12} {row['right']:.1%} of {name}, {row['n']:,} of {row['of']:,} looked at")
    batch, memory = checked["batch"], checked["memory"]
    console.print(f"{'one batch':<12} {batch['n']} examples forward in {batch['forward_s']:.3g} s, "
                  f"forward and backward in {batch['backward_s']:.3g} s")  # fmt: skip
    console.print(f"{'memory':<12} {memory['data_mb']:.0f} MB of data, {memory['peak_mb']:.0f} MB in total so far")
    console.print(f"{'a repair':<12} about {checked['estimate']}, a rough guess")
    for line in checked["notes"]:
        console.print(f"{'note':<12} {line}")
    console.print("Nothing was written.")
