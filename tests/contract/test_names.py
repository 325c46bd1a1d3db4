"""The three functions and their arguments."""

from __future__ import annotations

import inspect

import amends


def test_signatures_are_those_of_the_contract():
    common = ["method", "likelihood", "seed", "device", "batch_size", "progress"]
    assert list(inspect.signature(amends.identify).parameters) == ["model", "train", "failures", "remaining", *common]
    assert list(inspect.signature(amends.treat).parameters) == [
        "model", "train", "causes", "failures", "remaining", *common,
    ]  # fmt: skip
    assert list(inspect.signature(amends.repair).parameters) == [
        "model", "train", "failures", "remaining", "identify_with", "treat_with", "learn", "remove", "holdout",
        "group_by", "keep", "floor", "broken_costs", "anyway", "budget", "likelihood", "seed", "device", "batch_size",
        "progress",
    ]  # fmt: skip
    for f in (amends.identify, amends.treat, amends.repair):
        assert f.__doc__


def test_the_functions_are_not_shadowed_by_modules():
    import amends.algorithm.identify
    import amends.algorithm.treat
    import amends.workflow.repair

    assert all(callable(f) for f in (amends.repair, amends.identify, amends.treat))
