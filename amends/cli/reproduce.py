"""`amends reproduce`: the experiments of the paper, in a checkout of the source."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import amends
from amends.cli.options import json_option, print_json
from amends.errors import BadInput

ROOT = Path(amends.__file__).parent.parent
ON = ("mnist", "cifar10", "digits")


@click.command(short_help="Run an experiment of the paper, in a checkout of the source.")
@click.argument("item", required=False)
@click.option("--list", "listed", is_flag=True, help="Say which experiments there are.")
@click.option(
    "--data", type=click.Path(file_okay=False), help="Folder with mnist.npz, or the files cifar10_*.npz of CIFAR-10."
)
@click.option(
    "--on", type=click.Choice(ON), default="mnist", show_default=True,
    help="The data; digits needs no folder and takes seconds.",
)  # fmt: skip
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("reproduced"), show_default=True,
    help="Folder of tables and figures; what is in it already is not made again.",
)  # fmt: skip
@click.option("--seeds", default="0", show_default=True, help="Seeds, such as 0,1,2.")
@click.option("--method", multiple=True, help="A row to make, or all; may be given several times.")
@click.option("--remove", type=click.IntRange(min=1), multiple=True,
              help="How many causes to remove; may be given several times.")  # fmt: skip
@click.option("--patience", type=click.IntRange(min=1), default=120, show_default=True,
              help="Seconds a method may take with a network of CIFAR-10 before it is given up.")  # fmt: skip
@json_option
def reproduce(item: str | None, listed: bool, seeds: str, as_json: bool, **given: Any) -> None:
    """Run the experiment ITEM of the paper. Its numbers go to CSV files, one a seed, its figures are made from them.

    A run that was stopped goes on where it was. Only a checkout of the source has the experiments.
    """
    known = import_module("experiments").ITEMS if _checkout() else {}
    if listed:
        _show(known, as_json)
        return
    if item is None:
        raise click.UsageError("which experiment? name one; amends reproduce --list says which there are")
    from experiments.running import plan_of, reproduce as run  # noqa: I001

    try:
        numbers = tuple(int(seed) for seed in seeds.split(","))
    except ValueError as error:
        raise BadInput(f"--seeds is {seeds!r}; reproduce; give whole numbers with commas between them") from error
    given["methods"], given["sizes"] = given.pop("method"), given.pop("remove")
    plan = plan_of(item, seeds=numbers, **given)
    figures = [str(path) for path in run(plan)]
    tables = [str(plan.folder / f"seed_{seed}.csv") for seed in numbers]
    if as_json:
        print_json({"item": item, "on": plan.on, "tables": tables, "figures": figures})
    else:
        click.echo("\n".join([*tables, *figures]))


def _checkout() -> bool:
    """The experiments can be imported; BadInput where there are none."""
    if not (ROOT / "experiments" / "__init__.py").is_file():
        raise BadInput(
            "the experiments are not part of the installed package; reproduce; run it in a checkout of the source"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return True


def _show(known: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json(known)
    else:
        wide = max(map(len, known))
        click.echo("\n".join(f"{name:{wide}}  {description}" for name, description in known.items()))
