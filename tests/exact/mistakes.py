"""Which class is taken for which other, with scipy: labels of D and right ones are rows of what members say, the class
and the class the model would give instead; right ones have a weight as well."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp

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
