"""Whether a model's answers and the labels they are held against belong together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from amends.evaluation.statistics import mcnemar

KNOWS = 0.1  # of the way from guessing to being always right: less than that is near chance
SURE = 1e-3  # p of a test by which a setup is called broken; so few sound ones may be
RIDGE = 0.1  # times the number of examples: what is added where every column has a variance of 1
HALF = 0.5  # of the errors must go for something to be far better


def beyond_guessing(y: np.ndarray, said: np.ndarray) -> tuple[float, float, float]:
    """Cohen's kappa, its standard error, and the accuracy that answers have which are as frequent as these but
    know nothing of the example. Kappa is 0 at that accuracy and 1 where all is right."""
    classes = int(max(y.max(), said.max())) + 1
    given, told = (np.bincount(v, minlength=classes) / len(v) for v in (y, said))
    guessing, accuracy = float(given @ told), float((y == said).mean())
    if guessing > 1 - 1e-9:
        return 1.0, 1.0, guessing
    error = (accuracy * (1 - accuracy) / len(y)) ** 0.5 / (1 - guessing)
    return (accuracy - guessing) / (1 - guessing), error, guessing


def near_chance(y: np.ndarray, said: np.ndarray) -> bool:
    """Whether the model can be shown to know next to nothing of these labels: kappa is below a tenth even two of its
    standard errors higher. With few examples that cannot be shown, and it is False."""
    if len(np.unique(y)) < 2:
        return False
    kappa, error, _ = beyond_guessing(y, said)
    return kappa + 2 * max(error, 1 / len(y)) < KNOWS


def far_better(y: np.ndarray, said: np.ndarray, other: np.ndarray) -> bool:
    """Whether other answers leave at most half of the errors, over all examples and on average over classes, and
    beyond chance."""
    now, then = said == y, other == y
    wrong, left = (np.array([1 - right.mean(), 1 - _by_class(y, right)]) for right in (now, then))
    p = mcnemar(int((then & ~now).sum()), int((now & ~then).sum()))
    return bool((left < wrong).all() and (left <= HALF * wrong).all() and p <= SURE)


def _by_class(y: np.ndarray, right: np.ndarray) -> float:
    return float(np.mean([right[y == k].mean() for k in np.unique(y)]))


def better_order(y: np.ndarray, said: np.ndarray, halves: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray | None:
    """The class that each output seems to stand for, where it is another for some of them, and answers read so leave
    at most half of the errors on the classes concerned; otherwise None.

    An order is found on one half and tried on the other, so that the best of many does not win by luck.
    """
    read, moved = said.copy(), np.zeros(len(y), dtype=bool)
    for found, tried in halves:
        order = _order(y[found], said[found], int(max(y.max(), said.max())) + 1)
        read[tried] = order[said[tried]]
        moved[tried] = order[y[tried]] != y[tried]
    if not moved.any() or not far_better(y[moved], said[moved], read[moved]):
        return None
    gained, lost = ((read == y) & (said != y)).sum(), ((read != y) & (said == y)).sum()
    if mcnemar(int(gained), int(lost)) > SURE or gained <= lost:
        return None
    return _order(y, said, int(max(y.max(), said.max())) + 1)


def _order(y: np.ndarray, said: np.ndarray, classes: int) -> np.ndarray:
    """A class for each output, each class once: the commonest pairs first, and where two are as common, the class in
    its place."""
    pairs = np.zeros((classes, classes))
    np.add.at(pairs, (said, y), 1.0)
    pairs[np.arange(classes), np.arange(classes)] += 0.5
    order, taken = np.full(classes, -1), np.zeros(classes, dtype=bool)
    for place in np.argsort(-pairs, axis=None, kind="stable"):
        output, label = divmod(int(place), classes)
        if order[output] < 0 and not taken[label]:
            order[output], taken[label] = label, True
    return order


def fitted_anew(rows: np.ndarray, y: np.ndarray, halves: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """What a linear layer says that was fitted to these features and labels by ridge regression: for each half, one
    fitted to the other."""
    answers, found = np.zeros(len(y), dtype=np.int64), np.unique(y)
    spread = rows.std(0)
    rows = (rows - rows.mean(0)) / np.where(spread > 1e-9, spread, 1.0)
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    for known, asked in halves:
        kernel = rows[known] @ rows[known].T
        kernel[np.diag_indices(len(known))] += RIDGE * len(known)
        weight = np.linalg.solve(kernel, (y[known, None] == found).astype(float))
        answers[asked] = found[(rows[asked] @ rows[known].T @ weight).argmax(1)]
    return answers
