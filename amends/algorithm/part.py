"""Step I for a part of D, where machines that cannot talk to each other each score some of it."""

from __future__ import annotations

from typing import Any

import torch

from amends.algorithm.identify import Identified, Influence, by_edit, finite
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.methods import Method
from amends.progress import Progress


def identified_part(
    train: Factor, failures: Factor, remaining: Factor | None, method: Any, seed: int, progress: Progress, part: slice
) -> Identified:
    """The scores of a part of D, to the bit those it has among all of D, if it begins and ends with a batch.

    What a method sums over D, such as a Fisher, is summed over all of it.
    """
    if not isinstance(method, Method):
        raise BadInput(
            "with this method the scores of a part depend on all of train; --shard; name one that edits the model, "
            "--method functional for example, or start several processes with torchrun"
        )
    with torch.autocast(train.network.device.type, enabled=False):
        finite(failures.per_example(failures.network.params), "the log-likelihood", "failures")
        scored, log_p = by_edit(method, train, failures, remaining, seed, progress, part)
    before = finite(log_p, "the log-likelihood", "train")
    scores, raw = (finite(values, "the score", "train") for values in (scored.scores, scored.raw))
    return Influence(scores, raw, before, train[part], failures, scored.start, scored.edited).identified
