"""What a posterior's change says of examples: r(C) in its exact predictive form, and to first order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from amends.curvature.kinds import slope
from amends.data.examples import Inputs
from amends.errors import NonFinite, NotConverged
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.likelihoods import Likelihood
from amends.posteriors import Posterior


def first_order(before: Posterior, after: Posterior, train: Factor) -> Tensor:
    """r̃(z) = E_q log p(z|θ) − E_{q₊F} log p(z|θ) of every example, Eq. final_influence_score."""
    return before.rows(train.per_example).mean(0) - after.rows(train.per_example).mean(0)


def as_it_came(q: Posterior, start: Params) -> bool:
    """Whether a posterior says what the model with the weights `start` says: it has neither draws nor members."""
    return q.mean is start and not getattr(q, "draws", 0) and not getattr(q, "members", ())


def in_one_reading(before: Posterior, after: Posterior, train: Factor) -> tuple[Tensor, Tensor]:
    """log p(z|θ̂) and `first_order` of every example, each read once. Where posteriors are drawn from, every draw would
    be made again for every batch; then D is gone through draw by draw."""
    network, start = train.network, train.network.params
    if any(getattr(q, "draws", 0) for q in (before, after, *getattr(before, "members", ()))):
        return train.per_example(start), first_order(before, after, train)

    alone = as_it_came(before, start)

    def part(at: slice, x: Inputs, y: Tensor) -> Tensor:
        log_p = network.log_prob(start, x, y)
        was = log_p if alone else before.rows(lambda theta: network.log_prob(theta, x, y)).mean(0)
        return torch.stack([log_p, was - after.rows(lambda theta: network.log_prob(theta, x, y)).mean(0)], 1)

    log_p, lost = train.rows(part).reshape(len(train), 2).unbind(1)
    return log_p.contiguous(), lost.contiguous()


def label_part(before: Posterior, after: Posterior, train: Factor) -> Tensor:
    """What of r̃(z) the label of z is to blame for: −∇log p(z|f) · (f₊ − f), f the model's outputs.

    For the families here exactly r̃(z) = this + KL(p̂(·|x) ‖ p₊(·|x)). The second summand does not
    know the label: whatever was written on x, the edit changed the prediction there by that much.
    What is left is r̃(z) less its mean over labels drawn from the model itself; it is the first
    order of what leaving z out would do to the failures, with the edit's own finite step in place
    of an inverse curvature. An example the model expected has no gradient and no part in it.
    """
    network = train.network

    def part(x: Inputs, y: Tensor) -> Tensor:
        new, old = (q.rows(lambda theta: network.outputs(theta, x)) for q in (after, before))
        return to_blame(network.likelihood, old, new, y)

    return train.map(part)


def to_blame(likelihood: Likelihood, old: Tensor, new: Tensor, y: Tensor) -> Tensor:
    """`label_part` from the outputs themselves, one row for each draw."""
    y = y.to(old.dtype) if y.is_floating_point() else y
    parts = [slope(likelihood, f, y) * (f - g) for f, g in zip(old, new, strict=True)]
    return torch.stack(parts).flatten(2).sum(2).mean(0)


def predictive(before: Posterior, after: Posterior, train: Factor, *, least_effective: float = 0.05) -> Tensor:
    """r(z) = log E_{q₊F}[1/p(z|θ)] − log E_q[1/p(z|θ)] of every example, Eq. predictive_log_density_ratio.

    Both posteriors draw samples. Refused when the draws do not carry the averages.
    """
    logs = [-q.rows(train.per_example).double() for q in (before, after)]
    for log in logs:
        draws = len(log)
        if not log.isfinite().all():
            raise NonFinite("log p(z|θ) is not finite for a draw; predictive form; check the model's loss")
        weight = (log - log.max(0).values).exp()
        effective = weight.sum(0) ** 2 / (weight**2).sum(0)
        few = effective < max(2.0, least_effective * draws)
        if draws < 2 or bool(few.any()):
            raise NotConverged(
                f"too few of {draws} draws carry the average of 1/p(z|θ) for {int(few.sum())} of {len(train)} "
                "examples; predictive form; use more draws, a narrower posterior, or the first-order form"
            )
    return logs[1].logsumexp(0) - logs[0].logsumexp(0) + math.log(len(logs[0])) - math.log(len(logs[1]))


@dataclass(frozen=True)
class Ratio:
    """r(C) in nats with its standard error, the first-order sum beside it, and how many of the
    draws effectively carry each of the two averages."""

    value: float
    error: float
    first_order: float
    effective_before: float
    effective_after: float
    draws: int


def log_density_ratio(before: Posterior, after: Posterior, causes: Factor, *, least_effective: float = 0.05) -> Ratio:
    """log E_{q₊F}[1/p(C|θ)] − log E_q[1/p(C|θ)], Eq. predictive_log_density_ratio.

    `before` is q and `after` q₊F, both drawing samples (`Gaussian.sampled`). 1/p(C|θ) can have
    infinite variance: when fewer than `least_effective` of the draws carry an average, the
    estimate means nothing and is refused.
    """
    w = causes.weights.to(causes.network.device)
    logs = [-(q.rows(causes.per_example).double() * w).sum(1) for q in (before, after)]
    parts = [_log_mean_exp(log, least_effective) for log in logs]
    (low, low_error, low_size), (high, high_error, high_size) = parts
    first = float(logs[1].mean() - logs[0].mean())
    return Ratio(high - low, (low_error**2 + high_error**2) ** 0.5, first, low_size, high_size, len(logs[0]))


def _log_mean_exp(log: Tensor, least: float) -> tuple[float, float, float]:
    """log of the mean, its standard error by the delta method, and the effective sample size."""
    if not log.isfinite().all():
        raise NonFinite("log p(C|θ) is not finite for a draw; log_density_ratio; check the model's loss")
    n = len(log)
    weight = (log - log.max()).exp()
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    if n < 2 or effective < max(2.0, least * n):
        raise NotConverged(
            f"only {effective:.1f} of {n} draws carry the average of 1/p(C|θ); log_density_ratio; "
            "use fewer causes at a time, more draws, or the first-order sum"
        )
    spread = float(weight.std() / weight.mean()) / n**0.5
    return float(log.logsumexp(0)) - float(torch.tensor(float(n)).log()), spread, effective
