"""`amends treat`: forget what was identified, as much of it as one wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amends.cli.options import (
    HOW_MANY,
    TREATING,
    from_keys,
    note,
    numbers_in,
    one_way,
    options_of,
    out_option,
    output_options,
    run_argument,
    trust_option,
)


@click.command(short_help="Forget causes that were identified, and judge the result.")
@run_argument
@out_option("Write a new run folder and leave RUN as it is.")
@from_keys(*HOW_MANY)
@click.option("--approved", is_flag=True, help="Remove and relabel what causes.csv says.")
@click.option("--ids", type=click.Path(path_type=Path), help="Remove these: a CSV with a column id or index.")
@click.option("--leave-out", help="Failures whose own label is wrong, by index and with commas: they leave the query.")
@from_keys("solver", "spread", *TREATING)
@trust_option
@output_options
def treat(
    run: Path,
    out: Path | None,
    approved: bool,
    ids: Path | None,
    leave_out: str | None,
    trust: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options,
) -> int:
    """Go on from RUN, a folder of amends identify or of a repair that was stopped: forget some of its causes and
    judge the result.

    With none of --top, --fraction, --approved and --ids a curve decides how many. Decisions in
    causes.csv stay as they are.
    """
    from amends.errors import BadInput, many
    from amends.runs.claim import claimed
    from amends.runs.run import Run

    options = options_of(options)
    one_way(options, approved=approved, ids=ids)
    with Run.writing(run) if out is None else claimed(out, "treat"):
        opened = Run.sound(run).trusting(trust)
        if out is None and opened.done:
            raise BadInput(f"the run is finished; {run}; name a new folder with -o to treat again from its scores")
        from amends.cli.loading import load_job
        from amends.cli.show import finish
        from amends.data.failures import positions
        from amends.workflow import verbs

        picked: Any = verbs.approved(opened) if approved else None
        if not approved and (ignored := verbs.decisions_in(opened)):
            are = many(ignored, "decision is", "decisions are")
            note(f"note: {are} written in causes.csv and not followed; give --approved to follow them")
        job = load_job(opened.config, options, verbose, trust)
        if ids is not None:
            picked = positions(job.records["train"], ids, called=job.config.set("train").get("id"))
        result = verbs.treat_into(opened, job, picked, out, not quiet, numbers_in(leave_out, "--leave-out"))
    return finish(result.metrics, result.causes, out or run, as_json, job.config)
