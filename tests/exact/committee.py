"""The default in plain numpy, on the network of `tanh`: members tried on halves, weighed, and made one score.

Numbers of a budget stand here once more. Which half, which part and which batch comes first is drawn as the product
draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tests.exact import tanh
from tests.exact.excess import excess
from tests.exact.mistakes import likely, raised
from tests.exact.moves import Along, To, between, climbed, climbing, harmless, trained
from tests.exact.weighing import edits_of, joined, relevance, trust, weights_of

LEARNED = "learned loss"


@dataclass(frozen=True)
class Budget:
    members: tuple
    alone: tuple  # without right examples
    shown: int
    held: int
    judges: int
    sample: int
    curved: int
    steps: int
    steps_held: int
    whole: int = 0
    rates: tuple = (6e-3, 1.5e-3, 4e-4, 1e-4)  # of the learned loss
    passes: float = 3.0


BUDGETS = {
    "quick": Budget(("linear", LEARNED), ("linear", "kfac_ewc"), 100, 100, 1000, 5000, 500, 20, 10),
    "default": Budget(
        ("grad_dot", "linear", "functional", LEARNED), ("grad_dot", "linear", "kfac_ewc"),
        500, 250, 2000, 10_000, 500, 60, 10,
    ),
    "thorough": Budget(
        ("grad_dot", "linear", "functional", "functional + ewc", LEARNED),
        ("grad_dot", "linear", "ewc", "kfac_ewc"), 2000, 1000, 2000, 10**9, 4000, 60, 40, 8000,
    ),
}  # fmt: skip
BUDGETS["default, large"] = replace(BUDGETS["default"], steps=30, steps_held=20, rates=(1e-4, 2.5e-5), passes=5.0)


@dataclass
class Tried:
    """A member: its scores of D, one for each edit; what it gives labels it was not shown; where its edits ended."""

    scores: list
    known: list = field(default_factory=list)  # which failures and right examples judge, and their scores
    failures: np.ndarray = field(default_factory=lambda: np.zeros(0))
    right: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ends: list = field(default_factory=list)
    excess: tuple | None = None
    way: int = 0  # which of the trainings was taken
    theta: np.ndarray | None = None  # and where it ended

    @property
    def balanced(self):
        return (self.failures.mean() + self.right.mean()) / 2


def some(positions, most, seed):
    if len(positions) <= most:
        return positions
    return positions[np.sort(np.random.default_rng([seed, 13]).permutation(len(positions))[:most])]


def softmax(f):
    e = np.exp(f - f.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def halves(y, said, seed):
    """Half of all that carry one label and are called the same, and the other half; what is rounded is carried on. A
    single example is both halves."""
    rng, kinds, carried = np.random.default_rng(seed), sorted(set(zip(y.tolist(), said.tolist(), strict=True))), 0.0
    second = np.zeros(len(y), dtype=bool)
    for kind in rng.permutation(len(kinds)):
        at = rng.permutation(np.flatnonzero((y == kinds[kind][0]) & (said == kinds[kind][1])))
        wanted = len(at) / 2 + carried
        taken = min(max(round(wanted), len(at) > 1), len(at) - (len(at) > 1))
        carried = wanted - taken
        second[at[:taken]] = True
    return (np.arange(1),) * 2 if len(y) == 1 else (np.flatnonzero(~second), np.flatnonzero(second))


def weights_held(start, precision):
    def term(theta):
        pull = precision @ (theta - start)
        return -0.5 * (theta - start) @ pull, -pull

    return term


class Committee:
    """What the default says of D (x, y), of failures (fx, fy) and of right examples (rx, ry)."""

    def __init__(self, w, budget, seed=0):
        self.w, self.b, self.seed, self.n = w, BUDGETS[budget], seed, len(w.x)
        rng, held = np.random.default_rng([seed, 11]), len(w.rx) >= 4
        self.said, self.called = (tanh.logits(w.theta, x).argmax(1) for x in (w.x, w.fx))
        if held:
            of, pool = (w.rx, w.ry), np.arange(len(w.rx))
        else:
            of, pool = (w.x, w.y), np.flatnonzero(self.said == w.y)
        judges = np.sort(rng.permutation(pool)[: self.b.judges])
        self.jx, self.jy = (part[judges] for part in of)
        self.members, self.judged = self.b.members if held else self.b.alone, held and len(self.jx) >= 20
        self.at = np.sort(some(np.arange(self.n), self.b.sample, seed))
        behind = relevance(self.said, self.called)
        self.relevance = np.array([behind.get(c, 1.0) for c in w.y.tolist()])
        self.failing = self._failing()
        self.missing = {c: min(self.failing, np.mean(self.said[w.y == c] != c)) for c in range(tanh.CLASSES)}

    # --- edits -------------------------------------------------------------------------------------

    @cached_property
    def measured(self):
        """The part of D that curvature is measured on."""
        if self.n <= self.b.curved:
            return self.w.x
        return self.w.x[np.sort(np.random.default_rng([0, 29]).permutation(self.n)[: self.b.curved])]

    @cached_property
    def kronecker(self):
        return self.n / len(self.measured) * tanh.kronecker(self.w.theta, self.measured)

    @cached_property
    def diagonal(self):
        return self.n / len(self.measured) * np.diag(np.diag(tanh.ggn(self.w.theta, self.measured)))

    def edit(self, name, shown, holding):
        """Where a member goes that is shown these failures, as heavy as D, and holds these right examples."""
        start, (fx, fy) = self.w.theta, (self.w.fx[shown], self.w.fy[shown])
        mass = self.n / len(shown)

        def inserted(theta):
            return climbing(theta, fx, fy, mass)

        if name == "grad_dot":
            return Along(start, inserted(start)[1])
        if name == "linear":
            lift = 10 * np.trace(self.kronecker) / tanh.SIZE
            return Along(start, np.linalg.solve(self.kronecker + lift * np.eye(tanh.SIZE), inserted(start)[1]))
        terms = [inserted]
        if "functional" in name:
            terms.append(self.predictions_held(self.jx[holding]))
        if "ewc" in name:
            terms.append(weights_held(start, self.kronecker if "kfac" in name else self.diagonal))
        return To(start, climbed(terms, start, self.b.steps_held if "functional" in name else self.b.steps) - start)

    def predictions_held(self, x):
        """E log p of what the model said, a twentieth as heavy as D."""
        old, each = tanh.probabilities(self.w.theta, x), 0.05 * self.n / len(x)

        def term(theta):
            p = tanh.probabilities(theta, x)
            return each * (old * np.log(p)).sum(), tanh.sent_back(theta, x, each * (old - p))

        return term

    def blamed(self, edit, x, y):
        """−∇log p(y|f) · (f₊ − f)."""
        return -(tanh.slopes(self.w.theta, x, y) * edit.moves(x)).sum(1)

    def probabilities(self, edit, unseen, judging):
        """Of the labels it was not shown; along a tangent, as far as it does most good."""
        sets = (self.w.fx[unseen], self.w.fy[unseen]), (self.jx[judging], self.jy[judging])
        unit = np.abs(edit.moves(sets[0][0])).mean()
        sizes = [2.0**k / unit for k in range(-3, 6)] if isinstance(edit, Along) else [1.0]
        ways = []
        for size in sizes:
            f, r = (softmax(tanh.logits(self.w.theta, x) + size * edit.moves(x))[np.arange(len(y)), y]
                    for x, y in sets)  # fmt: skip
            ways.append(((f.mean() + r.mean()) / 2, f, r))
        return max(ways, key=lambda way: way[0])[1:]

    def tried(self, name):
        w, made = self.w, Tried([], failures=np.zeros(len(self.w.fx)), right=np.zeros(len(self.jx)))
        pairs = (halves(w.fy, self.called, self.seed),
                 halves(self.jy, tanh.logits(w.theta, self.jx).argmax(1), self.seed))  # fmt: skip
        for way in (0, 1):
            (shown, unseen), (holding, judging) = ((p[way], p[1 - way]) for p in pairs)
            edit = self.edit(name, some(shown, self.b.shown, self.seed), some(holding, self.b.held, self.seed))
            made.failures[unseen], made.right[judging] = self.probabilities(edit, unseen, judging)
            made.ends.append(edit)
            made.scores.append(self.blamed(edit, w.x, w.y))
            judges = (w.fx[unseen], w.fy[unseen]), (self.jx[judging], self.jy[judging])
            made.known.append((unseen, judging, *(self.blamed(edit, *of) for of in judges)))
        return made

    # --- the learned loss --------------------------------------------------------------------------

    def learned(self):
        """Training goes on with D and, heavier, with all that is known; shorter steps where that does harm."""
        w = self.w
        epochs, size = min(self.b.passes, max(1.0, 65536 / self.n)), 64 if self.n < 20_000 else 256
        sets = (w.x, w.y), (w.fx, w.fy), (self.jx, self.jy)
        x, y = (np.concatenate(parts) for parts in zip(*sets, strict=True))
        weights = np.concatenate([np.ones(self.n), np.full(len(y) - self.n, 16.0 * self.b.passes / epochs)])
        ends = (trained(w.theta, x, y, weights, rate, epochs, size) for rate in self.b.rates)
        theta, way = harmless(w.theta, self.jx, self.jy, ends)
        scores, of_failures, of_right = (-tanh.log_p(theta, *of) for of in sets)
        times = raised(self, scores[self.at], of_right)
        every = np.arange(len(w.fx)), np.arange(len(self.jx)), times * of_failures, times * of_right
        return Tried([scores], [every], way=way, theta=theta)

    # --- what right labels say ---------------------------------------------------------------------

    def _failing(self):
        """The share of D that the model would fail were its labels right."""
        disagreeing = np.mean(self.said != self.w.y)
        sure = [tanh.probabilities(self.w.theta, x).max(1) for x in (self.jx, self.w.x, self.w.fx)]
        self.believed = 0.0
        right, d, failed = (s.mean() for s in sure)
        error = [s.std(ddof=1) / len(s) ** 0.5 if len(s) > 1 else np.inf for s in sure]
        if right <= d or right <= failed:
            return disagreeing
        parted = min((right - d) / np.hypot(error[0], error[1]), (right - failed) / np.hypot(error[0], error[2]))
        self.believed = min(1.0, max(0.0, parted - 1))
        return self.believed * min((right - d) / (right - failed), disagreeing) + (1 - self.believed) * disagreeing

    def excess(self, name, tried, at):
        """The share, what is found, its noise and how sure each is: the mean over edits."""
        made = []
        for scores, (unseen, judging, of_failures, of_right) in zip(tried.scores, tried.known, strict=False):
            kinds = np.concatenate([self.w.fy[unseen], self.jy[judging]])
            known = np.concatenate([of_failures, of_right])
            weights = np.concatenate([np.full(len(unseen), self.failing / max(1, len(unseen))),
                                      np.full(len(judging), (1 - self.failing) / len(judging))])  # fmt: skip
            missing = {c: m for c, m in self.missing.items() if c not in self.w.fy[unseen]}
            given = scores[at], self.w.y[at], known, kinds, weights, missing
            part = excess(*given)
            if name == LEARNED:
                share, found, noise, confidence = part
                here = self.relevance[at]
                behind = here @ confidence / confidence.sum() if confidence.sum() else 1.0
                part = behind * share, behind * found, behind * noise, here * confidence
            made.append(part)
        return tuple(np.mean([part[i] for part in made], axis=0) for i in range(4))

    # --- together ----------------------------------------------------------------------------------

    def decide(self):
        tried = {name: self.learned() if name == LEARNED else self.tried(name)
                 for name in self.members if name != LEARNED or self.judged}  # fmt: skip
        edits = edits_of(tried)
        if self.judged:
            for name, t in tried.items():
                t.excess = self.excess(name, t, self.at)
        counting = {name for of in (tried, edits) for name, weight in weights_of(of).items() if weight}
        for name in counting:
            if self.b.whole and name != LEARNED:
                every = some(np.arange(len(self.w.fx)), self.b.whole, self.seed)
                last = self.edit(name, every, np.arange(len(self.jx)))
                tried[name].scores.append(self.blamed(last, self.w.x, self.w.y))
                tried[name].ends = [last]
            if self.judged:
                tried[name].excess = self.excess(name, tried[name], np.arange(self.n))
        scored = {name: tried[name] for name in tried if name in counting}
        self.trials, self.weights = tried, dict.fromkeys(tried, 0.0) | weights_of(scored)
        self.own = dict.fromkeys(edits, 0.0) | weights_of(edits_of(scored))
        self.scores = self.combined(scored)
        first, *other = tried[max(self.own, key=lambda name: self.own[name])].ends
        self.end = between(first, other[0]) if other else first
        self.unseen = sum(self.own[name] * t.failures for name, t in edits.items())
        return self

    def combined(self, counting):
        harm = {}
        for name, t in counting.items():
            scores = [s * self.relevance if name == LEARNED else s for s in t.scores]
            harm[name] = joined([(1 / len(scores), s) for s in scores])
        own = joined([(self.own[name], harm[name]) for name in harm if self.own.get(name)])
        both = joined([(self.weights[name], harm[name]) for name in harm if self.weights[name]])
        weighed = [(self.weights[name], t) for name, t in counting.items() if self.weights[name]]
        self.trusted = max(trust(t) for _, t in weighed)
        if self.trusted:
            sure = sum(weight * t.excess[3] for weight, t in weighed)
            both = both * (self.trusted * np.maximum(sure, sure.mean()) + 1 - self.trusted)
            pairs = (halves(self.w.fy, self.called, self.seed),
                     halves(self.jy, tanh.logits(self.w.theta, self.jx).argmax(1), self.seed))  # fmt: skip
            self.likely = likely(self, {name: t for name, t in counting.items() if self.weights[name]}, pairs)
            both = both * self.likely**self.trusted
        return np.where(both > 0, both, np.minimum(own, 0))

    def wrong(self, name):
        share, found, noise, _ = self.trials[name].excess or (0, 0, 0, 0)
        return share if found > 3 * noise else 0.0
