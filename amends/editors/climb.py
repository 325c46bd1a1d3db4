"""Optimisers that climb a sum of terms and know when to stop. Each yields its path without the start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from amends.editors.moments import Moments
from amends.errors import BadInput, NonFinite, at_least
from amends.evidence.factor import Factor, Term, Value
from amends.evidence.params import Params, flatten, large, plus, unflatten, zeros_like
from amends.posteriors.gaussian import Quadratic


class Climber(Protocol):
    """An optimiser. If its step length can be chosen it also has `finer()`: the same climber with shorter steps."""

    def __call__(self, terms: Sequence[Term], start: Params) -> Iterator[Params]: ...


FINER = 1 / 8


def total(terms: Sequence[Term], theta: Params) -> tuple[Value, Params]:
    """Value and gradient of the sum. The gradient has its parameters in the order of θ; terms may have another
    order."""
    value: Value = 0.0
    grad: Params | None = None
    for term in terms:
        v, g = term.value_and_grad(theta)
        value, grad = value + v, g if grad is None else plus(grad, g)
    return value, zeros_like(theta) if grad is None else {k: grad[k] for k in theta}


def _looked_at(terms: Sequence[Term], theta: Params) -> tuple[float, Params]:
    value, grad = total(terms, theta)
    return float(value), grad


FAR = 1e6  # used as the loss where it is not finite; other losses are of order one


def _checked(theta: Params, step: int) -> Params:
    for k, v in theta.items():
        if not v.isfinite().all():
            raise NonFinite(
                f"the edited weight {k} is NaN or infinite after step {step}; lower the step size or raise λ"
            )
    return theta


@dataclass(frozen=True)
class Newton:
    """Exact Newton steps with the dense Hessian, for small problems.

    Ends when a step is below `tolerance` relative to the parameters.
    """

    steps: int = 30
    tolerance: float = 1e-14

    def __call__(self, terms: Sequence[Term], start: Params) -> Iterator[Params]:
        theta = start
        for i in range(self.steps):
            _, grad = total(terms, theta)
            hessian = sum((t.hessian(theta) for t in terms), torch.zeros(()).to(flatten(grad)))
            move = torch.linalg.solve(-hessian, flatten(grad))
            theta = _checked(plus(theta, unflatten(move, theta)), i)
            yield theta
            if move.norm() <= self.tolerance * (1 + flatten(theta).norm()):
                return


@dataclass(frozen=True)
class FixedPoint:
    """θ ← θ + rate (P + μI)⁻¹ ∇(all terms)(θ): the paper's fixed-point equation of EWC, damped.

    Needs exactly one quadratic among the terms; P is its precision. With λ = 0, one undamped step from
    its centre is the natural-gradient step of Eq. linear_influence with γ = 1/N. Rate and damping
    (μ, relative to the mean of P's diagonal) do not change the fixed point; small steps make a fine
    path to it, in the metric of P.
    """

    steps: int = 1
    rate: float = 1.0
    damping: float = 0.0

    def __call__(self, terms: Sequence[Term], start: Params) -> Iterator[Params]:
        quadratics = [t for t in terms if isinstance(t, Quadratic)]
        if len(quadratics) != 1:
            raise BadInput(
                f"FixedPoint needs one quadratic among the terms, got {len(quadratics)}; use it with posteriors of EWC"
            )
        prior = quadratics[0]
        precision = prior.precision
        if self.damping:
            precision = precision.raised(self.damping * precision.mean)
        theta = start
        for i in range(self.steps):
            _, grad = total(terms, theta)
            theta = _checked(plus(theta, precision.solve(grad), self.rate), i)
            yield theta

    def finer(self) -> FixedPoint:
        return replace(self, rate=self.rate * FINER)


@dataclass(frozen=True)
class Ascent:
    """Plain gradient ascent in full batches. Every step is `stride` of the length of θ (of 1 where θ
    starts at zero), and is halved until it goes up. Never leaves the span of the gradients."""

    steps: int = 100
    stride: float = 0.01

    def __call__(self, terms: Sequence[Term], start: Params) -> Iterator[Params]:
        theta, (value, grad) = start, _looked_at(terms, start)
        length = self.stride * (float(flatten(start).norm()) or 1.0)
        for i in range(self.steps):
            size = float(flatten(grad).norm())
            if size == 0:
                return
            for _ in range(20):
                ahead = plus(theta, grad, length / size)
                higher, ahead_grad = _looked_at(terms, ahead)
                if higher > value:
                    break
                length /= 2
            else:
                return
            theta, value, grad = _checked(ahead, i), higher, ahead_grad
            yield theta

    def finer(self) -> Ascent:
        return replace(self, stride=self.stride * FINER)


@dataclass(frozen=True)
class LBFGS:
    """Full batches, strong Wolfe line search. Ends when no entry of the gradient exceeds `tolerance`
    times the largest at the start, or when the line search finds nothing better."""

    steps: int = 60
    history: int = 10
    tolerance: float = 1e-4

    def __call__(self, terms: Sequence[Term], start: Params) -> Iterator[Params]:
        up, gradient = _looked_at(terms, start)
        largest = float(flatten(gradient).abs().max())
        if not (abs(up) < float("inf") and largest < float("inf")):
            raise NonFinite("the objective of L-BFGS is not finite at the start; check the model's loss")
        if largest == 0:
            return
        scale = 1 / (abs(up) + 1)  # torch's first step length assumes a loss of order one
        point = flatten(start).clone().requires_grad_()
        optimiser = torch.optim.LBFGS(
            [point], lr=1, max_iter=1, max_eval=26, history_size=self.history, line_search_fn="strong_wolfe",
            tolerance_grad=0, tolerance_change=0,
        )  # fmt: skip
        # The points evaluated in this step, since torch evaluates its first and last again.
        known: list[tuple[Tensor, float, Tensor]] = [(point.detach().clone(), -scale * up, -scale * flatten(gradient))]

        def closure() -> float:
            here = point.detach()
            for where, value, grad in known:
                if torch.equal(where, here):
                    point.grad = grad.clone()
                    return value
            up, gradient = _looked_at(terms, unflatten(here, start))
            value, grad = -scale * up, -scale * flatten(gradient)
            if not (torch.isfinite(grad).all() and abs(value) < float("inf")):
                value, grad = FAR, torch.zeros_like(grad)  # the line search interpolates, so infinity would break it
            known.append((here.clone(), value, grad))
            point.grad = grad.clone()
            return value

        best = closure()
        for i in range(self.steps):
            optimiser.step(closure)
            value = closure()
            if not value < best:
                return
            best = value
            yield _checked(unflatten(point.detach().clone(), start), i)
            if float(cast("Tensor", point.grad).abs().max()) <= self.tolerance * scale * largest:
                return
            known[:] = [k for k in known if torch.equal(k[0], point.detach())]


@dataclass(frozen=True)
class Adam:
    """Adam on batches of `batch` examples of every factor; yields a point every `every` steps, or after each epoch.

    Each factor is shuffled on its own and used without repeats; an epoch is one pass over the largest.
    With `decay` the rate falls linearly to zero, so that the end is not a noisy point. With `rising` it rises
    from zero over that share of the steps: the first steps of Adam are as long for a gradient that is only
    noise as for any other, and do harm where weights are at an optimum. With `tolerance` it ends once the
    relative change over an epoch is below it. `augmented` reads the inputs of every batch anew from the
    training view of its examples, where they have one.
    """

    rate: float = 1e-3
    epochs: float = 10
    batch: int = 64
    every: int | None = 5
    tolerance: float = 0.0
    decay: bool = False
    seed: int = 0
    augmented: bool = False
    rising: float = 0.0

    def __post_init__(self) -> None:
        every = 1 if self.every is None else self.every
        at_least("Adam", rate=(self.rate, 0.0), epochs=(self.epochs, 0.0), batch=(self.batch, 1), every=(every, 1),
                 rising=(self.rising, 0.0))  # fmt: skip

    def __call__(self, terms: Sequence[Term], start: Params) -> Iterator[Params]:
        factors = [t for t in terms if isinstance(t, Factor)]
        largest = max((len(f) for f in factors), default=0)
        per_epoch = max(1, -(-largest // self.batch))
        noise, draws = (torch.Generator().manual_seed(self.seed) for _ in range(2))
        streams = [_batches(t, self.batch, noise) if isinstance(t, Factor) else _forever(t) for t in terms]
        moments = Moments(flatten(start).clone())
        point = unflatten(moments.point, start)  # views, which move with it
        steps = round(self.epochs * per_epoch)
        last = flatten(start)
        seen: Value = 0.0
        for i in range(steps):
            with coarse(point):
                value, grad = total([self._read(next(s), draws) for s in streams], point)
            seen = seen + value  # not waited for
            moments.step(flatten(grad), self._rate(i, steps))
            if (i + 1) % (self.every or per_epoch) == 0 or i + 1 == steps:
                if torch.as_tensor(seen).isnan():
                    raise NonFinite(
                        f"the log-likelihood is NaN by step {i}; Adam; lower the step size or check the data"
                    )
                yield _checked({k: v.clone() for k, v in point.items()}, i)
            if self.tolerance and (i + 1) % per_epoch == 0:
                here = moments.point.clone()
                if (here - last).norm() <= self.tolerance * here.norm():
                    return
                last = here

    def _rate(self, i: int, steps: int) -> float:
        risen = min(1.0, (i + 1) / (self.rising * steps)) if self.rising else 1.0
        return self.rate * risen * (1 - i / steps if self.decay else 1.0)

    def _read(self, term: Term, draws: torch.Generator) -> Term:
        if not (self.augmented and isinstance(term, Factor) and term.examples.training is not None):
            return term
        seed = int(torch.randint(2**31, (), generator=draws))
        return replace(term, examples=term.examples.anew(seed))

    def finer(self) -> Adam:
        return replace(self, rate=self.rate * FINER, every=1)


def coarse(theta: Params) -> AbstractContextManager[Any]:
    """Inside, a large model on a GPU computes in bfloat16 where autocast allows: its rounding is far smaller than the
    differences between gradients of batches."""
    on = large(theta) and all(v.is_cuda for v in theta.values())
    return torch.autocast("cuda", torch.bfloat16) if on else nullcontext()


def _batches(factor: Factor, size: int, noise: torch.Generator) -> Iterator[Factor]:
    """Random batches, each scaled up to represent the whole."""
    if len(factor) <= size:
        yield from _forever(factor)
    while True:
        shuffled = factor[torch.randperm(len(factor), generator=noise).numpy()]
        for s in range(0, len(factor), size):
            part = shuffled[s : s + size]
            yield replace(part, weights=part.weights * (len(factor) / len(part)))


def _forever(term):
    while True:
        yield term
