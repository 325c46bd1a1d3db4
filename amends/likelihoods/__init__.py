"""log p(y | outputs), one value an example, in nats."""

from amends.likelihoods.base import Custom, Likelihood, as_likelihood
from amends.likelihoods.bernoulli import Bernoulli
from amends.likelihoods.categorical import Categorical
from amends.likelihoods.gaussian import Gaussian

__all__ = ["Bernoulli", "Categorical", "Custom", "Gaussian", "Likelihood", "as_likelihood"]
