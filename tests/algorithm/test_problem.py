"""A repair as it was asked for, checked as a whole."""

from __future__ import annotations

import pytest
from torch import nn

import amends
from amends.errors import BadInput
from tests.worlds import QUICK, lines


def test_labels_of_two_kinds_are_not_learned_together():
    net, (x, y), failures, remaining = lines()
    soft = x, nn.functional.one_hot(y, 3).float()
    assert not amends.repair(net, soft, failures, remaining, **QUICK).metrics["learned"]
    with pytest.raises(BadInput, match="labels of different kinds; learn is True"):
        amends.repair(net, soft, failures, remaining, learn=True, **QUICK)


def test_positions_to_remove_go_with_one_group(planted):
    model, train, failures, remaining, _ = planted
    with pytest.raises(BadInput, match="several groups"):
        amends.repair(model, train, failures, remaining, remove=[1, 2], group_by=amends.Groups(only=["1→7", "9→4"]))


def test_positions_outside_train_are_named(planted):
    model, train, failures, remaining, _ = planted
    with pytest.raises(BadInput, match="index 100000"):
        amends.repair(model, train, failures, remaining, remove=[100000])
