"""Editing a mean-field posterior, against its closed form."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.editors import Variational, follow, open_ended
from amends.editors.climb import LBFGS
from amends.posteriors import MeanField
from amends.posteriors.meanfield import Divergence
from tests.conftest import at_optimum, factor

SIGMA = 0.5


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["insert", "delete"])
def test_vcl_s_edit_is_the_exact_mean_field_solution(sign):
    """max E_q̃ log p(S)^w − KL(q̃‖q) in closed form: precisions add on the diagonal, and the mean solves
    (1/σ² + w XᵀX/s²)(m − μ) = w Xᵀ(y − Xμ)/s². Pairs ±ε make the mean exact whatever the draws."""
    x, y, network, precision = at_optimum()
    some = factor(network, x[:8], y[:8], "train" if sign < 0 else "failures")
    q = MeanField(network.params, {"weight": precision.diagonal().rsqrt()[None]})
    editor = Variational(draws=128, climb=LBFGS(40, tolerance=1e-9), unlearn=LBFGS(40, tolerance=1e-9))
    after = follow(editor(q, sign * some))
    gram, mu = x[:8].T @ x[:8] / SIGMA**2, network.params["weight"][0]
    residual = x[:8].T @ (y[:8, 0] - x[:8] @ mu) / SIGMA**2
    mean = mu + torch.linalg.solve(precision.diagonal().diag() + sign * gram, sign * residual)
    assert_close(after.mean["weight"][0], mean, rtol=1e-6, atol=1e-7)
    spread = (precision.diagonal() + sign * gram.diagonal()).rsqrt()
    assert_close(after.spread["weight"][0], spread, rtol=0.04, atol=0)  # 1,024 draws, 2 %
    assert open_ended(editor, q, sign * some) == (sign < 0)


def test_a_divergence_has_the_slope_and_curvature_of_torchs():
    """−KL of N(ν, e²ᵖ) from N(0, 1), summed, by automatic differentiation of torch's own formula."""
    theta = {"w": torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64)}
    theta["log w"] = torch.tensor([0.4, -0.7, 0.1], dtype=torch.float64)

    def reference(both):
        q = torch.distributions.Normal(both[:3], both[3:].exp())
        return -torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum()

    flat = torch.cat([theta["w"], theta["log w"]])
    value, grad = Divergence().value_and_grad(theta)
    assert value == pytest.approx(float(reference(flat)), abs=1e-12)
    assert_close(torch.cat([grad["w"], grad["log w"]]), torch.func.grad(reference)(flat), atol=1e-12, rtol=0)
    assert_close(Divergence().hessian(theta), torch.func.hessian(reference)(flat), atol=1e-12, rtol=0)
