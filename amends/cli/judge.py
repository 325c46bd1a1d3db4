"""`amends judge`: a model on the user's own data, before and after a patch."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, note, print_json, trust_option


@click.command(short_help="Judge a model on your data, before and after a patch.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--patch", "patches", type=click.Path(path_type=Path), multiple=True,
    help="Judge before and after this patch; may be given several times, in the order they are put on.",
)  # fmt: skip
@click.option(
    "--config", type=click.Path(path_type=Path), default=Path("amends.toml"),
    help="The config that says how the model is built and how data is read; amends.toml when left out.",
)  # fmt: skip
@click.option(
    "--require",
    help='What must hold, such as "accuracy>=0.9,change>=0,broken<=5"; exit code 1 otherwise. Known are accuracy, '
    "change, fixed, broken, and lowest, the accuracy of the class that has least.",
)  # fmt: skip
@trust_option
@json_option
def judge(
    model: Path, data: Path, patches: tuple[Path, ...], config: Path, require: str | None, trust: bool, as_json: bool
) -> int:
    """Judge MODEL on DATA, labelled examples: accuracy with its 95 % interval, and each class; with --patch before and
    after, what is fixed and what is broken.

    MODEL is a file of weights, for the model that the config builds; the folder of a Hugging Face model; a config; or
    a run folder, whose model is judged before and after its repair. DATA is read as [evaluation] of the config says.
    Weights that have the patch on them already are judged as they would be without it, and as they are.
    """
    from amends.errors import BadInput
    from amends.runs.trust import ask_for_trust_in

    for path in (model, model / "run.toml", config):
        if path.suffix == ".toml" and path.is_file() and not trust:
            ask_for_trust_in(path)
    from amends.cli.show_patches import show_judged
    from amends.patches.patch import Patch
    from amends.workflow.judging import ToJudge, judged, requirements, unmet

    if patches and (model / "run.toml").is_file():
        raise BadInput(f"a run is judged before and after its own repair; {model}; give weights with --patch")
    required = requirements(require, bool(patches) or (model / "run.toml").is_file()) if require else []
    opened = [Patch.read(path) for path in patches]
    measured = judged(ToJudge.of(model, config), data, opened)
    missed = unmet(required, measured)
    if as_json:
        print_json({**measured, "unmet": missed})
    else:
        show_judged(measured)
    for line in missed:
        note(f"not met: {line}")
    return 1 if missed else 0
