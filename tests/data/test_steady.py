"""A set that gives the same example differently each time is noticed, and no other is."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils.data import TensorDataset

import amends
from amends.data import examples
from amends.data.views import TWICE
from amends.errors import BadInput
from tests.data.shaken import DRAWS, N, Shaken, X, Y, model


@pytest.mark.parametrize("draw", DRAWS)
def test_random_sets_are_noticed(draw):
    with pytest.warns(
        UserWarning, match=r"train returns the same example differently.*amends.data.views\(scoring, tr"
    ) as told:
        amends.identify(model(), Shaken(DRAWS[draw]), (X[:5], Y[:5]), method=amends.methods.loss())
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    assert told[0].filename == __file__


class Unreadable:
    """Something that is no number and cannot be compared."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("no array")


def test_steady_sets_raise_no_alarm_and_are_read_once():
    still = Shaken(DRAWS["torch"], 0.0)
    odd = [({"a": torch.tensor([1.0]), "b": Unreadable()}, 0)]
    missing = [(torch.tensor([float("nan"), 1.0]), 1)] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        examples(still, "train")
        examples(TensorDataset(X, Y), "train")
        with pytest.raises(BadInput, match="NaN or infinity"):
            examples(missing, "train")
        with pytest.raises(BadInput, match="cannot be stacked"):
            examples(odd, "train")
    assert len(still.read) == N + TWICE
    assert max(still.read.count(i) for i in range(N)) == 2
