"""Every method and solver, one line each, without torch.

`amends.methods` finds its names here; the config and the command line take their choices from here. `make tables`
writes the stub of the package and the tables of the docs from it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Step = Literal["identify", "treat"]
BOTH: tuple[Step, ...] = ("identify", "treat")
IDENTIFY: tuple[Step, ...] = ("identify",)
TREAT: tuple[Step, ...] = ("treat",)
PRINTED = "mode, with the paper's Adam and early stop"


class Row(NamedTuple):
    """A method: its name, its file in `library/`, the steps it serves, and what the docs say of it at a glance."""

    name: str
    file: str
    steps: tuple[Step, ...]
    remembers: str = ""
    editor: str = ""
    needs: str = ""
    by_name: bool = True  # False where it needs an array, which neither a config nor a command line can hold


METHODS = (
    Row("default", "default", BOTH, "see below"),
    Row("ewc", "ewc", BOTH, "quadratic, diagonal Fisher", "mode"),
    Row("ewc_as_printed", "ewc", BOTH, "quadratic, diagonal Fisher", PRINTED),
    Row("kfac_ewc", "ewc", BOTH, "quadratic, Kronecker Fisher", "mode"),
    Row("kfac_ewc_as_printed", "ewc", BOTH, "quadratic, Kronecker Fisher", PRINTED),
    Row("online_ewc", "ewc", BOTH, "quadratic, running and fading", "mode"),
    Row("si", "si", BOTH, "quadratic, path integral", "mode", "a recorded run, or a replay"),
    Row("vcl", "vcl", BOTH, "mean-field Gaussian, spread fitted", "variational"),
    Row("ogd", "ogd", BOTH, "a basis of gradients on D", "mode, projected"),
    Row("functional", "functional", BOTH, "its predictions on chosen inputs", "mode", "`remaining`, or D in its place"),
    Row("ensemble", "ensemble", BOTH, "several of any of these", "each", "models, or draws"),
    Row("linear", "linear", IDENTIFY, "Gaussian", "tangent", "a solver, `cg` unless told otherwise"),
    Row("grad_dot", "linear", IDENTIFY, "nothing", "tangent"),
    Row("fisher_kernel", "linear", IDENTIFY, "the empirical Fisher", "tangent"),
    Row("relatif", "relatif", IDENTIFY, "a curvature", "(scorer)"),
    Row("tracin", "tracin", IDENTIFY, "a run", "(scorer)", "checkpoints, or the model alone"),
    Row("sgd_influence", "sgd_influence", IDENTIFY, "a run", "(scorer)", "a recorded run, or a replay"),
    Row("laplace_mc", "laplace_mc", IDENTIFY, "Gaussian, drawn from", "mode"),
    Row("shapley", "shapley", IDENTIFY, "features of D", "(scorer)", "a last linear layer"),
    Row("knn_shapley", "knn_shapley", IDENTIFY, "features of D", "(scorer)", "classes, and a last linear layer"),
    Row("sufficiency", "sufficiency", IDENTIFY, "a curvature", "(scorer)"),
    Row("loss", "loss", IDENTIFY, editor="(scorer)"),
    Row("self_confidence", "self_confidence", IDENTIFY, editor="(scorer)"),
    Row("random", "random", IDENTIFY, editor="(scorer)"),
    Row("oracle", "scores", IDENTIFY, editor="(scorer)", needs="the truth", by_name=False),
    Row("scores", "scores", IDENTIFY, editor="(scorer)", needs="an array of scores", by_name=False),
    Row("fine_tune", "fine_tune", TREAT, "D itself", "mode"),
    Row("newton", "newton", TREAT, "Gaussian", "one step, or line-searched", "a solver, `cg` unless told otherwise"),
    Row("retrain", "retrain", TREAT, "D itself", "from new weights"),
)
SOLVERS = ("gd", "sa", "cg", "diagonal", "kronecker", "ekfac", "dense")  # functions of `solvers.py`

HOMES = {  # of every public name of amends.methods
    **{row.name: f"amends.methods.library.{row.file}" for row in METHODS},
    **dict.fromkeys(SOLVERS, "amends.methods.solvers"),
    **dict.fromkeys(("Method", "Scorer", "weighted"), "amends.methods.base"),
    **dict.fromkeys(("BY_NAME", "IDENTIFY", "SOLVERS", "TREAT", "named"), "amends.methods.by_name"),
    "Default": "amends.methods.library.default",
}


def names(step: Step) -> tuple[str, ...]:
    """The methods that a config or a command line can name for this step, those for both steps first."""
    return tuple(row.name for row in METHODS if row.by_name and step in row.steps)
