"""The methods by name: what is remembered, and how evidence is put in or taken out.

A method is an immutable object; reuse it freely. `identify` and `treat` take any of them.
"""

from amends.methods.base import Method, Scorer, weighted
from amends.methods.choice import BY_NAME, IDENTIFY, SOLVERS, TREAT, Default, default, named
from amends.methods.edits import (
    ensemble,
    ewc,
    ewc_as_printed,
    functional,
    kfac_ewc,
    kfac_ewc_as_printed,
    laplace_mc,
    ogd,
    online_ewc,
    si,
    vcl,
)
from amends.methods.quick import (
    fisher_kernel,
    grad_dot,
    linear,
    loss,
    oracle,
    random,
    relatif,
    scores,
    self_confidence,
    sgd_influence,
    shapley,
    sufficiency,
    tracin,
)
from amends.methods.solvers import cg, dense, diagonal, ekfac, gd, kronecker, sa
from amends.methods.treatments import fine_tune, newton, retrain

__all__ = [
    "BY_NAME", "IDENTIFY", "SOLVERS", "TREAT", "Default", "Method", "Scorer", "cg", "default", "dense",
    "diagonal", "ekfac", "ensemble", "ewc", "ewc_as_printed", "fine_tune", "fisher_kernel", "functional", "gd",
    "grad_dot", "kfac_ewc", "kfac_ewc_as_printed", "kronecker", "laplace_mc", "linear", "loss", "named", "newton",
    "ogd", "online_ewc", "oracle", "random", "relatif", "retrain", "sa", "scores", "self_confidence", "sgd_influence",
    "shapley", "si", "sufficiency", "tracin", "vcl", "weighted",
]  # fmt: skip
