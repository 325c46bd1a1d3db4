"""Curvature that several members share is measured once."""

from __future__ import annotations

from torch.testing import assert_close

from amends.curvature import GGN, Diagonal, Once
from tests.conftest import classification, factor


def test_the_same_evidence_is_measured_once_and_other_evidence_anew():
    x, y, network = classification()
    data, theta, inner = factor(network, x, y), network.params, Diagonal(GGN())
    asked = []

    def counting(evidence, where):
        asked.append(evidence)
        return inner(evidence, where)

    once = Once(counting)
    first = once(data, theta)
    assert once(data, theta) is first
    assert len(asked) == 1
    assert_close(first.data, inner(data, theta).data)
    part, elsewhere = data[:20], {k: v + 1 for k, v in theta.items()}
    assert_close(once(part, theta).data, inner(part, theta).data)
    assert_close(once(data, elsewhere).data, inner(data, elsewhere).data)
    assert_close(once(2.0 * data, theta).data, inner(2.0 * data, theta).data)
    assert len(asked) == 4
    assert once(data, theta) is first
    assert len(asked) == 4
