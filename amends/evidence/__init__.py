"""Evidence Σ wᵢ log p(zᵢ|θ): a model and data sets come in, factors under a private copy of the model go out."""

from amends.evidence.factor import Factor, Term
from amends.evidence.network import Network, derivative, transformable
from amends.evidence.params import Params, count, dot, flatten, plus, scaled, unflatten, zeros_like

__all__ = [
    "Factor", "Network", "Params", "Term", "count", "derivative", "dot", "flatten", "plus", "scaled", "transformable",
    "unflatten", "zeros_like",
]  # fmt: skip
