"""`amends runs`: the run folders there are, and how two of them differ."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, note, print_json, run_argument


@click.group(short_help="List, show, compare and remove run folders.")
def runs() -> None:
    """List, show, compare and remove run folders."""


@runs.command(name="ls")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@json_option
def ls(folder: Path, as_json: bool) -> None:
    """List the runs in FOLDER, oldest first. FOLDER is runs/ when left out."""
    from amends.cli.show import show_runs
    from amends.errors import BadInput
    from amends.runs.run import runs_in

    if not folder.is_dir():
        raise BadInput(f"no such folder; {folder}; name the folder that holds your runs")
    readable, unreadable = runs_in(folder)
    for line in unreadable:
        note(f"warning: {line}")
    rows = [r.summary() for r in readable]
    if as_json:
        print_json(rows)
    else:
        show_runs(rows)


@runs.command()
@run_argument
@json_option
def show(run: Path, as_json: bool) -> None:
    """Show what RUN found and how it was made."""
    from amends.cli.show import show_identified, show_settings, show_verdict
    from amends.evaluation.words import conflicting
    from amends.runs.run import DONE, Run

    opened = Run.sound(run)
    if as_json:
        print_json({**opened.about, "metrics": opened.metrics if opened.state == DONE else None})
        return
    show_settings(opened.about)
    if opened.state == DONE:
        show_verdict(opened.metrics)
    else:
        causes = opened.causes()
        show_identified(causes, conflicting(len(causes), causes["score"].tolist(), opened.members), run)


@runs.command()
@click.argument("one", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path))
@json_option
def diff(one: Path, other: Path, as_json: bool) -> None:
    """Show how two runs differ: in their settings, in their results, and in the causes they removed."""
    from amends.cli.show import show_diff
    from amends.runs.compare import difference
    from amends.runs.run import Run

    differs = difference(Run.sound(one), Run.sound(other))
    if as_json:
        print_json(differs)
    else:
        show_diff(differs, one, other)


def _agreed(run: Path) -> bool:
    from amends.errors import BadInput

    try:
        return click.confirm(f"Remove {run} for good?", err=True)
    except click.Abort as e:
        if isinstance(e.__context__, EOFError):  # there is nobody to ask
            raise BadInput(f"nobody answers; {run}; give --yes to remove it") from None
        raise


@runs.command()
@run_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(run: Path, yes: bool) -> None:
    """Remove RUN for good. A folder that holds anything amends did not write is left alone."""
    from amends.runs.run import Run, remove

    Run.open(run, shards=True)
    if not yes and not _agreed(run):
        click.echo(f"Left {run} as it is.")
        return
    remove(run)
    click.echo(f"Removed {run}.")
