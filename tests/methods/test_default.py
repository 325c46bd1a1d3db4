"""What the default treats with."""

from __future__ import annotations

import pytest

from amends import methods
from amends.curvature import Diagonal, Kronecker, Once
from amends.methods import Default


def test_where_examples_are_many_a_treatment_sees_each_less_often():
    default = methods.default()
    few, many = (default.treating(0, examples).editor.climb for examples in (3000, 50_000))
    assert (few.epochs, few.batch) == (5, 64)
    assert many.epochs * 50_000 == pytest.approx(2**16)
    assert many.batch == 256
    assert default.treating(0, 10**6).editor.climb.epochs == 1
    assert [m.first is None for m in default.otherwise(0, 3000)] == [False, False, True]
    assert all(m.first is None and m.editor.climb.rate < 1e-3 for m in default.otherwise(0, 50_000, large=True))


def test_the_members_share_what_they_measure_and_two_committees_nothing():
    one, two = (Default("thorough").identifying(True) for _ in range(2))
    diagonal, kronecker = (one[name].remember.curvature for name in ("ewc", "kfac_ewc"))
    assert isinstance(diagonal, Once)
    assert isinstance(diagonal.inner.inner, Diagonal)
    assert isinstance(kronecker, Once)
    assert isinstance(kronecker.inner.inner, Kronecker)
    assert one["functional + ewc"].remember.laplace.curvature is diagonal
    assert one["linear"].remember.curvature.inner is kronecker
    assert two["ewc"].remember.curvature is not diagonal
