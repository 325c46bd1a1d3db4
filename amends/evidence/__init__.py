"""The network at the edge and evidence as Σ wᵢ log p(zᵢ|θ): model and data come in, factors go out."""
