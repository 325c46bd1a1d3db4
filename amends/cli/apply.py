"""`amends apply`: weights with a patch on them."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, patches_argument, print_json, target_option, weights_argument


@click.command(short_help="Put a patch on the weights it was made for.")
@patches_argument
@weights_argument
@target_option
@json_option
def apply(patches: tuple[Path, ...], weights: Path, out: Path, as_json: bool) -> None:
    """Write WEIGHTS with PATCH on them to OUT, and leave WEIGHTS as they are. Several patches are put on in the order
    given.

    WEIGHTS is a safetensors file, a torch state dict or checkpoint, or the folder of a Hugging Face model or adapter.
    Weights that a patch was not made for are refused, with the names of the layers that differ.
    """
    from amends.patches.files import rewritten
    from amends.patches.patch import Patch
    from amends.patches.stack import with_all

    opened = [Patch.read(path) for path in patches]
    moved = rewritten(weights, out, lambda state: with_all(state, opened, f"weights {weights}"))
    if as_json:
        print_json({"path": str(out), "changed": sorted(moved)})
        return
    click.echo(out)
