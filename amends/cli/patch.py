"""`amends patch`: a repair as a small file beside the model."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, note, print_json, quiet_option, run_argument, target_option, trust_option


@click.command(short_help="Write a repair as a small file beside the model.")
@run_argument
@target_option
@click.option("--exact", is_flag=True, help="To the repaired weights to the bit, whatever that takes.")
@click.option(
    "--weights", type=click.Path(path_type=Path),
    help="The weights RUN began with, for a run that was made in Python; the patch is exact then.",
)  # fmt: skip
@click.option(
    "--beside", type=click.Path(path_type=Path), multiple=True,
    help="A patch directly below this one, or one for the same weights: judge whether this one holds without it, or "
    "with it below, and say so in the patch. May be given several times.",
)  # fmt: skip
@trust_option
@json_option
@quiet_option
def patch(
    run: Path, out: Path, exact: bool, weights: Path | None, beside: tuple[Path, ...], trust: bool, as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Write what the repair in RUN changed to OUT, a safetensors file that amends apply puts on the weights RUN began
    with, and amends revert takes off again to the bit.

    It is as small as it can be while the verdict stands. How small is chosen by the failures that were searched with
    and the right examples that guarded the repair; then the verdict is made again, on what judged, with the patch as
    it is stored.
    """
    from amends.cli.show_patches import show_patch
    from amends.errors import BadInput, DiskError, Locked
    from amends.runs.disk import occupied
    from amends.runs.run import Run

    opened = Run.sound(run).trusting(trust)
    if occupied(out) or out.exists():
        raise BadInput(f"the target exists; {out}; choose another with -o, or remove it first")
    from amends.patches.patch import Patch
    from amends.patches.show import described
    from amends.workflow.patching import patch_of_run, show_in_run

    result, reports = patch_of_run(opened, exact, weights, [Patch.read(path) for path in beside], not quiet)
    result.save(out)
    description = described(result) | {
        "beside": [{"path": str(p), **row} for p, row in zip(beside, reports, strict=True)]
    }
    description = {"path": str(out), **description}
    try:
        show_in_run(opened, description)
    except (DiskError, Locked) as e:
        note(f"note: the report of the run does not show the patch ({e})")
    if as_json:
        print_json(description)
    else:
        show_patch(description, out)
