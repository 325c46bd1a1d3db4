"""`amends identify`: which training examples stand behind the failures."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import (
    SEARCHING,
    config_argument,
    from_keys,
    options_of,
    out_option,
    print_json,
    told,
    trust_option,
)


@click.command(short_help="Find the training examples behind the failures.")
@config_argument
@out_option("Run folder; runs/identify-1 or the next free number when left out.")
@from_keys(*SEARCHING)
@trust_option
@told
def identify(config: Path, out: Path | None, trust: bool, as_json: bool, quiet: bool, verbose: bool, **options) -> None:
    """Score every training example by how much it stands against the failures, and write a run folder.

    CONFIG is an amends.toml. The failures that will judge a repair are not read. Look through
    causes.csv or report.html, write remove or keep into the column decision, and go on with
    amends treat RUN --approved, or amends treat RUN --top 300.
    """
    from amends.runs.claim import claimed

    with claimed(out, "identify") as out:
        from amends.cli.loading import load_job
        from amends.cli.show import harmful, show_identified
        from amends.workflow.verbs import identify_into

        job = load_job(config, options_of(options), verbose, trust)
        run, warnings = identify_into(job, out, not quiet)
    frame = run.causes()
    if as_json:
        first = frame.head(20).to_dict("records")
        print_json({"run": str(out), "train": len(job.given["train"]), "failures": len(job.given["failures"]),
                    "harmful": harmful(frame), "identified_with": run.heard, "warnings": warnings,
                    "causes": first})  # fmt: skip
    else:
        show_identified(frame, out, warnings)
