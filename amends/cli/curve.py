"""`amends curve`: how many to remove."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import output_options, print_json, run_argument, trust_option


@click.command(short_help="Show how many to remove, next to both controls.")
@run_argument
@trust_option
@output_options
def curve(run: Path, trust: bool, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Treat with more and more of RUN's causes gone, with nothing gone, and with as many gone at random.

    Kept in curve.csv; a second call prints what is there.
    """
    from amends.runs.run import Run

    rows = Run.sound(run).curve
    if not rows:
        with Run.writing(run) as opened:
            from amends.cli.loading import load_job
            from amends.workflow.verbs import curve_of

            rows = curve_of(opened, load_job(opened.trusting(trust).config, {}, verbose, trust), not quiet)
    from amends.cli.show import show_curve

    if as_json:
        print_json({"run": str(run), "curve": rows})
    else:
        show_curve(rows)
