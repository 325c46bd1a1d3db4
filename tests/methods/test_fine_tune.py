"""Going on with training: where it ends, and what it is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.errors import BadInput
from tests.conftest import classification, factor, plain


def test_fine_tuning_on_failures_alone_is_held_by_its_pull():
    """Zhu et al. as a Lagrangian: the optimum of log p(F) − ½ pull ‖θ − θ̂‖²; the causes play no part."""
    x, y, network = classification()
    failures = (x[50:], y[50:])
    method = methods.fine_tune(rate=0.02, epochs=800, kept=False, learn=True, pull=2.0)
    model = amends.treat(plain(network), (x[:50], y[:50]), [1, 2], failures=failures, method=method)
    data = factor(network, *failures)
    _, grad = data.value_and_grad({k: p.detach() for k, p in model.named_parameters()})
    for k, p in model.named_parameters():
        assert_close(grad[k], 2.0 * (p.detach() - network.params[k]), atol=1e-3, rtol=0)
    with pytest.raises(BadInput, match="set kept or learn"):
        methods.fine_tune(kept=False)


def test_relabelled_causes_are_learned_as_the_model_then_sees_them():
    """First the optimum of D∖C, then that of D with the labels it gives C."""
    x, y, network = classification(n=80)
    causes = np.arange(12)
    method = methods.fine_tune(rate=0.05, epochs=300, batch=80)
    without = amends.treat(plain(network), (x, y), causes, method=method)
    again = amends.treat(plain(network), (x, y), causes, method=methods.fine_tune(0.05, 300, 80, relabel=True))
    seen = y.clone()
    seen[:12] = without(x[:12]).argmax(1)
    assert (seen != y).any()
    for model, targets, least, most in ((again, seen, 0.0, 1e-3), (without, seen, 1e-2, 1e9)):
        grads = torch.autograd.grad(nn.functional.cross_entropy(model(x), targets), list(model.parameters()))
        assert least <= max(float(g.abs().max()) for g in grads) < most
    assert torch.equal(y, classification(n=80)[1])
    with pytest.raises(BadInput, match="set kept=True"):
        methods.fine_tune(kept=False, learn=True, relabel=True)
