"""Find the training data behind a model's failures, and repair the model by making it forget them.

    result = amends.repair(model, train, failures, remaining)

`identify` scores the training examples, `treat` forgets some of them, `repair` does both and
judges the result on failures it did not search with. `methods` holds the ways to do so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amends import callbacks, curvature, data, errors, export, likelihoods, methods, models, trace
    from amends.algorithm.identify import Influence, identify
    from amends.algorithm.options import Keep
    from amends.algorithm.split import Groups
    from amends.algorithm.treat import treat
    from amends.evaluation.predictions import failing
    from amends.patches.patch import Patch, apply
    from amends.web.notebook import review
    from amends.workflow.repair import Repair, repair

__version__ = "0.1.0"

_HOME = {
    "Groups": "amends.algorithm.split",
    "Influence": "amends.algorithm.identify",
    "Keep": "amends.algorithm.options",
    "Patch": "amends.patches.patch",
    "apply": "amends.patches.patch",
    "failing": "amends.evaluation.predictions",
    "identify": "amends.algorithm.identify",
    "Repair": "amends.workflow.repair",
    "repair": "amends.workflow.repair",
    "review": "amends.web.notebook",
    "treat": "amends.algorithm.treat",
}
_ROOMS = ("callbacks", "curvature", "data", "errors", "export", "likelihoods", "methods", "models", "trace")

__all__ = [
    "Groups", "Influence", "Keep", "Patch", "Repair", "__version__", "apply", "callbacks", "curvature", "data",
    "errors", "export", "failing", "identify", "likelihoods", "methods", "models", "repair", "review", "trace", "treat",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imported on first use, so that `amends --help` does not wait for torch."""
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _ROOMS:
        value = import_module(f"amends.{name}")
    else:
        raise AttributeError(f"module 'amends' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
