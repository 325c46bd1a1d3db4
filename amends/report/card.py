"""The model card that travels with the repaired weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.errors import many
from amends.evaluation.words import of
from amends.report.charts import chosen_by
from amends.report.outcome import sentence

PATCH, LAST = "## The patch", "## What this is not"


def _row(name: str, what: str, row: Mapping[str, Any]) -> str:
    return f"| {name}: {what} | {row['before']:.3f} | {row['after']:.3f} | {row['n']} |"


def card(metrics: Mapping[str, Any], *, version: str, rule: str) -> str:
    """Markdown: what failed, what was removed and by which rule, what got better and what got worse."""
    holdout, refused = metrics["holdout"], metrics["verdict"] == "not repaired"
    removed = (
        "Nothing: the weights beside this card are those that were given. causes.csv ranks all of the training "
        "examples; a person may decide."
        if refused
        else f"{many(metrics['removed'], 'training example')}, by this rule: {rule}."
    )
    lines = [
        "---", "tags:", "- amends", *([] if refused else ["- repaired"]), "---", "",
        "# A model that was not repaired" if refused else "# Model card of a repair", "",
        f"**{metrics['verdict'].capitalize()}.** {sentence(metrics['reason'])}", "",
        f"amends {version} searched for the training examples behind the model's failures, to make the model forget "
        "them. This card is about the repair alone; for the model's purpose, training and tests, see where it came "
        "from.", "",
        "## What failed", "",
        f"{many(metrics['query']['n'] + holdout['n'], 'example')}: {metrics['query']['n']:,} (query) for the search, "
        f"{holdout['n']:,} (holdout) only to judge the repair.",
        *_groups(metrics), "",
        "## What was removed", "",
        removed,
        *_learned(metrics), "",
        "## Before and after", "",
        "| accuracy | before | after | examples |", "|---|---|---|---|",
    ]  # fmt: skip
    for name in ("holdout", "remaining", "overall", "evaluation"):
        row = metrics[name]
        if row is not None and row["n"]:
            lines.append(_row(name, of(name, metrics["learned"]), row))
    lines += ["", f"Fixed: {metrics['fixed']}. Newly broken: {metrics['newly_broken']}."]
    if metrics.get("harmed"):
        lines.append(f"Accuracy fell on: {', '.join(map(str, metrics['harmed']))}.")
    lines += ["", "## Controls", "", "The same treatment without removing the causes:", ""]
    for name, row in metrics["controls"].items():
        if row.get("holdout") is not None:
            lines.append(f"- {chosen_by(name)}: accuracy {row['holdout']:.3f} on the holdout failures")
    for warning in metrics.get("warnings", ()):
        lines += ["", f"Warning: {sentence(warning)}"]
    lines += ["", LAST, "",
              "Forgetting examples this way repairs a model; it is not a privacy guarantee. The removed examples may "
              "still be recoverable from the weights."]  # fmt: skip
    return "\n".join(lines) + "\n"


def with_patch(text: str, description: Mapping[str, Any]) -> str:
    """The card with a section about the patch of the repair, in place of an earlier one."""
    share = "" if description["share"] is None else f", {description['share']:.1%} of the weights"
    rows = [f"| {r['name']} | {r['kind'] if r['rank'] is None else 'rank ' + str(r['rank'])} | {r['weights']:,} "
            f"| {r['changed']:.0%} | {r['moved']:.1%} |" for r in description["layers"]]  # fmt: skip
    lines = [
        PATCH, "",
        f"The repair as a small file beside the model: {Path(description['path']).name}, "
        f"{description['bytes']:,} bytes{share}. "
        f"With it as it is stored, the verdict is: {description['judged']['verdict']}.", "",
        "| layer | stored as | weights | changed | how far |", "|---|---|---|---|---|", *rows, "",
    ]  # fmt: skip
    head, _, rest = text.partition(f"{PATCH}\n")
    end = f"{LAST}\n"
    head, _, last = text.partition(end) if not rest else (head, "", rest.partition(end)[2])
    return head + "\n".join(lines) + "\n" + end + last


def _learned(metrics: Mapping[str, Any]) -> list[str]:
    if not metrics.get("learned"):
        return []
    also = "" if metrics["remaining"] is None else ", and from right examples that the repair was not judged on"
    return [f"The model also learned from the query failures{also}."]


def _groups(metrics: Mapping[str, Any]) -> list[str]:
    named = metrics.get("groups") or {}
    if len(named) < 2:
        return []
    largest = sorted(named.items(), key=lambda g: -g[1]["n"])[:10]
    return ["", *(f"- {name}: {row['n']} in the holdout, accuracy {row['after']:.0%} now" for name, row in largest)]
