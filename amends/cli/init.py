"""`amends init`: a first config."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import config_argument, print_json


@click.command(short_help="Write a commented amends.toml.")
@config_argument
@click.option(
    "--from", "source", type=click.Path(path_type=Path),
    help="Fill it in from a Hugging Face directory, a folder of images, a CSV, a parquet or a JSON lines file.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout.")
def init(config: Path, source: Path | None, as_json: bool) -> None:
    """Write CONFIG with every key and its meaning; a file that exists is left alone."""
    from amends.config.first import write_first

    tables = write_first(config, source)
    if as_json:
        print_json({"config": str(config), "found": tables})
        return
    filled = ", ".join(f"[{table}] {', '.join(keys)}" for table, keys in tables.items())
    click.echo(f"Written to {config}. {f'Filled in: {filled}.' if filled else 'Nothing is filled in yet.'}")
    if tables.get("data", {}).get("format") in ("csv", "parquet") and "label" not in tables["data"]:
        click.echo(f"Which column of {source} holds the labels was not clear: name it with label in [data].")
    missing = " and ".join(f"[{table}]" for table in ("model", "train", "evaluation") if table not in tables)
    click.echo(f"Next: fill in {missing}, then run: amends check {config}")
