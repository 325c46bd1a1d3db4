"""`amends verify`: is every file of a run as it was written?"""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, note, print_json, run_argument


@click.command(short_help="Check every file of a run folder against its manifest.")
@run_argument
@json_option
def verify(run: Path, as_json: bool) -> None:
    """Check every file of RUN against manifest.sha256, which was written last. Exit code 3 says that a file is damaged
    or missing. Your decisions in causes.csv are yours to change, so that file is only read through."""
    from amends.errors import RunMismatch
    from amends.runs import manifest
    from amends.runs.run import SHARD, Run

    opened = Run.open(run, shards=True)
    damaged = list(opened.damage())
    if not damaged and opened.state != SHARD:
        opened.causes()
    if as_json:
        print_json({"run": str(run), "files": len(manifest.read(run)), "damaged": damaged,
                    "others": manifest.strangers(run)})  # fmt: skip
    for line in damaged[:-1]:
        note(f"error: {line}")
    if damaged:
        raise RunMismatch(damaged[-1])
    if not as_json:
        click.echo(f"{run}: {len(manifest.read(run))} files are as they were written.")
        for name in manifest.strangers(run):
            click.echo(f"  {name} was not written by amends")
