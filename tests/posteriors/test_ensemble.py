"""Ensembles: scores and predictions are means over the members; what cannot work is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.curvature import GGN, Dense, Diagonal
from amends.editors import Each, Mode, Variational, follow
from amends.errors import BadInput
from amends.posteriors import Ensemble
from amends.remember import Laplace, Members
from tests.conftest import classification, factor


def test_an_ensemble_scores_as_the_mean_of_its_members():
    x, y, _ = classification()
    torch.manual_seed(0)
    models = [nn.Linear(3, 3, dtype=torch.float64) for _ in range(3)]
    sets = (x[:50], y[:50]), (x[50:], y[50:])
    alone = [amends.identify(m, *sets, method=methods.ewc()).scores for m in models]
    together = methods.ensemble(methods.ewc(), models=[models[1], models[2].state_dict()])
    influence = amends.identify(models[0], *sets, method=together)
    np.testing.assert_allclose(influence.scores, np.mean(alone, 0), rtol=1e-9, atol=1e-12)


def test_treating_an_ensemble_averages_predictions():
    x, y, _ = classification()
    torch.manual_seed(0)
    models = [nn.Linear(3, 3, dtype=torch.float64) for _ in range(2)]
    newton = methods.newton(Dense(GGN(), prior=5.0))
    alone = [amends.treat(m, (x, y), [1, 2, 3], method=newton) for m in models]
    both = amends.treat(models[0], (x, y), [1, 2, 3], method=methods.ensemble(newton, models=models[1:]))
    expected = torch.stack([m(x).softmax(1) for m in alone]).mean(0).log()
    assert_close(both(x), expected)
    with pytest.raises(BadInput, match="an ensemble of models repairs to several"):
        amends.repair(
            models[0], (x, y), (x[:9], (y[:9] + 1) % 3), treat_with=methods.ensemble(newton, models=models[1:])
        )


def test_bad_ensembles():
    x, y, network = classification()
    data = factor(network, x, y)
    with pytest.raises(BadInput, match="models or samples, and not both"):
        Members(methods.ewc().remember)(data)
    with pytest.raises(BadInput, match=r"weight has shape \[3, 4\], expected \[3, 3\]; models\[0\]"):
        Members(methods.ewc().remember, (nn.Linear(4, 3),))(data)
    frozen = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    frozen[0].requires_grad_(False)
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    with pytest.raises(BadInput, match=r"models\[0\] differs from the model in 0.weight, which is not trained"):
        amends.identify(frozen, (x, y), (x[:3], y[:3]), method=methods.ensemble(models=[other]))
    last = methods.Method(Laplace(Diagonal(), last_layer=True), Mode())
    with pytest.raises(BadInput, match="the method edits the last layer alone"):
        amends.identify(other, (x, y), (x[:3], y[:3]), method=methods.ensemble(last))
    with pytest.raises(BadInput, match="pass a method with an editor"):
        methods.ensemble(methods.loss())
    with pytest.raises(BadInput, match="needs an ensemble"):
        follow(Each(Mode())(methods.ewc().remember(data, None), data[:1]))
    with pytest.raises(BadInput, match="member by member"):
        follow(Mode()(Ensemble((methods.ewc().remember(data, None),)), data[:1]))
    with pytest.raises(BadInput, match="needs a mean-field posterior"):
        follow(Variational()(methods.ewc().remember(data, None), data[:1]))
