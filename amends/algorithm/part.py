"""Step I for a part of D, where machines that cannot talk to each other each score some of it, and for the parts
together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from amends.algorithm.identify import Identified, Influence, by_default, by_edit
from amends.committee.decide import committee, decide_part
from amends.committee.evaluated import Evaluated
from amends.committee.rows import Rows
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.finite import LOG_P, SCORE, finite
from amends.methods import Default, Method
from amends.progress import Progress

Arrays = Mapping[str, np.ndarray]
BEFORE = "before"  # log p(z|θ̂) of a part, in the arrays of either


def identified_part(
    train: Factor, failures: Factor, remaining: Factor | None, method: Any, seed: int, progress: Progress, part: slice
) -> tuple[dict[str, np.ndarray], Identified | None]:
    """What a file holds of a part of D, to the bit what it is among all of D, if it begins and ends with a batch; and
    the same as an influence, where one method edits the model.

    What a method sums over D, such as a Fisher, is summed over all of it; so are the trials of the default.
    """
    with torch.autocast(train.network.device.type, enabled=False):
        if isinstance(method, Default):
            known, shown = Evaluated.of(train), Evaluated.of(failures)
            finite(shown.log_p, LOG_P, failures)
            here = known[np.arange(len(train))[part]]
            before = finite(here.log_p, LOG_P, here.data)
            members, settings = committee(method, train, remaining)
            rows = decide_part(members, known, shown, remaining, seed, progress, settings, part)
            return {**rows.arrays(), BEFORE: before}, None
        if not isinstance(method, Method):
            raise BadInput(
                "with this method the scores of a part depend on all of train; --shard; leave --method out, name one "
                "that edits the model, or start several processes with torchrun"
            )
        finite(failures.per_example(failures.network.params), LOG_P, failures)
        scored, log_p = by_edit(method, train, failures, remaining, seed, progress, part)
    before = finite(log_p, LOG_P, train[part])
    scores, raw = (finite(values, SCORE, train[part]) for values in (scored.scores, scored.raw))
    found = Influence(scores, raw, before, train[part], failures, scored.start, scored.edited).identified
    return {"scores": found.scores, "raw": found.raw, BEFORE: found.before}, found


def identified_together(
    parts: Sequence[Arrays], train: Factor, failures: Factor, remaining: Factor | None, default: Default, seed: int,
    progress: Progress,
) -> Identified:  # fmt: skip
    """The default's decision from the parts: its members are tried here too, and must end as they did there."""
    rows = Rows.joined(parts, train.network.device)
    before = np.concatenate([part[BEFORE] for part in parts])
    with torch.autocast(train.network.device.type, enabled=False):
        known = Evaluated.of(train), Evaluated.of(failures)
        made = by_default(default, *known, remaining, seed, progress, rows)
    scores, raw = (finite(values, SCORE, train) for values in (made.scores, made.raw))
    found = Influence(scores, raw, before, train, failures, made.start, made.edited, made.members, made.unseen)
    return found.identified
