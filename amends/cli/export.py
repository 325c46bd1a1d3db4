"""`amends export`: a run, for another tool."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import json_option, note, print_json, run_argument, trust_option

KINDS = {
    "csv": ("to_csv", "cleaned data: your columns, one row per kept example"),
    "huggingface": ("to_huggingface", "cleaned data: a dataset directory"),
    "images": ("to_images", "cleaned data: a folder of images, one folder per class"),
    "label-studio": ("to_label_studio", "decisions: a task file with suggested labels"),
    "fiftyone": ("to_fiftyone", "decisions: samples to load as a FiftyOneDataset; images"),
    "cleanlab": ("to_cleanlab", "decisions: a CSV of label issues, as from Datalab"),
    "lora": ("to_lora", "the repair: a LoRA adapter that peft loads; Hugging Face models"),
    "mlflow": ("to_mlflow", "results: a run in an MLflow store"),
    "wandb": ("to_wandb", "results: an offline run for Weights & Biases"),
    "tensorboard": ("to_tensorboard", "results: event files"),
}
SHOWN = ("label-studio", "fiftyone")


@click.command(
    short_help="Hand cleaned data, decisions or results to another tool.",
    epilog="\b\nKinds:\n" + "\n".join(f"  {name:<13} {description}" for name, (_, description) in KINDS.items()),
)
@run_argument
@click.option("--to", "kind", required=True, metavar="KIND", help=f"One of {', '.join(KINDS)}.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path),
    help="Where to write. When left out, beside the run and named after it, such as runs/digits-cleaned.csv; for "
    "mlflow, ./mlruns. Nothing is overwritten; an MLflow store gets another run.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), help="label-studio, fiftyone: only so many, the most harmful.")
@click.option("--rank", type=click.IntRange(min=1), help="lora: of the adapter; 8 when left out.")
@click.option("--tracking-uri", help="mlflow: log to this server instead of a folder.")
@click.option("--online", is_flag=True, help="wandb: send the run, with your own login.")
@trust_option
@json_option
def export(run: Path, kind: str, out: Path | None, trust: bool, as_json: bool, **given) -> None:
    """Write what RUN found for another tool. RUN stays as it is, and nothing is sent anywhere unless
    --tracking-uri or --online says so."""
    from amends.errors import BadInput, nearest

    if kind not in KINDS:
        raise BadInput(f"no kind {kind!r}; --to; {nearest(kind, KINDS)}")
    allowed = {"top": SHOWN, "rank": ("lora",), "tracking_uri": ("mlflow",), "online": ("wandb",)}
    options = {name: value for name, value in given.items() if value not in (None, False)}
    for name in options:
        if kind not in allowed[name]:
            raise BadInput(f"--{name.replace('_', '-')} goes with {' and '.join(allowed[name])}; --to {kind}; drop it")
    from amends import export as room
    from amends.runs.run import Run

    opened = Run.sound(run).trusting(trust)
    done = getattr(room, KINDS[kind][0])(opened, out, **options)
    if as_json:
        print_json({"to": done.to, "path": str(done.path), "n": done.n})
        return
    click.echo(done.path)
    if done.then:
        note(done.then)
