"""The fitted spread of a mean-field posterior, against its closed form."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.editors.climb import LBFGS
from amends.remember import Variational as FittedSpread
from tests.conftest import at_optimum, factor


@pytest.mark.parametrize("prior", [0.7, 200.0])
def test_vcl_s_spread_is_the_exact_mean_field_solution(prior):
    """Of a Gaussian posterior with precision P it is 1/√diag P; the mean stays where it is."""
    x, y, network, precision = at_optimum(prior=prior)
    data = factor(network, x, y, batch=64)
    climb = LBFGS(30, tolerance=1e-8)
    fits = [FittedSpread(prior=prior, draws=64, climb=climb, seed=s)(data) for s in range(8)]
    assert fits[0].mean is network.params
    spread = torch.stack([q.spread["weight"][0] for q in fits])
    assert not torch.equal(spread[0], spread[1])
    assert_close(spread.mean(0), precision.diagonal().rsqrt(), rtol=0.04, atol=0)  # each is within 3 %, their mean 1 %
