"""What to do next with a run: shown at the end of a report and of a command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from amends.report.markup import Html, count, join, tag


class Next(NamedTuple):
    """One thing to do, and the command line for it, if there is one."""

    words: str
    line: str = ""


def next_steps(metrics: Mapping[str, Any], about: Mapping[str, Any], folder: str) -> list[Next]:
    """After a search (`metrics` are empty), after a repair, or after a refusal; `about` is run.toml."""
    name, config = shlex.quote(folder), about.get("config")
    if not metrics:
        return _after_search(name)
    return _after_repair(metrics, config, folder, name) if metrics["removed"] else _after_refusal(config, folder, name)


def _after_search(name: str) -> list[Next]:
    return [
        Next("See how many to remove, next to both controls.", f"amends curve {name}"),
        Next("Let the curve decide, and judge the result.", f"amends treat {name}"),
        Next(
            "Or decide yourself: write remove, keep or relabel into the column decision of causes.csv.",
            f"amends treat {name} --approved",
        ),
    ]


def _after_repair(metrics: Mapping[str, Any], config: Any, folder: str, name: str) -> list[Next]:
    changed = metrics.get("relabelled", 0)
    moved = f"; dataset/relabelled.csv has the new labels of {count(changed)}" if changed else ""
    gone = f"dataset/removed.csv lists what was forgotten{moved}; dataset/kept.csv lists the rest."
    export = f"amends export {name} --to csv" if config else ""
    file = shlex.quote(f"{PurePath(folder).name}.safetensors")
    ship = [Next("Or ship it as a small file next to the model, which can be taken off again to the bit.",
                 f"amends patch {name} -o {file}")]  # fmt: skip
    return [
        _load(config, folder),
        *(ship if config else []),
        Next(f"Drop the same examples from your training data: {gone}", export),
        Next("Train the next model on what is kept: on the same data it would learn the same failures again."),
    ]


def _load(config: Any, folder: str) -> Next:
    model = (config or {}).get("model", {})
    if "huggingface" in model or "adapter" in model:
        what = "adapter" if "adapter" in model else "model"
        return Next(f"Use the repaired {what}: load the directory repaired/ where you load yours now.")
    path = f"{folder}/repaired/model.safetensors"
    return Next("Use the repaired weights, in Python:", f"safetensors.torch.load_model(model, {path!r})")


def _after_refusal(config: Any, folder: str, name: str) -> list[Next]:
    look = Next(
        "Look at causes.csv, most harmful first, and write remove, keep or relabel into the column decision; the model "
        "in repaired/ is yours, unchanged."
    )
    if config:
        return [look, Next("Try your decisions, judged in the same way.",
                           f"amends treat {name} --approved -o {shlex.quote(f'{folder}-approved')}")]  # fmt: skip
    table = f"pandas.read_csv({f'{folder}/causes.csv'!r})"
    line = f"amends.repair(model, train, failures, remaining, remove={table})"
    return [look, Next("Try your decisions, judged in the same way, in Python:", line)]


def listed(steps: list[Next]) -> Html:
    items = [
        tag("li", step.words, tag("pre", tag("code", step.line)) if step.line else None) for step in steps if step.words
    ]
    return join([tag("ol", *items, class_="next")])
