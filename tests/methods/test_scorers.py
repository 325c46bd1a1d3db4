"""Laws of every scorer: it repeats itself whatever the batch, and `identify` takes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import amends
from amends.curvature import GGN, Dense, Kronecker
from amends.methods.library.loss import Loss
from amends.methods.library.random import Random
from amends.methods.library.relatif import RelatIF
from amends.methods.library.scores import Given
from amends.methods.library.self_confidence import SelfConfidence
from amends.methods.library.shapley import Shapley
from amends.methods.library.sufficiency import Sufficiency
from tests.methods.worlds import world

SCORERS = {
    "loss": Loss(),
    "self-confidence": SelfConfidence(),
    "random": Random(3),
    "given": Given(np.arange(30)),
    "l-RelatIF": RelatIF(Kronecker(GGN(), prior=0.1)),
    "θ-RelatIF": RelatIF(Dense(GGN(), prior=0.1), "parameters"),
    "Shapley": Shapley(5),
    "sufficiency": Sufficiency(Kronecker(GGN(), prior=0.1)),
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_repeats_itself_whatever_the_batch(name):
    train, failures, network = world(30)
    before = {k: v.clone() for k, v in network.params.items()}
    first, again = (SCORERS[name](train, failures) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (30,)
    assert all(torch.equal(before[k], network.params[k]) for k in before)
    for batch in (1, 4, 1000):
        other = SCORERS[name](replace(train, batch=batch), replace(failures, batch=batch))
        assert_close(other, first, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", SCORERS)
def test_identify_takes_a_scorer(name):
    train, failures, network = world(30)
    pairs = [data.examples.fetch(0, len(data)) for data in (train, failures)]
    model = network.module_with(network.params, network.module)
    for p in model.parameters():
        p.requires_grad_()
    found = amends.identify(model, *pairs, method=SCORERS[name], batch_size=7, progress=False)
    assert_close(torch.as_tensor(found.scores), SCORERS[name](train, failures).double(), atol=1e-12, rtol=1e-10)
