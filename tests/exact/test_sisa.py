"""SISA against its definition: shards that lose nothing stay as they were, others are trained without the causes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments import sisa
from experiments.protocol import Start, case_of, flipped_labels, outputs
from experiments.running import GivenUp


@pytest.fixture(scope="module")
def case():
    return case_of(Start("digits", None, 0, "cpu"), flipped_labels)


def test_shards_are_a_partition():
    home = sisa.dealt(500, 3, seed=4)
    assert sorted(np.bincount(home)) == [166, 167, 167]
    assert (home != sisa.dealt(500, 3, seed=5)).any()


def test_only_what_held_a_cause_is_trained_again(case):
    home = sisa.dealt(500, 3, seed=0)
    causes = np.flatnonzero(home == 1)[:40]
    before, after = (sisa.without(case, c, 3) for c in (causes[:0], causes))
    for shard, (a, b) in enumerate(zip(before.members, after.members, strict=True)):
        same = all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
        assert same == (shard != 1)
    left = np.setdiff1d(np.flatnonzero(home == 1), causes)
    torch.manual_seed(10_000)
    alone = case.about.make()
    case.about.fit(alone, *(torch.tensor(part[left]) for part in case.data.train))
    for p, q in zip(alone.parameters(), after.members[1].parameters(), strict=True):
        assert torch.equal(p, q)


def test_probabilities_are_averaged(case):
    model = sisa.without(case, np.arange(10), 2)
    x = case.sets["query"][0]
    each = [np.exp(f - f.max(1, keepdims=True)) for f in (outputs(m, x).double().numpy() for m in model.members)]
    expected = np.mean([e / e.sum(1, keepdims=True) for e in each], 0)
    np.testing.assert_allclose(outputs(model, x).softmax(1).numpy(), expected, atol=1e-6)


def test_large_networks_are_not_trained_several_times(case, monkeypatch):
    monkeypatch.setattr(type(case), "about", property(lambda self: type("Large", (), {"large": True})))
    with pytest.raises(GivenUp, match="5 large networks"):
        sisa.without(case, np.arange(3))
