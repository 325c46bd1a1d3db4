"""Editing a mean-field posterior, against its closed form."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.editors import Variational, follow, open_ended
from amends.editors.climb import LBFGS
from amends.posteriors import MeanField
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
