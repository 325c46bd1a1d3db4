"""What the default treats with."""

from __future__ import annotations

import pytest

from amends import methods
from amends.curvature import Diagonal, Kronecker, Once
from amends.methods import Default


def test_where_examples_are_many_a_treatment_sees_each_less_often():
    default = methods.default()
    few, many = (default.treating(0, examples).editor.climb for examples in (3000, 50_000))
    assert (few.epochs, few.batch) == (4, 64)
    assert many.epochs * 50_000 == pytest.approx(2**16)
    assert many.batch == 256
    assert default.treating(0, 10**6).editor.climb.epochs == 1
    for of_size, usual, others in ((False, 4e-3, [4e-4]), (True, 1e-4, [1e-3, 3e-5])):
        assert default.treating(0, 50_000, of_size).editor.climb.rate == usual
        assert [m.editor.climb.rate for m in default.otherwise(0, 50_000, of_size)] == others


def test_where_examples_are_few_a_treatment_sees_each_more_often():
    """So that it makes as many steps; what is taught does not."""
    default, climbs = methods.default(), {}
    for examples in (500, 100):
        climbs[examples] = default.treating(0, examples).editor.climb
        assert climbs[examples].epochs * examples == pytest.approx(128 * 64)
        assert default.identifying(True, examples=examples)["learned loss"].trainings[0].editor.climb.epochs == 3


def test_the_members_share_what_they_measure_and_two_committees_nothing():
    one, two = (Default("thorough").identifying(False) for _ in range(2))
    diagonal, kronecker = (one[name].remember.curvature for name in ("ewc", "kfac_ewc"))
    assert isinstance(diagonal, Once)
    assert isinstance(diagonal.inner.inner, Diagonal)
    assert isinstance(kronecker, Once)
    assert isinstance(kronecker.inner.inner, Kronecker)
    assert one["linear"].remember.curvature.inner is kronecker
    assert two["ewc"].remember.curvature is not diagonal
    assert isinstance(Default("thorough").identifying(True)["functional + ewc"].remember.laplace.curvature, Once)


def test_told_nothing_of_d_it_is_small_and_so_is_the_model():
    default = methods.default()
    assert default.treating() == default.treating(0, 0, False)
    assert default.otherwise() == default.otherwise(0, 0, False)
    assert default.shorter() == default.shorter(0, 0, False)
    known, told = (default.identifying(True, *of)["learned loss"] for of in ((), (False, 0)))
    assert known == told
