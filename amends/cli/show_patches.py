"""What a patch moves, and its verdict, as tables on stdout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.cli.show import console_of, share_of, table_of
from amends.evaluation.words import over

MOST = 20  # rows of a table


def show_patch(description: Mapping[str, Any], out: Path) -> None:
    """The size of a patch, what it moves, and the verdict with it."""
    console, judged = console_of(), description["judged"]
    table = table_of("The layers it moves", "layer", "as", "weights", "bytes", "changed", "how far")
    for row in description["layers"][:MOST]:
        kind = row["kind"] if row["rank"] is None else f"rank {row['rank']}"
        cells = (f"{row['weights']:,}", f"{row['bytes']:,}", f"{row['changed']:.0%}", f"{row['moved']:.1%}")
        table.add_row(row["name"], kind, *cells)
    console.print(table)
    left = len(description["layers"]) - MOST
    if left > 0:
        console.print(f"and {left} more")
    if "why" in description:
        console.print(f"It is exact: {description['why']}.")
    test = f" (p = {judged['p_value']:.2g} against the stronger control)" if "p_value" in judged else ""
    console.print(f"{judged['verdict'].capitalize()}, with the patch as it is stored{test}:")
    for name in ("holdout", "remaining", "overall"):
        row = judged.get(name)
        if row and row["n"]:
            console.print(f"  {name:<10} {row['before']:.3f} → {row['after']:.3f}, {over(name, row['n'])}")
    for row in description["beside"]:
        why = "" if row["holds"] else f": {row.get('why', 'it fixes less')}"
        console.print(f"{'Holds' if row['holds'] else 'Does not hold'} beside {row['path']}{why}")
    share = "" if description["share"] is None else f", {description['share']:.1%} of the weights"
    console.print(f"{out}: {description['bytes']:,} bytes{share}")


def show_judged(measured: Mapping[str, Any]) -> None:
    """Accuracy and each class; before and after if there is a patch."""
    console = console_of()
    if "before" not in measured:
        console.print(f"accuracy {_with(measured['accuracy'], measured['interval'])}, {_number(measured)}")
    else:
        was, now = (
            _with(measured["before"], measured["interval_before"]),
            _with(measured["accuracy"], measured["interval"]),
        )
        console.print(f"accuracy {was} → {now}, {_number(measured)}")
        low, high = measured["interval_change"]
        console.print(f"change   {measured['change']:+.3f} [{low:+.3f}, {high:+.3f}], p = {measured['p_value']:.2g}")
        console.print(f"fixed    {measured['fixed']}")
        console.print(f"broken   {measured['broken']}")
    rows = sorted(measured["classes"].items(), key=lambda row: row[1]["after"])
    if rows and "before" in measured:
        table = table_of("By class, the lowest first", "class", "examples", "before", "after", "fixed", "broken")
        for name, row in rows[:MOST]:
            cells = (share_of(row["before"]), share_of(row["after"]), str(row["fixed"]), str(row["broken"]))
            table.add_row(name, str(row["n"]), *cells)
    elif rows:
        table = table_of("By class, the lowest first", "class", "examples", "accuracy")
        for name, row in rows[:MOST]:
            table.add_row(name, str(row["n"]), share_of(row["after"]))
    else:
        return
    console.print("", table)


def _number(measured: Mapping[str, Any]) -> str:
    copies = measured["n"] - measured["witnesses"]
    return f"{measured['n']:,} examples" + (f", of which {copies:,} are copies and count once" if copies else "")


def _with(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
