"""`amends check`: load everything, compute one batch, write nothing."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import config_argument, from_keys, options_of, output_options, print_json, trust_option


@click.command(short_help="Load model and data, try one batch, write nothing.")
@config_argument
@from_keys(
    "method",
    "solver",
    "treat",
    "group_by",
    "anyway",
    "unsafe_pickle",
    "on_error",
    "budget",
    "seed",
    "device",
    "batch_size",
)
@trust_option
@output_options
def check(config: Path, trust: bool, as_json: bool, quiet: bool, verbose: bool, **options) -> None:
    """Load what CONFIG names, run one batch forward and backward, and say what a repair would work on:
    shapes, classes, device, memory, and roughly how long it would take."""
    from amends.cli.loading import load_job
    from amends.cli.show import show_check
    from amends.workflow.check import checked

    facts = checked(load_job(config, options_of(options), verbose, trust))
    if as_json:
        print_json(facts)
    else:
        show_check(facts)
