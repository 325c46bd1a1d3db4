"""A patch from a repair made in Python: torch, numpy and safetensors are enough to make it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from amends import __version__
from amends.errors import BadInput
from amends.evidence.cpu import set_threads
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.prepare import entry
from amends.models import module_of
from amends.patches.make import Repaired, about_repair
from amends.patches.names import tensors
from amends.patches.patch import Patch
from amends.progress import Progress
from amends.workflow.repair import Repair


@entry
def patch_of_repair(
    result: Repair, exact: bool = False, beside: Sequence[Patch] = (), progress: bool | None = None
) -> Patch:
    """The patch of a repair made in Python; BadInput if it depends on one of the patches in `beside`."""
    train = result.given["train"]
    set_threads(train.network)
    ids = train.examples.names()
    named = {int(i): int(i) if ids is None else str(ids[i]) for i in result.removed.tolist()}
    about = provenance(result.metrics, "repair", train.network, train) | {
        "removed": sorted(named[i] for i in named if i not in result.new_labels),
        "relabelled": _relabelled(result, named),
    }
    dtypes = {name: value.dtype for name, value in tensors(module_of(result.model).module).items()}
    repaired = Repaired(
        result.given, result.split, result.after, result.metrics, result.floor, result.kept, about, dtypes
    )
    with Progress.shown(progress) as shown:
        patch, reports = judged_beside(repaired, repaired.patch(exact, shown), beside)
    for number, report in enumerate(reports):
        if not report["holds"]:
            why = report.get("why", "it fixes less")
            raise BadInput(f"the repair depends on the other patch: {why}; beside[{number}]; leave it out")
    return patch


def _relabelled(result: Repair, named: Mapping[int, Any]) -> dict[str, str]:
    if not result.new_labels:
        return {}
    from amends.tables.frames import label_text

    return {str(named[i]): label_text(new) for i, new in result.new_labels.items()}


def judged_beside(repaired: Repaired, patch: Patch, others: Sequence[Patch]) -> tuple[Patch, list[dict[str, Any]]]:
    """The patch, and for each of the others a report: whether the patch holds without it, or with it below."""
    reports = []
    for other in others:
        patch, report = repaired.beside(patch, other)
        reports.append(report)
    return patch, reports


def provenance(
    metrics: Mapping[str, Any], name: str, network: Network | None, train: Factor | None = None
) -> dict[str, Any]:
    """Where a patch comes from, without the ids."""
    versions = {"amends": __version__, "torch": torch.__version__, "numpy": np.__version__,
                "python": platform.python_version()}  # fmt: skip
    about = {"name": name, "made": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions}
    if train is not None:
        names = {"classes": list(train.examples.classes), "features": list(train.examples.features)}
        about |= {name: values for name, values in names.items() if values}
    if network is not None:
        about["bytes"] = sum(v.numel() * v.element_size() for v in tensors(network.module).values())
    return about | about_repair(metrics)
