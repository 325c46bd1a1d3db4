"""log p(y | outputs): outputs and targets come in, one value per example, in nats, goes out."""

from amends.data.targets import token_targets
from amends.likelihoods.base import Custom, Likelihood, as_likelihood, asked, probability
from amends.likelihoods.bernoulli import Bernoulli
from amends.likelihoods.categorical import Categorical
from amends.likelihoods.gaussian import Gaussian
from amends.likelihoods.tokens import Tokens
from amends.likelihoods.weighted import Weighted, with_weights

__all__ = [
    "Bernoulli", "Categorical", "Custom", "Gaussian", "Likelihood", "Tokens", "Weighted", "as_likelihood", "asked",
    "probability", "token_targets", "with_weights",
]  # fmt: skip
