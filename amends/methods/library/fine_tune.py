"""Goes on training on what is kept of D."""

from __future__ import annotations

from amends.curvature import Isotropic
from amends.editors import Adam, Mode, Relabel
from amends.errors import BadInput
from amends.methods.base import Method
from amends.remember import Data, Laplace


def training(
    rate: float, epochs: float, batch: int, seed: int = 0, augmented: bool = True, rising: float = 0.0
) -> Adam:
    """Adam with a rate that falls to zero, after it rose over a share of the steps. It reads augmented batches unless
    told otherwise, and yields only its end."""
    return Adam(
        rate=rate, epochs=epochs, batch=batch, every=10**9, decay=True, seed=seed, augmented=augmented, rising=rising
    )


def fine_tune(
    rate: float = 1e-3,
    epochs: float = 10,
    batch: int = 64,
    pull: float = 0.0,
    learn: bool = False,
    kept: bool = True,
    relabel: bool = False,
    seed: int = 0,
) -> Method:
    """Goes on training on what is kept; with `learn`, on the query failures as well. With `relabel` the
    causes then come back with the label the model predicts for them now, and it trains as long again.

    With `kept=False` on the failures alone, held near the start by `pull` (½ pull ‖θ − θ̂‖², the
    locality constraint of Zhu et al. 2020 as its Lagrangian)."""
    climb = training(rate, epochs, batch, seed)
    if kept:
        return Method(Data(pull), Relabel(climb) if relabel else Mode(climb, climb), learn=learn)
    if relabel:
        raise BadInput("fine_tune cannot relabel causes without training on D; set kept=True or relabel=False")
    if not learn:
        raise BadInput("fine_tune has nothing to learn from, since kept and learn are False; set kept or learn to True")
    return Method(Laplace(Isotropic(max(pull, 1e-12))), Mode(climb, climb), learn=True, forget=False)
