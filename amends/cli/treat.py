"""`amends treat`: forget what was identified, as much of it as one wants."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import HOW_MANY, TREATING, from_keys, one_way, options_of, out_option, run_argument, told


@click.command(short_help="Forget causes that were identified, and judge the result.")
@run_argument
@out_option("Write a new run folder and leave RUN as it is.")
@from_keys(*HOW_MANY)
@click.option("--approved", is_flag=True, help="Remove and relabel what causes.csv says.")
@click.option("--ids", type=click.Path(path_type=Path), help="Remove these: a CSV with a column id or index.")
@from_keys("solver", *TREATING)
@told
def treat(
    run: Path, out: Path | None, approved: bool, ids: Path | None, as_json: bool, quiet: bool, verbose: bool, **options
) -> int:
    """Go on from RUN, a folder of amends identify or of a repair that was stopped: forget some of its causes and
    judge the result.

    With none of --top, --fraction, --approved and --ids a curve decides how many. Decisions in
    causes.csv stay as they are.
    """
    from amends.cli.loading import load_job
    from amends.cli.show import finish
    from amends.data.failures import positions
    from amends.runs.run import Run
    from amends.workflow import verbs

    options = options_of(options)
    one_way(options, approved=approved, ids=ids)
    opened = Run.open(run)
    if out is not None:
        verbs.free(out)
    picked = verbs.approved(opened) if approved else None
    job = load_job(opened.config, options, verbose)
    if ids is not None:
        picked = positions(job.records["train"], ids)
    result = verbs.treat_into(opened, job, picked, out, not quiet)
    return finish(result.metrics, result.causes, out or run, as_json, job.config.repair("require"))
