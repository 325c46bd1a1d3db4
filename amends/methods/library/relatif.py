"""Influence for its size: how much of what an example does to the model goes to the failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.func import vmap

from amends.curvature import Empirical, general_grads
from amends.curvature.dense import DensePrecision
from amends.curvature.implicit import ImplicitPrecision
from amends.errors import BadInput
from amends.evidence import Factor, Params, count
from amends.methods.base import Scorer
from amends.methods.solvers import checked, kronecker
from amends.posteriors import Curvature, Precision

HELD = 2**24  # numbers held at once: per-example gradients and what they are solved to


@dataclass(frozen=True)
class RelatIF:
    """−∇log p(F)ᵀP⁻¹∇log p(z) / size(z), positive is harmful (Barshan, Brunet & Dziugaite 2020).

    The size is what leaving z out changes in all: √(∇zᵀP⁻¹∇z), in the predictions (form="loss"), or
    ‖P⁻¹∇z‖, in the parameters (form="parameters"). Plain influence puts the same few outliers on
    top for any failures, because they change everything.
    """

    curvature: Curvature
    form: Literal["loss", "parameters"] = "loss"

    def __post_init__(self) -> None:
        if self.form not in ("loss", "parameters"):
            raise BadInput(f'form is {self.form!r}; RelatIF; pass "loss" or "parameters"')

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        network, theta = train.network, train.network.params
        precision = self.curvature(train, theta)
        if isinstance(precision, ImplicitPrecision):
            raise BadInput(
                "relatif solves once for every example, too often for a matrix-free solver; "
                "use diagonal, kronecker, ekfac or dense"
            )
        gain = precision.solve(failures.value_and_grad(theta)[1])
        probe = Empirical().probe(train)
        rows = []
        for at, x, y, _ in replace(train, batch=min(train.batch, max(1, HELD // (2 * count(theta))))).tiles():
            with torch.no_grad():
                (vector,) = probe(network.outputs(theta, x), y, at)
            grads = general_grads(network, theta, x, vector, tuple(theta))
            moved = _solved(precision, grads)
            size = _dots(grads if self.form == "loss" else moved, moved).sqrt()
            rows.append(-_dots(grads, {k: v[None] for k, v in gain.items()}) / size.where(size > 0, 1))
        return torch.cat(rows)


def _solved(precision: Precision, grads: Params) -> Params:
    """P⁻¹ of every row; a dense factor is copied for each row that is solved at once."""
    size = sum(g[0].numel() for g in grads.values())
    at_once = max(1, HELD // size**2) if isinstance(precision, DensePrecision) else None
    return vmap(precision.solve, chunk_size=at_once)(grads)


def _dots(a: Params, b: Params) -> Tensor:
    """⟨a, b⟩ row by row, in float64: the square of a small gradient would be lost in float32."""
    return torch.stack([(a[k].double() * b[k].double()).flatten(1).sum(1) for k in a]).sum(0)


def relatif(solver: Curvature | None = None, parameters: bool = False) -> Scorer:
    """Linear influence relative to how far an example moves the model at all (Barshan et al. 2020):
    its own influence on itself, or with `parameters` the length of its step."""
    return RelatIF(checked(solver, partial(kronecker, damping=10.0)), "parameters" if parameters else "loss")
