"""Loads the job of a config on the command line, and notes on stderr what was loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from amends.cli.options import note
from amends.config import Config, read_config
from amends.distributed.group import spread
from amends.runs.trust import ask_for_trust_in
from amends.workflow.job import Job, open_job


def load_job(config: Path | Config, options: dict[str, Any], verbose: bool, trust: bool = False) -> Job:
    if isinstance(config, Path) and not trust:
        ask_for_trust_in(config)
    read = (read_config(config) if isinstance(config, Path) else config).with_options(**options)
    if read.repair("spread"):
        click.get_current_context().with_resource(spread())  # until the command ends
    job = replace(open_job(read), trusted=trust)
    for line in job.notes:
        note(f"note: {line}")
    if verbose:
        parameters = sum(p.numel() for p in job.loaded.model.parameters() if p.requires_grad)
        note(f"model: {type(job.loaded.model).__name__}, {parameters:,} parameters that may change")
        for name, data in job.records.items():
            note(f"{name}: {len(data):,} examples from {data.where}")
    return job
