"""`amends repair`: the whole of it, from a config to a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amends.cli.options import (
    HOW_MANY,
    SEARCHING,
    TREATING,
    config_argument,
    from_keys,
    one_way,
    options_of,
    out_option,
    output_options,
    trust_option,
)
from amends.errors import BadInput


@click.command(short_help="Find the causes, forget them, and judge the result.")
@config_argument
@out_option("Run folder; runs/repair-1 or the next free number when left out.")
@from_keys(*HOW_MANY, *SEARCHING, *TREATING)
@click.option("--approved", is_flag=True, help="Go on from the search in -o and remove what its causes.csv says.")
@click.option("--ids", type=click.Path(path_type=Path), help="Remove these: a CSV with a column id or index.")
@trust_option
@output_options
def repair(
    config: Path,
    out: Path | None,
    approved: bool,
    ids: Path | None,
    trust: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options,
) -> int:
    """Repair the model that CONFIG, an amends.toml, names.

    Every choice is made for you unless an option or the config makes it. The run folder holds the
    causes, the repaired weights, the cleaned data, metrics.json and report.html. A repair that was
    stopped goes on where it was when it is started again with the same config and -o. Exit code 1
    says that it is done but a --require was not met.
    """
    from amends.runs.claim import claimed

    options = options_of(options)
    one_way(options, approved=approved, ids=ids)
    if approved and out is None:
        raise click.UsageError("--approved goes on from a search; name its folder with -o")
    if approved and out is not None and not out.exists():
        raise BadInput(f"no such run folder; {out}; make one with amends identify, and write decisions into it")
    with claimed(out, "repair", going_on=True) as out:
        from amends.cli.loading import load_job
        from amends.cli.show import finish
        from amends.data.failures import positions
        from amends.runs.run import Run
        from amends.workflow.verbs import approved as decided
        from amends.workflow.verbs import repair_into

        picked: Any = decided(Run.open(out)) if approved else None
        job = load_job(config, options, verbose, trust)
        if ids is not None:
            picked = positions(job.records["train"], ids, called=job.config.set("train").get("id"))
        result = repair_into(job, out, not quiet, picked)
    return finish(result.metrics, result.causes, out, as_json, job.config)
