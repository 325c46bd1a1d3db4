"""A network of one hidden layer in plain numpy: log p, Jacobians and curvature by hand; and Adam.

θ is one vector: the weights of the hidden layer, its biases, those of the outputs, their biases.
"""

from __future__ import annotations

import numpy as np

INPUTS, HIDDEN, CLASSES = 3, 4, 3
SHAPES = ((HIDDEN, INPUTS), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,))
ENDS = tuple(int(end) for end in np.cumsum([np.prod(s) for s in SHAPES]))
SIZE = ENDS[-1]


def parts(theta):
    return [theta[start:end].reshape(s) for start, end, s in zip((0, *ENDS), ENDS, SHAPES, strict=False)]


def hidden(theta, x):
    w1, b1, _, _ = parts(theta)
    return np.tanh(x @ w1.T + b1)


def logits(theta, x):
    _, _, w2, b2 = parts(theta)
    return hidden(theta, x) @ w2.T + b2


def probabilities(theta, x):
    f = logits(theta, x)
    e = np.exp(f - f.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def log_p(theta, x, y):
    return np.log(probabilities(theta, x)[np.arange(len(y)), y])


def jacobians(theta, x):
    """∂f/∂θ of every example: [n, classes, parameters]."""
    _, _, w2, _ = parts(theta)
    rows = []
    for one, h in zip(x, hidden(theta, x), strict=True):
        back = w2 * (1 - h**2)  # [classes, hidden]
        first = np.einsum("ch,i->chi", back, one).reshape(CLASSES, -1)
        last = np.einsum("cd,h->cdh", np.eye(CLASSES), h).reshape(CLASSES, -1)
        rows.append(np.concatenate([first, back, last, np.eye(CLASSES)], 1))
    return np.stack(rows)


def slopes(theta, x, y):
    """∂log p/∂f."""
    return np.eye(CLASSES)[y] - probabilities(theta, x)


def gradients(theta, x, y):
    """∇log p of every example: [n, parameters]."""
    return np.einsum("ncp,nc->np", jacobians(theta, x), slopes(theta, x, y))


def sent_back(theta, x, vectors):
    """Σ Jᵀu over the examples, for [n, classes]."""
    _, _, w2, _ = parts(theta)
    h = hidden(theta, x)
    back = vectors @ w2 * (1 - h**2)
    return np.concatenate([p.reshape(-1) for p in (back.T @ x, back.sum(0), vectors.T @ h, vectors.sum(0))])


def along(theta, x, direction):
    """J v of every example: [n, classes]."""
    (_, _, w2, _), (v1, c1, v2, c2) = parts(theta), parts(direction)
    h = hidden(theta, x)
    return (1 - h**2) * (x @ v1.T + c1) @ w2.T + h @ v2.T + c2


def roots(theta, x):
    """√p_c (e_c − p), whose outer products sum to the metric of the outputs: [n, labels, classes]."""
    p = probabilities(theta, x)
    return np.sqrt(p)[:, :, None] * (np.eye(CLASSES)[None] - p[:, None, :])


def ggn(theta, x):
    rows = np.einsum("nlc,ncp->nlp", roots(theta, x), jacobians(theta, x)).reshape(-1, SIZE)
    return rows.T @ rows


def empirical(theta, x, y):
    g = gradients(theta, x, y)
    return g.T @ g


def factors(theta, x, vectors):
    """(A, G) of both layers: inputs with a 1 for the bias, and gradients at the outputs, for [n, r, classes]."""
    _, _, w2, _ = parts(theta)
    h = hidden(theta, x)
    back = np.einsum("nrc,ch->nrh", vectors, w2) * (1 - h**2)[:, None]
    ones = np.ones((len(x), 1))
    pairs = []
    for a, g in ((np.hstack([x, ones]), back), (np.hstack([h, ones]), vectors)):
        pairs.append((a.T @ a, np.einsum("nrg,nrk->gk", g, g)))
    return pairs


def places():
    """Where the matrix [out, in + 1] of each layer is in θ."""
    index = parts(np.arange(SIZE))
    return [np.concatenate([index[0], index[1][:, None]], 1), np.concatenate([index[2], index[3][:, None]], 1)]


def kronecker(theta, x):
    """A ⊗ G / n for either layer, as one matrix."""
    total = np.zeros((SIZE, SIZE))
    for (a, g), place in zip(factors(theta, x, roots(theta, x)), places(), strict=True):
        at = place.reshape(-1)
        total[np.ix_(at, at)] = np.kron(g, a) / len(x)
    return total


def ekfac(theta, x):
    """The directions of A ⊗ G, with the mean square of the gradients along each."""
    rows = np.einsum("nlc,ncp->nlp", roots(theta, x), jacobians(theta, x)).reshape(-1, SIZE)
    total = np.zeros((SIZE, SIZE))
    for (a, g), place in zip(factors(theta, x, roots(theta, x)), places(), strict=True):
        at = place.reshape(-1)
        basis = np.kron(np.linalg.eigh(g)[1], np.linalg.eigh(a)[1])
        total[np.ix_(at, at)] = basis @ np.diag(((rows[:, at] @ basis) ** 2).sum(0)) @ basis.T
    return total


def adam(gradient, theta, rate, steps, falling=False, rising=0.0):
    """The path of Adam up a gradient, without its start. The rate may rise over a share of the steps, and may fall to
    zero."""
    m = v = np.zeros_like(theta)
    for i in range(steps):
        g = -gradient(theta)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        size = rate * (1 - i / steps) if falling else rate
        if i + 1 < rising * steps:
            size *= (i + 1) / (rising * steps)
        theta = theta - size * (m / (1 - 0.9 ** (i + 1))) / (np.sqrt(v / (1 - 0.999 ** (i + 1))) + 1e-8)
        yield theta
