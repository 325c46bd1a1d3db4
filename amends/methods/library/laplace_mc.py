"""The density ratio r(z) from draws of a Laplace posterior (Tanno et al. 2022; last layers: Daxberger et al. 2021)."""

from __future__ import annotations

from amends.curvature import Damped, Kronecker
from amends.editors import Climber, Mode
from amends.methods.base import EXACT, Method
from amends.methods.ratio import first_order, predictive
from amends.posteriors import Curvature
from amends.remember import Laplace


def laplace_mc(
    curvature: Curvature | None = None,
    draws: int = 50,
    exact: bool = True,
    last_layer: bool = True,
    climb: Climber | None = None,
    seed: int = 0,
) -> Method:
    """r(z) from draws of q and q₊F: in its predictive form, or to first order (`exact=False`).

    The predictive form is refused when too few draws carry it, as they never did over all of the
    layers of a network; a larger damping or more draws help. With the same noise before and after."""
    remember = Laplace(curvature or Damped(Kronecker(EXACT), 1.0), last_layer=last_layer, draws=draws, seed=seed)
    return Method(remember, Mode() if climb is None else Mode(climb), score=predictive if exact else first_order)
