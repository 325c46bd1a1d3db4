"""`amends report`: report.html, written again from a run folder."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, print_json, run_argument


@click.command(short_help="Write report.html again from a run folder.")
@run_argument
@json_option
def report(run: Path, as_json: bool) -> None:
    """Write report.html of RUN again, from the files in the folder. Nothing is computed."""
    from amends.report.page import report as page
    from amends.runs.manifest import add_to_run
    from amends.runs.run import Run

    with Run.writing(run, but=("report.html",)):
        text = page(run)

        def fill(target: Path) -> None:
            (target / "report.html").write_text(text, encoding="utf-8")

        add_to_run(run, fill)
    if as_json:
        print_json({"report": str(run / "report.html"), "bytes": len(text.encode())})
    else:
        click.echo(run / "report.html")
