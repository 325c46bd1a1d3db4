"""The model card that travels with the repaired weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card(metrics: Mapping[str, Any], *, version: str, rule: str, labels: str = "") -> str:
    """Markdown: what failed, what was removed and by which rule, what is better, what is worse."""
    holdout, remaining, overall = metrics["holdout"], metrics["remaining"], metrics["overall"]
    lines = [
        "---", "tags:", "- amends", "- repaired", "---", "",
        "# A repaired model", "",
        f"**{metrics['verdict'].capitalize()}**: {metrics['reason']}.", "",
        f"Repaired with amends {version}: training examples that stand behind the model's failures were found and "
        "forgotten. This card is about the repair alone; what the model is for, and what else it was trained and "
        "tested on, is said where it came from.", "",
        "## What failed", "",
        f"{metrics['query']['n'] + holdout['n']} examples; {metrics['query']['n']} were searched with, "
        f"{holdout['n']} only judged.",
        *_groups(metrics), "",
        "## What was removed", "",
        f"{metrics['removed']} training examples, by this rule: {rule}.",
        *(["The failures searched with, and right examples that guarded, were learned from as well."]
          if metrics.get("learned") else []),
        *([labels] if labels else []), "",
        "## Before and after", "",
        "| | before | after | number |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, row in (("failures that judged", holdout), ("right before, judged", remaining), ("overall", overall)):
        if row is not None and row["n"]:
            lines.append(f"| {name} | {row['before']:.3f} | {row['after']:.3f} | {row['n']} |")
    lines += ["", f"Fixed: {metrics['fixed']}. Newly broken: {metrics['newly_broken']}."]
    if metrics.get("harmed"):
        lines.append(f"Less is right of: {', '.join(map(str, metrics['harmed']))}.")
    lines += ["", "## Controls", "", "What fine-tuning does by itself, for comparison:", ""]
    for name, row in metrics["controls"].items():
        if row.get("holdout") is not None:
            lines.append(f"- {row['removed']} removed ({name}): {row['holdout']:.3f} of the judging failures right")
    for warning in metrics.get("warnings", ()):
        lines += ["", f"Warning: {warning}."]
    lines += ["", "## What this is not", "",
              "Forgetting examples this way repairs a model; it is not a privacy guarantee. The removed examples may "
              "still be recoverable from the weights."]  # fmt: skip
    return "\n".join(lines) + "\n"


def _groups(metrics: Mapping[str, Any]) -> list[str]:
    named = metrics.get("groups") or {}
    if len(named) < 2:
        return []
    largest = sorted(named.items(), key=lambda g: -g[1]["n"])[:10]
    return ["", *(f"- {name}: {row['n']} judged, {row['after']:.0%} right after" for name, row in largest)]
