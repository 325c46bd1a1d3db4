"""Members of an ensemble drawn around one model."""

from __future__ import annotations

from torch.testing import assert_close

from amends import methods
from amends.evidence.params import flatten
from amends.remember import Members
from tests.conftest import classification, factor


def test_samples_are_as_wide_as_asked():
    x, y, network = classification()
    data = factor(network, x, y)
    wide, narrow = (Members(methods.ewc().remember, samples=3, scale=s)(data) for s in (1.0, 0.1))
    for a, b in zip(wide.members, narrow.members, strict=True):
        away = [flatten(m.mean) - flatten(network.params) for m in (a, b)]
        assert_close(away[0], 10 * away[1])
