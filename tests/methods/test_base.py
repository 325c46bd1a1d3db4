"""What a method makes of the failures it is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.editors import Adam, Mode
from amends.methods import Default, Method
from amends.methods.ratio import label_part
from tests.conftest import classification, factor


def test_evidence_gives_the_failures_the_mass_of_the_data():
    x, y, network = classification()
    data, failures = factor(network, x, y), factor(network, x[:8], y[:8], "failures")
    method = amends.methods.grad_dot()
    assert method.evidence(data, failures) is failures
    for mass in (1.0, 0.25):
        weights = method._replace(mass=mass).evidence(data, failures).weights
        assert weights.tolist() == pytest.approx([mass * 60 / 8] * 8)
    assert len(method._replace(mass=1.0).evidence(data, failures[:0])) == 0
    assert all(
        m.mass == 1.0 and m.score is label_part for m in Default().identifying(True).values() if isinstance(m, Method)
    )


def test_a_tangent_is_as_long_as_its_evidence_is_heavy():
    x, y, _ = classification()
    model = nn.Linear(3, 3, dtype=torch.float64)
    method = amends.methods.grad_dot()
    given = model, (x, y), (x[:8], (y[:8] + 1) % 3)
    plain = amends.identify(*given, method=method).scores
    heavy = amends.identify(*given, method=method._replace(mass=0.5)).scores
    assert np.allclose(heavy, plain * 0.5 * 60 / 8, rtol=1e-10)


REMEMBERING = {
    "ewc": lambda: amends.methods.ewc(), "online_ewc": lambda: amends.methods.online_ewc(0.5),
    "si": lambda: amends.methods.si(), "ogd": lambda: amends.methods.ogd(2), "vcl": lambda: amends.methods.vcl(),
}  # fmt: skip


@pytest.mark.parametrize("name", REMEMBERING)
def test_without_evidence_nothing_is_edited(name):
    """A step that goes nowhere is no edit either: each would fade what `online_ewc` remembers."""
    x, y, network = classification()
    data, method = factor(network, x, y), REMEMBERING[name]()
    q = method.remember(data, None)
    editor = method.editor if name == "vcl" else Mode(Adam(epochs=3, every=1))
    assert list(editor(q, data[:0])) == [q]
