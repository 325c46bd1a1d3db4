"""Which class is taken for which other, with scipy: labels of D and right ones are rows of what members say, the class
and the class the model would give instead; right ones have a weight as well."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp

from tests.exact import tanh

SPREAD, RIDGE = 0.7, 1e-3


def mistakes(rows, known):
    """The effect of each class together with each other one on the log odds that a label is wrong."""
    d, right = (np.array([row[0] for row in of]) for of in (rows, known))
    weights = np.array([row[3] for row in known]) / sum(row[3] for row in known)
    names = sorted(
        {(int(row[1]),) for row in (*rows, *known)} | {(int(row[1]), int(row[2])) for row in (*rows, *known)}
    )
    at = {name: i for i, name in enumerate(names)}
    here = [np.array([[at[(int(c),)], at[(int(c), int(other))]] for _, c, other, *_ in of]) for of in (rows, known)]
    members, count = d.shape[1], 1 / (weights**2).sum()

    def loss(free):
        roots, mean, effects = free[:members], free[members], free[members + 1 :]
        slopes = roots**2
        log_b = np.log(weights) + right @ slopes
        total, gradient = 0.0, np.zeros(len(free))
        pulls, b = np.zeros(members), logsumexp(log_b)
        typical = np.exp(log_b - b) @ right
        for said, which, sign, each in ((d, here[0], 1, np.full(len(d), 1 / len(d))), (right, here[1], -1, weights)):
            prior = mean + effects[which].sum(1)
            odds = prior + said @ slopes - b
            ratio = np.logaddexp(log_expit(-prior), log_expit(prior) + said @ slopes - b)
            total -= count * each @ log_expit(sign * ratio)
            back = -sign * count * each * expit(-sign * ratio)
            pulls += (back * expit(odds)) @ (said - typical)
            of_prior = back * (expit(odds) - expit(prior))
            gradient[members] += of_prior.sum()
            np.add.at(gradient[members + 1 :], which, of_prior[:, None])
        total += count * RIDGE * slopes @ slopes + effects @ effects / (2 * SPREAD**2)
        gradient[:members] = 2 * roots * (pulls + 2 * count * RIDGE * slopes)
        gradient[members + 1 :] += effects / SPREAD**2
        return total, gradient

    begin = np.r_[np.full(members, 0.5**0.5), -2.0, np.zeros(len(names))]
    found = minimize(loss, begin, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 1000}).x
    return {name: found[members + 1 + i] for name, i in at.items() if len(name) == 2}


def likely(c, counting, pairs):
    """How many times as likely each label is wrong as others of its class, for a committee and the members of it that
    count: from what they say of the sample of D and of right labels they were not shown, both ways."""
    w, rows, known = c.w, [], []
    theta = next((t.theta for t in counting.values() if t.theta is not None), w.theta)
    instead = [np.where(np.eye(tanh.CLASSES)[y] > 0, -np.inf, tanh.logits(theta, x)).argmax(1)
               for x, y in ((w.x, w.y), (w.fx, w.fy), (c.jx, c.jy))]  # fmt: skip
    for way in (0, 1):
        unseen, judging = (p[1 - way] for p in pairs)
        kinds = np.concatenate([w.fy[unseen], c.jy[judging]])
        others = np.concatenate([instead[1][unseen], instead[2][judging]])
        of_d, of_right = [], []
        for t in counting.values():
            scores = t.scores[way if t.ends else 0]
            *_, failures, others_right = t.known[way if t.ends else 0]
            right = np.concatenate([failures, others_right] if t.ends else [failures[unseen], others_right[judging]])
            unit = np.maximum(scores, 0).mean() or 1.0
            of_d.append(np.arcsinh(np.maximum(scores, 0) / unit))
            of_right.append(np.arcsinh(np.maximum(right, 0) / unit))
        weights = frequent(c, unseen, judging)
        rows += [(np.array(of_d)[:, i], w.y[i], instead[0][i]) for i in c.at if w.y[i] in kinds]
        here = zip(np.array(of_right).T, kinds, others, weights / weights.sum(), strict=True)
        known += [row for row in here if row[3] > 0]
    effects = mistakes(rows, known)
    return np.exp([effects.get(pair, 0.0) for pair in zip(w.y.tolist(), instead[0].tolist(), strict=True)])


def frequent(c, unseen, judging):
    """What right labels weigh, where each class is as frequent among them as in the sample of D."""
    kinds = np.concatenate([c.w.fy[unseen], c.jy[judging]])
    weights = np.r_[np.full(len(unseen), c.failing / max(1, len(unseen))),
                    np.full(len(judging), (1 - c.failing) / len(judging))]  # fmt: skip
    of_d = c.w.y[c.at]
    return np.array([v * np.sum(of_d == k) / max(1e-300, weights[kinds == k].sum())
                     for v, k in zip(weights, kinds, strict=True)])  # fmt: skip


def raised(c, of_d, of_right):
    """How many times as high D's right labels score as those that were learned with a larger weight: by the mean of the
    lowest seven tenths of each, of the examples of D that the network called by their label, and of right ones."""
    mine = np.sort(of_d[c.said[c.at] == c.w.y[c.at]])
    mine = mine[: int(0.7 * len(mine) + 1e-9)]
    weights = frequent(c, np.arange(len(c.w.fx)), np.arange(len(c.jx)))[len(c.w.fx) :]
    taken, total, seven = 0.0, 0.0, 0.7 * weights.sum()
    for i in np.argsort(of_right, kind="stable"):
        if taken + weights[i] > seven:
            break
        taken, total = taken + weights[i], total + weights[i] * of_right[i]
    return max(1.0, mine.mean() / (total / taken)) if taken and total else 1.0
