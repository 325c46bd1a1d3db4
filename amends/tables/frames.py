"""Training examples and failures as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from amends.config.decisions import NEW, RELABEL
from amends.evaluation.predictions import groups, labels, predicted
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.likelihoods import probability
from amends.likelihoods.tokens import NO_TARGET
from amends.nearness.conflicts import conflicts
from amends.tables.columns import COLUMNS, FAILURES

if TYPE_CHECKING:
    from amends.algorithm.identify import Influence
    from amends.algorithm.split import Split


def causes_frame(
    influence: Influence,
    order: np.ndarray,
    *,
    after: Params | None = None,
    failure_groups: np.ndarray | None = None,
    failure_ids: np.ndarray | None = None,
    decision: str = "",
) -> pd.DataFrame:
    """Rows of train in `order`. `after` are the repaired weights; without them, the edited weights of the search are
    used.

    `suggested` is the label the model leans to once the failures are inserted; `conflicts_with` holds positions in the
    failures, strongest first, and `group` is that of the first of them; `p_given` of a sequence is the geometric mean
    over its tokens. The user's own columns come last, as `own_...` where one has a name of ours; a column `id`, or
    `path`, is the id shown."""
    part, theta = influence.train[order], influence.start.mean
    named = failure_groups
    if named is None:
        named = groups(influence.failures, predicted(influence.failures, theta))
    pairs = conflicts(part, influence.failures, theta)
    ids = np.arange(len(influence.failures)) if failure_ids is None else failure_ids
    leaning = influence.leaning
    then = leaning if after is None else after
    own, names = part.examples.own(), part.examples.names()
    own.pop("id", None)
    frame = pd.DataFrame(
        {
            "id": order if names is None else names,
            "index": order,
            "rank": np.arange(1, len(order) + 1),
            "score": influence.scores[order],
            "given": _values(labels(part)),
            "predicted": _values(labels(part, theta)),
            "predicted_after": _values(labels(part, then)),
            "p_given": _probability(part, torch.as_tensor(influence.before[order])),
            "p_given_after": _probability(part, part.per_example(then)),
            "suggested": _values(labels(part, leaning)),
            "group": [named[p[0]] if p else "" for p in pairs],
            "conflicts_with": [[int(ids[j]) for j in p] for p in pairs],
            "decision": decision,
        },
        columns=COLUMNS,
    )
    return _with_own(frame, own, [*COLUMNS, NEW])


def with_new_labels(frame: pd.DataFrame, labels: Mapping[int, Any]) -> pd.DataFrame:
    """The table with new labels: relabelled rows have the `decision` relabel and the label as text in `new_label`,
    which is empty for other rows."""
    if not labels:
        return frame
    words = {int(i): label_text(label) for i, label in labels.items()}
    known = frame["index"].isin(list(words))
    frame = frame.assign(decision=frame["decision"].mask(known, RELABEL))
    new = frame["index"].map(lambda i: words.get(i, "")).astype(object)
    if NEW in frame:
        return frame.assign(**{NEW: new.where(known, frame[NEW])})
    frame.insert(list(frame.columns).index("decision") + 1, NEW, new)
    return frame


def label_text(label: Any) -> str:
    """A label in a cell: a name, a number, or a list in brackets; a list of one number is that number."""
    if isinstance(label, np.ndarray) and label.size == 1:
        label = label.reshape(())
    return str(label.tolist() if isinstance(label, np.ndarray | np.generic) else label)


def failures_frame(
    failed: Factor, split: Split, suspects: np.ndarray, after: Params | None = None, learned: bool = False
) -> pd.DataFrame:
    """The failures in the order given: which were searched with, which judge, and their groups. Labels, predictions and
    which were learned from are added with the repaired weights (`after`): before that, the failures that judge must
    not be read."""
    every, names = np.arange(len(failed)), failed.examples.names()
    part = np.full(len(failed), "", dtype=object)
    part[split.query], part[np.concatenate([split.holdout, split.other_groups])] = "query", "holdout"
    frame = pd.DataFrame({
        "id": every if names is None else names, "index": every, "part": part, "group": split.group,
        "suspect": np.where(np.isin(every, suspects), "yes", ""),
    })  # fmt: skip
    if after is not None:
        start = failed.network.params
        frame = frame.assign(learned=np.where(learned & np.isin(every, split.query), "yes", ""),
                             given=_values(labels(failed)), predicted=_values(labels(failed, start)),
                             predicted_after=_values(labels(failed, after)))  # fmt: skip
    own = {k: v for k, v in failed.examples.own().items() if k != "id"}
    return _with_own(frame, own, FAILURES)


def _with_own(frame: pd.DataFrame, own: Mapping[str, np.ndarray], ours: list[str]) -> pd.DataFrame:
    """The frame with the user's own columns, as `own_...` if one has a name of ours."""
    theirs = {f"own_{name}" if name in ours else name: values for name, values in own.items()}
    return pd.concat([frame, pd.DataFrame(theirs, index=frame.index)], axis=1) if theirs else frame


def _probability(part: Factor, log_p: Tensor) -> np.ndarray:
    return probability(part.network.likelihood, log_p.cpu(), part.examples.y.cpu()).numpy()


def _values(array: np.ndarray) -> list | np.ndarray:
    """One entry for each row: a number, a vector as a list, or the tokens of a sequence that are targets."""
    if array.ndim == 1:
        return array
    if array.ndim == 2 and array.dtype.kind == "i" and (array == NO_TARGET).any():
        return [row[row != NO_TARGET].tolist() for row in array]
    flat = array.reshape(len(array), array[:1].size)
    return flat[:, 0] if flat.shape[1] == 1 else flat.tolist()
