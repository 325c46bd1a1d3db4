"""`amends merge`: the shards of a search become one."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import out_option, output_options, trust_option


@click.command(short_help="Make one search of its shards.")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@out_option("Run folder; runs/identify-1 or the next free number when left out.")
@trust_option
@output_options
def merge(runs: tuple[Path, ...], out: Path | None, trust: bool, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Make one run folder of RUNS, the folders of amends identify --shard 0/4, 1/4, 2/4 and 3/4.

    It is the folder that one amends identify would have written, score for score. Go on with
    amends treat, or amends repair -o.
    """
    from amends.runs.claim import claimed

    with claimed(out, "identify") as out:
        from amends.cli.identify import show_search
        from amends.cli.loading import load_job
        from amends.workflow.merge import merge_into, shards_in

        opened = shards_in(runs)
        job = load_job(opened[0].trusting(trust).config, {}, verbose, trust)
        run, warnings = merge_into(opened, job, out, not quiet)
    show_search(run, job, out, warnings, as_json)
