"""Every method where the truth is known: softmax regression trained to convergence on 100 examples.

    python benchmarks/convex.py

Identification is compared with retraining without each example, and without each of 40 random sets of 10. Reported are
the rank correlation, the share of the true change (the slope of scores over it), and the largest error relative to the
largest true change. Solvers have their default options. Treatment is compared with retraining on what is kept: how much
of the way there it gets. Float64, on a CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amends import methods
from amends.algorithm.identify import Influence, identify
from amends.algorithm.treat import treat
from amends.curvature import GGN, Dense, Diagonal
from amends.editors.climb import LBFGS, FixedPoint

RIDGE = 0.05  # just enough to make the optimum unique; passed to methods with a prior, not to the solvers
CLASSES, FEATURES = 3, 4
SIZES = (1, 5, 10, 20, 40)


@dataclass(frozen=True, eq=False)
class Convex:
    """The training set D, the failures F, other examples the model gets right, and the weights at the optimum."""

    x: Tensor
    y: Tensor
    failures: tuple[Tensor, Tensor]
    remaining: tuple[Tensor, Tensor]
    w: Tensor

    @property
    def model(self) -> nn.Module:
        return linear_model(self.w)


def linear_model(w: Tensor) -> nn.Module:
    model = nn.Linear(FEATURES, CLASSES, dtype=torch.float64)
    model.load_state_dict({"weight": w[:, :-1], "bias": w[:, -1]})
    return model


def fit(x: Tensor, y: Tensor, start: Tensor | None = None) -> Tensor:
    """The optimum of Σ log p − ½ ridge ‖w‖², by Newton's method; the bias is the last column."""
    ext = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    w = torch.zeros(CLASSES, FEATURES + 1, dtype=x.dtype) if start is None else start
    for _ in range(50):
        p = (ext @ w.T).softmax(1)
        grad = (nn.functional.one_hot(y, CLASSES).to(x) - p).T @ ext - RIDGE * w
        outer = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        hess = torch.einsum("nij,na,nb->iajb", outer, ext, ext).reshape(w.numel(), w.numel())
        move = torch.linalg.solve(hess + RIDGE * torch.eye(w.numel(), dtype=x.dtype), grad.reshape(-1)).view_as(w)
        w = w + move
        if move.norm() < 1e-11:
            return w
    raise ArithmeticError("Newton's method did not converge")


@cache
def problem(seed: int = 0) -> Convex:
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=g, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (600,), generator=g)
    x = centres[y] + torch.randn(600, FEATURES, generator=g, dtype=torch.float64)
    labels = y.clone()
    labels[:10] = (y[:10] + 1) % CLASSES  # ten wrong labels in D
    w = fit(x[:100], labels[:100])
    right = (linear_model(w)(x).argmax(1) == y) & (torch.arange(600) >= 100)
    wrong = ~right & (torch.arange(600) >= 100)
    return Convex(x[:100], labels[:100], (x[wrong][:20], y[wrong][:20]), (x[right][:100], y[right][:100]), w)


def gain(world: Convex, w: Tensor) -> float:
    """log p(F) at w, minus its value at the trained optimum."""
    x, y = world.failures
    rows = torch.arange(len(y))
    with torch.no_grad():
        after, before = (linear_model(v)(x).log_softmax(1)[rows, y].sum() for v in (w, world.w))
    return float(after - before)


@cache
def left_out(seed: int = 0) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """The true change of log p(F) when each example, and each of 40 sets, is left out: found by retraining."""
    world = problem(seed)
    indices = np.arange(len(world.x))

    def without(removed: np.ndarray) -> float:
        kept = torch.as_tensor(np.setdiff1d(indices, removed))
        return gain(world, fit(world.x[kept], world.y[kept], world.w))

    sets = [np.random.default_rng([seed, i]).choice(100, 10, replace=False) for i in range(40)]
    return np.array([without(indices[i : i + 1]) for i in indices]), sets, np.array([without(s) for s in sets])


IDENTIFY: dict[str, Any] = {
    "linear, dense": methods.linear(methods.dense()),
    "linear, cg": methods.linear(methods.cg()),
    "linear, gd": methods.linear(methods.gd()),
    "linear, sa": methods.linear(methods.sa()),
    "linear, ekfac": methods.linear(methods.ekfac()),
    "linear, kronecker": methods.linear(methods.kronecker()),
    "linear, diagonal": methods.linear(methods.diagonal()),
    "mode, dense": methods.Method(methods.linear(Dense(GGN(), RIDGE)).remember, methods.ewc().editor),
    "kfac_ewc": methods.kfac_ewc(RIDGE, GGN()),
    "ewc": methods.ewc(RIDGE),
    "ewc_as_printed": methods.ewc_as_printed(),
    "kfac_ewc_as_printed": methods.kfac_ewc_as_printed(),
    "online_ewc": methods.online_ewc(prior=RIDGE),
    "si": methods.si(),
    "vcl": methods.vcl(RIDGE, draws=32),
    "laplace_mc, dense": methods.laplace_mc(Dense(GGN(), RIDGE), draws=200, last_layer=False),
    "laplace_mc, diagonal": methods.laplace_mc(Diagonal(GGN(), RIDGE), draws=200, last_layer=False),
    "ogd": methods.ogd(memory=3),
    "functional on D, 1": methods.functional(1.0, on_train=True, on_remaining=False),
    "functional on remaining, .1": methods.functional(0.1),
    "ensemble of ewc, samples": methods.ensemble(methods.ewc(RIDGE)),
    "sgd_influence": methods.sgd_influence(epochs=5, batch=10),
    "sgd_influence, as published": methods.sgd_influence(corrected=False, epochs=5, batch=10),
    "tracin": methods.tracin(),
    "grad_dot": methods.grad_dot(),
    "fisher_kernel": methods.fisher_kernel(),
    "relatif": methods.relatif(Dense(GGN(), RIDGE)),
    "sufficiency": methods.sufficiency(Dense(GGN(), RIDGE)),
    "shapley": methods.shapley(permutations=200, tolerance=0.0),
    "self_confidence": methods.self_confidence(),
    "loss": methods.loss(),
    "random": methods.random(),
    "default": methods.default(),
}

TREAT: dict[str, Any] = {
    "retrain": methods.retrain(rate=0.05, epochs=500, batch=100),
    "fine_tune": methods.fine_tune(rate=0.02, epochs=300, batch=100),
    "newton, dense": methods.newton(methods.dense()),
    "newton, cg": methods.newton(methods.cg()),
    "newton, sa": methods.newton(methods.sa()),
    "newton, ekfac": methods.newton(methods.ekfac()),
    "newton, kronecker": methods.newton(methods.kronecker()),
    "newton, diagonal": methods.newton(methods.diagonal()),
    "mode, dense": methods.Method(
        methods.linear(Dense(GGN(), RIDGE)).remember, methods.ewc(unlearn=LBFGS(steps=200, tolerance=1e-10)).editor
    ),
    "ewc": methods.ewc(RIDGE, unlearn=FixedPoint(400, 0.1)),
    "kfac_ewc": methods.kfac_ewc(RIDGE, unlearn=FixedPoint(400, 0.1)),
    "ewc_as_printed": methods.ewc_as_printed(),
    "kfac_ewc_as_printed": methods.kfac_ewc_as_printed(),
    "online_ewc, decay 1": methods.online_ewc(1.0, RIDGE, unlearn=FixedPoint(400, 0.1)),
    "si": methods.si(unlearn=FixedPoint(400, 0.1)),
    "vcl": methods.vcl(RIDGE, draws=32),
    "ogd": methods.ogd(memory=3),
    "functional on D, 1": methods.functional(1.0, on_train=True, on_remaining=False),
    "default": methods.default(),
    "ensemble of newton, samples": methods.ensemble(methods.newton(methods.dense())),
}


def unlisted(rows: dict[str, Any], makers: dict[str, Any]) -> dict[str, Any]:
    """Methods without a row of their own, with default options."""
    listed = {re.split(",| of | on ", row)[0] for row in rows}
    return {name: make() for name, make in makers.items() if name not in listed}


IDENTIFY |= unlisted(IDENTIFY, methods.IDENTIFY)
TREAT |= unlisted(TREAT, methods.TREAT)


def found(name: str, seed: int = 0) -> Influence:
    world = problem(seed)
    sets = (world.x, world.y), world.failures
    return identify(world.model, *sets, remaining=world.remaining, method=IDENTIFY[name])


def scores(name: str, seed: int = 0) -> np.ndarray:
    return found(name, seed).scores


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(v)).astype(float) for v in (a, b)]
    return float(np.corrcoef(np.stack(ranks))[0, 1])


def compared(name: str, seed: int = 0) -> dict[str, float]:
    """Scores compared with leaving out one example (rank, share of the true change, largest error) and ten."""
    one_each = scores(name, seed)
    one, sets, ten = left_out(seed)
    summed = np.array([one_each[s].sum() for s in sets])
    return {
        "rank, one": rank_correlation(one_each, one),
        "share, one": float(one_each @ one / (one @ one)),
        "error, one": float(np.abs(one_each - one).max() / np.abs(one).max()),
        "rank, ten": rank_correlation(summed, ten),
        "error, ten": float(np.abs(summed - ten).max() / np.abs(ten).max()),
    }


def left_to_go(name: str, size: int, seed: int = 0) -> float:
    """Distance of the outputs to those of the retrained optimum, divided by the same distance before the treatment."""
    world = problem(seed)
    causes = np.arange(size)
    best = fit(world.x[size:], world.y[size:], world.w)
    model = treat(
        world.model, (world.x, world.y), causes, failures=world.failures, remaining=world.remaining, method=TREAT[name]
    )
    with torch.no_grad():
        p, start, end = (m(world.x).softmax(1) for m in (model, world.model, linear_model(best)))
    return float((p - end).norm() / (start - end).norm())


def table(seeds: int = 3) -> Iterator[str]:
    columns = ["rank, one", "share, one", "error, one", "rank, ten", "error, ten"]
    yield "| identify | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name in IDENTIFY:
        rows = [compared(name, seed) for seed in range(seeds)]
        cells = [f"{np.mean([r[c] for r in rows]):.3f} ± {np.std([r[c] for r in rows]):.3f}" for c in columns]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    yield "| treat, what is left of the way after deleting | " + " | ".join(map(str, SIZES)) + " |"
    yield "|---" * (len(SIZES) + 1) + "|"
    for name in TREAT:
        cells = [[left_to_go(name, size, seed) for seed in range(seeds)] for size in SIZES]
        yield f"| {name} | " + " | ".join(f"{np.mean(c):.3f} ± {np.std(c):.3f}" for c in cells) + " |"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in table():
        print(line, flush=True)
