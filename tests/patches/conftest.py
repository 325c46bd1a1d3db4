"""Patches of the tests are fitted in few steps: enough for networks of a few thousand weights."""

from __future__ import annotations

import pytest

from amends.patches import refit


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refit, "STEPS", 150)
        yield
