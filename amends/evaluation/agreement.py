"""Whether a model's answers and the labels they are held against belong together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from amends.evaluation.statistics import mcnemar

KNOWS = 0.1  # of what there is to know: less than that is near chance
LEARNED = 0.2  # the same of what a model was trained on
SURE = 1e-3  # p of a test by which a setup is called broken; so few sound ones may be
RIDGE = 0.1  # times the number of examples: what is added where every column has a variance of 1
HALF = 0.5  # of the errors must go for something to be far better
ODDS = 3.0  # times the odds of being right beyond guessing, for a reading to know far more
ERRORS = 3.3  # standard errors of a difference that is beyond chance, as SURE has it


def beyond_guessing(y: np.ndarray, predicted: np.ndarray) -> tuple[float, float, float]:
    """Cohen's kappa, its standard error, and the accuracy that answers have which are as frequent as these but
    know nothing of the example. Kappa is 0 at that accuracy and 1 where all is right."""
    classes = int(max(y.max(), predicted.max())) + 1
    labelled, called = (np.bincount(v, minlength=classes) / len(v) for v in (y, predicted))
    guessing, accuracy = float(labelled @ called), float((y == predicted).mean())
    if guessing > 1 - 1e-9:
        return 1.0, 1.0, guessing
    error = (accuracy * (1 - accuracy) / len(y)) ** 0.5 / (1 - guessing)
    return (accuracy - guessing) / (1 - guessing), error, guessing


def near_chance(y: np.ndarray, predicted: np.ndarray) -> bool:
    """Whether the model can be shown to know next to nothing of these labels: kappa is below a tenth even two of its
    standard errors higher. With few examples that cannot be shown, and it is False."""
    if len(np.unique(y)) < 2:
        return False
    kappa, error, _ = beyond_guessing(y, predicted)
    return kappa + 2 * max(error, 1 / len(y)) < KNOWS


def unknown(y: np.ndarray, outputs: np.ndarray, knows: float) -> bool:
    """Whether the outputs can be shown to know next to nothing of these labels: the outputs for the labels are hardly
    higher than those of other examples for the same labels, by their ranks in each column, so that neither the scale of
    the outputs nor how rare a class is counts.

    The sum of these ranks has a mean and a variance over all ways to deal out the labels. In units of that spread and
    for each example it must be below `knows`, even two standard errors higher.
    """
    known, y, count = np.unique(y, return_inverse=True, return_counts=True)
    if len(known) < 2:
        return False
    share, outputs = count / len(y), (outputs - outputs.mean(1, keepdims=True))[:, known]
    ranks = np.stack([_ranks(column) for column in outputs.T], axis=1)
    level = ranks @ share
    beyond = ranks - level[:, None] - ranks.mean(0) + level.mean()
    spread = np.sqrt(len(y) / (len(y) - 1) * (beyond**2 @ share).sum())
    found = beyond[np.arange(len(y)), y].sum() / spread if spread > 1e-9 else 0.0
    return bool((found + 2) / len(y) ** 0.5 < knows)


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 0 to 1; equal values share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return ((np.cumsum(count) - (count - 1) / 2) / len(values))[place.reshape(-1)]


def knows_more(y: np.ndarray, predicted: np.ndarray, other: np.ndarray) -> bool:
    """Whether other answers have far higher odds of being right beyond guessing (κ / (1 − κ), with Cohen's kappa),
    beyond chance, and are right more often too: on average over classes, and over all examples beyond chance. A sound
    model that hardly ever says a rare class has a low kappa, and is right as often as one that guesses it."""
    (now, moved), (then, shifted) = (_kappa(y, v) for v in (predicted, other))
    odds = [max(k, 0.01) / max(1 - k, 0.01) for k in (now, then)]
    error = float((shifted - moved).std()) / len(y) ** 0.5
    fairer = _by_class(y, other == y) > _by_class(y, predicted == y)
    far = odds[1] >= ODDS * odds[0] and then - now > ERRORS * error
    return bool(far and fairer and _more_often(y, predicted, other))


def _more_often(y: np.ndarray, predicted: np.ndarray, other: np.ndarray) -> bool:
    """Whether the other answers are right more often, beyond chance."""
    gained, lost = ((other == y) & (predicted != y)).sum(), ((other != y) & (predicted == y)).sum()
    return bool(gained > lost and mcnemar(int(gained), int(lost)) <= SURE)


def _kappa(y: np.ndarray, predicted: np.ndarray) -> tuple[float, np.ndarray]:
    """Kappa, and how much each example moves it."""
    kappa, _, guessing = beyond_guessing(y, predicted)
    if guessing > 1 - 1e-9:
        return kappa, np.zeros(len(y))
    classes = int(max(y.max(), predicted.max())) + 1
    labelled, called = (np.bincount(v, minlength=classes) / len(v) for v in (y, predicted))
    by_luck, right = called[y] + labelled[predicted] - 2 * guessing, (predicted == y) - (predicted == y).mean()
    return kappa, (right - by_luck * (1 - kappa)) / (1 - guessing)


def other_scale(y: np.ndarray, outputs: np.ndarray) -> tuple[float, float] | None:
    """The factor that makes outputs explain the labels best, and the share of what there is to explain (the entropy of
    the labels) that is gained by it; None where that is less than half."""
    share = np.bincount(y) / len(y)
    entropy = float(-(share[share > 0] * np.log(share[share > 0])).sum())
    factors = np.exp(np.linspace(np.log(1e-3), np.log(1e3), 121))
    losses = [_loss(outputs * factor, y) for factor in (1.0, *factors)]
    best = int(np.argmin(losses[1:]))
    gained = (losses[0] - losses[1 + best]) / max(entropy, 1e-9)
    return (float(factors[best]), gained) if gained > HALF else None


def _loss(logits: np.ndarray, y: np.ndarray) -> float:
    top = logits.max(1)
    return float((np.log(np.exp(logits - top[:, None]).sum(1)) + top - logits[np.arange(len(y)), y]).mean())


def far_better(y: np.ndarray, predicted: np.ndarray, other: np.ndarray) -> bool:
    """Whether other answers leave at most half of the errors, over all examples and on average over classes, and
    beyond chance."""
    now, then = predicted == y, other == y
    wrong, left = (np.array([1 - right.mean(), 1 - _by_class(y, right)]) for right in (now, then))
    p = mcnemar(int((then & ~now).sum()), int((now & ~then).sum()))
    return bool((left < wrong).all() and (left <= HALF * wrong).all() and p <= SURE)


def _by_class(y: np.ndarray, right: np.ndarray) -> float:
    return float(np.mean([right[y == k].mean() for k in np.unique(y)]))


def better_order(
    y: np.ndarray, predicted: np.ndarray, halves: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray | None:
    """The class that each output seems to stand for, where it is another for some of them, and answers read so leave
    at most half of the errors on the classes concerned; otherwise None.

    An order is found on one half and tried on the other, so that the best of many does not win by luck.
    """
    read, moved = predicted.copy(), np.zeros(len(y), dtype=bool)
    for found, tried in halves:
        order = _order(y[found], predicted[found], int(max(y.max(), predicted.max())) + 1)
        read[tried] = order[predicted[tried]]
        moved[tried] = order[y[tried]] != y[tried]
    if not moved.any() or not far_better(y[moved], predicted[moved], read[moved]):
        return None
    if not _more_often(y, predicted, read):
        return None
    return _order(y, predicted, int(max(y.max(), predicted.max())) + 1)


def _order(y: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """A class for each output, each class once: the commonest pairs first, and where two are as common, the class in
    its place."""
    pairs = np.zeros((classes, classes))
    np.add.at(pairs, (predicted, y), 1.0)
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
    alike = rows @ rows.T
    for known, asked in halves:
        kernel = alike[np.ix_(known, known)]
        kernel[np.diag_indices(len(known))] += RIDGE * len(known)
        weight = np.linalg.solve(kernel, (y[known, None] == found).astype(float))
        answers[asked] = found[(alike[np.ix_(asked, known)] @ weight).argmax(1)]
    return answers
