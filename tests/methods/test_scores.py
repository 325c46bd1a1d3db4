"""Numbers from elsewhere: read as they are, or refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from amends.errors import BadInput, NonFinite
from amends.methods.library.scores import Given, Oracle
from amends.methods.library.self_confidence import SelfConfidence
from tests.conftest import factor, regression
from tests.methods.worlds import world


@pytest.mark.parametrize("of", [Given, Oracle, SelfConfidence])
def test_numbers_from_elsewhere_are_one_each_and_finite(of):
    train, failures, _ = world(30)
    values = np.linspace(0, 1, 30)
    values.flags.writeable = False
    expected = 1 - values if of is SelfConfidence else values
    for given in (values, torch.as_tensor(values.copy()).requires_grad_(), values.tolist()):
        assert np.array_equal(of(given)(train, failures).numpy(), expected)
    with pytest.raises(BadInput, match=r"has shape \[29\], but train has 30 examples; pass one number for each"):
        of(values[1:])(train, failures)
    with pytest.raises(BadInput, match=r"has shape \[30, 1\]"):
        of(values[:, None])(train, failures)
    with pytest.raises(BadInput, match="cannot be read as numbers"):
        of(["high"] * 30)(train, failures)
    for bad in (np.nan, np.inf):
        with pytest.raises(NonFinite, match=rf"\w+\[3\] is {bad}; pass a finite number"):
            of(np.where(np.arange(30) == 3, bad, values))(train, failures)


def test_scores_given_are_copied():
    train, failures, _ = world(30)
    values = np.zeros(30)
    found = Given(values)(train, failures)
    values[0] = 1
    assert found[0] == 0


def test_oracle_wants_one_truth_each():
    x, y, network = regression()
    with pytest.raises(BadInput, match="truth has shape"):
        Oracle(np.ones(3))(factor(network, x, y), factor(network, x, y))
