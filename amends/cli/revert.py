"""`amends revert`: weights as they were before a patch."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, print_json, target_option, weights_argument


@click.command(short_help="Take a patch off weights it was put on.")
@click.argument("patch", type=click.Path(path_type=Path))
@weights_argument
@target_option
@click.option(
    "--later", type=click.Path(path_type=Path), multiple=True,
    help="A patch that was put on after this one and stays; may be given several times, in their order.",
)  # fmt: skip
@json_option
def revert(patch: Path, weights: Path, out: Path, later: tuple[Path, ...], as_json: bool) -> None:
    """Write WEIGHTS as they were before PATCH to OUT, to the bit, and leave WEIGHTS as they are.

    Where other patches were put on after it, take them off first, the last one first; or name them with --later, and
    they stay if they say that they do not depend on PATCH.
    """
    from amends.patches.files import rewritten
    from amends.patches.patch import Patch
    from amends.patches.stack import without

    opened, above = Patch.read(patch), [Patch.read(path) for path in later]
    moved = rewritten(weights, out, lambda state: without(state, opened, above, f"weights {weights}"))
    if as_json:
        print_json({"path": str(out), "changed": sorted(moved)})
        return
    click.echo(out)
