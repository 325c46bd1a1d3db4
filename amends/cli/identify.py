"""`amends identify`: the training examples that cause the failures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from amends.cli.options import (
    SEARCHING,
    config_argument,
    from_keys,
    options_of,
    out_option,
    output_options,
    print_json,
    trust_option,
)

if TYPE_CHECKING:
    from amends.runs.run import Run
    from amends.workflow.job import Job


@click.command(short_help="Find the training examples behind the failures.")
@config_argument
@out_option("Run folder; runs/identify-1 or the next free number when left out.")
@from_keys(*SEARCHING)
@click.option("--shard", help="Score the part i/n of train alone, 0/4 for the first of four; go on with amends merge.")
@trust_option
@output_options
def identify(
    config: Path,
    out: Path | None,
    shard: str | None,
    trust: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options,
) -> None:
    """Score every training example by how much it conflicts with the failures, and write a run folder.

    CONFIG is an amends.toml. The failures that will judge a repair are not read. Look through
    causes.csv or report.html, write remove or keep into the column decision, and go on with
    amends treat RUN --approved, or amends treat RUN --top 300.
    """
    from amends.runs.claim import claimed

    with claimed(out, "identify") as out:
        from amends.cli.loading import load_job
        from amends.workflow.merge import identify_shard, shard_named
        from amends.workflow.verbs import identify_into

        named = None if shard is None else shard_named(shard)
        job = load_job(config, options_of(options), verbose, trust)
        if named is not None:
            start, stop = identify_shard(job, out, named, not quiet)
            print_json({"run": str(out), "shard": shard, "from": start, "to": stop}) if as_json else click.echo(
                f"shard {shard}, train[{start}:{stop}]; {out}; go on with amends merge and the folders of all shards"
            )
            return
        run, warnings = identify_into(job, out, not quiet)
    show_search(run, job, out, warnings, as_json)


def show_search(run: Run, job: Job, out: Path, warnings: list[str], as_json: bool) -> None:
    from amends.cli.show import show_identified
    from amends.evaluation.words import conflicting

    frame = run.causes()
    many = conflicting(len(frame), frame["score"].tolist(), run.members)
    if as_json:
        first = frame.head(20).to_dict("records")
        print_json({"run": str(out), "train": len(job.given["train"]), "failures": len(job.given["failures"]),
                    "harmful": many, "identified_with": run.members, "warnings": warnings,
                    "causes": first})  # fmt: skip
    else:
        show_identified(frame, many, out, warnings)
