"""A treatment made again, and causes treated in another model."""

from __future__ import annotations

from dataclasses import replace

import amends
from amends.algorithm import treat as treating
from amends.algorithm.treat import again
from amends.methods import Default, ewc, fine_tune, newton, retrain
from amends.settings import DEFAULT
from tests.worlds import learned, right, same_weights


def test_a_treatment_is_made_again_with_other_random_numbers():
    tuned = fine_tune(rate=0.01, seed=5)
    assert again(tuned, 0) is tuned
    seeds = [again(tuned, number).editor.climb.seed for number in range(3)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 3
    other = again(tuned, 1)
    assert replace(other.editor.climb, seed=5) == tuned.editor.climb
    assert other.editor.unlearn.seed == seeds[1]
    assert other.remember is tuned.remember
    fresh = again(retrain(seed=5), 1).editor
    assert fresh.seed != 5
    assert fresh.climb.seed != 5


def test_a_treatment_without_random_numbers_is_the_very_same():
    for method in (newton(), ewc()):
        assert again(method, 1) is method


def test_causes_of_one_model_are_forgotten_by_another(planted, result):
    """Retrained elsewhere, it fails in the same way, and the table that was kept repairs it too."""
    _, train, failures, _, _ = planted
    retrained = learned(*train, seed=1)
    assert right(retrained, failures).mean() < 0.5
    treated = amends.treat(retrained, train, causes=result.causes)
    control = amends.treat(retrained, train, causes=[])
    assert right(treated, failures).mean() > right(control, failures).mean() + 0.2
    assert same_weights(treated, amends.treat(retrained, train, causes=result.removed))


def test_steps_that_are_too_long_for_a_model_are_made_shorter(planted):
    """Those at which it forgets what it goes on training on. Longer ones are never tried in their place."""
    net, train, _, _, turned = planted

    def of(*rates):
        forgetting = replace(DEFAULT.forgetting, rate=rates[0], rates=rates[1:])
        return amends.treat(net, train, turned, method=Default(settings=replace(DEFAULT, forgetting=forgetting)))

    assert right(of(3.0), train).mean() < 0.5 < right(of(2e-3), train).mean()
    assert same_weights(of(3.0, 2e-3), of(2e-3))
    assert same_weights(of(2e-3, 2e-4), of(2e-3))
    assert same_weights(of(3.0, 30.0), of(3.0))


def test_finer_steps_wait_as_long_as_the_first(planted, monkeypatch):
    """A guard that allows none: every try is told how long to wait."""
    seen = []
    monkeypatch.setattr(treating, "treatment", lambda q, *rest: seen.append(rest[-1]) or q)
    amends.treat(*planted[:2], [0, 1], method=ewc()._replace(patience=3))
    assert len(seen) > 1
    assert set(seen) == {3}
