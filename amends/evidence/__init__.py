"""The network at the edge and evidence as Σ wᵢ log p(zᵢ|θ): model and data come in, factors go out."""

from amends.evidence.factor import Factor, Term
from amends.evidence.network import Network, derivative, transformable
from amends.evidence.params import Params, count, dot, flatten, plus, scaled, unflatten, zeros_like

__all__ = [
    "Factor", "Network", "Params", "Term", "count", "derivative", "dot", "flatten", "plus", "scaled", "transformable",
    "unflatten", "zeros_like",
]  # fmt: skip
