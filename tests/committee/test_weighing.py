"""How much each member counts, and how their scores become one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import amends
from amends.committee import trying, weighing
from amends.committee.excess import Excess
from amends.methods import Default


def rates(members, worth):
    """How fast the weight of each falls with how much worse than the best it does."""
    best = max(members, key=worth)
    return [np.log(best.weight / h.weight) / (worth(best) - worth(h)) for h in members if h.weight and h is not best]


def test_weights_follow_what_was_found(influence):
    by_weight, by_found = (sorted(influence.members, key=key) for key in (lambda h: h.weight, lambda h: h.found))
    edits = [h.name for h in by_found if h.weight and h.unseen is not None]
    assert [h.name for h in by_weight if h.name in edits] == edits
    falls = rates([h for h in influence.members if h.name in edits], lambda h: h.found)
    assert len(falls) > 1
    assert falls == pytest.approx([falls[0]] * len(falls))


def test_without_right_examples_weights_follow_what_was_unseen(world):
    net, train, failures, _, _ = world
    members = amends.identify(net, train, failures).members
    assert [h.name for h in members] == list(Default().identifying(False))
    assert all(h.found is None for h in members)
    falls = rates(members, lambda h: h.unseen)
    assert falls == pytest.approx([falls[0]] * len(falls))


def trial(failures, right, found=0.0, error=0.0):
    return trying.Trial(np.array(failures), np.array(right), (), Excess(found, found, error, np.zeros(1)))


def test_weights_by_what_was_found_by_hand():
    """e⁻¹ for a third of the best less; below a tenth, nothing; whether it edits does not matter."""
    trials = {
        "best": trial([], [], 0.3, 0.01),
        "less": trial([0.9], [0.9], 0.2, 0.01),
        "far": trial([0.9], [0.9], 0.03, 0.01),
    }
    say = np.array([1.0, np.exp(-1)])
    assert weighing.weights_of(trials) == pytest.approx(dict(zip(trials, [*say / say.sum(), 0.0], strict=True)))


def test_what_is_more_than_noise_decides_beside_more_that_is_not():
    trials = {"sure": trial([0.5], [0.5], 0.1, 0.01), "wild": trial([0.9], [0.9], 0.101, 0.04)}
    assert weighing.weights_of(trials)["sure"] == weighing.weights_of(trials)["wild"] == 0.5
    wilder = {**trials, "wild": trial([0.9], [0.9], 0.3, 0.2)}
    assert weighing.weights_of(wilder)["sure"] == 0.5, "however much it seems to find"


def test_where_all_may_be_noise_edits_count_as_much_as_what_is_no_edit():
    """Edits by what was unseen, and the loss as much as all of them: nobody knows which is better."""
    trials = {"loss": trial([], [], 0.06, 0.04), "a": trial([0.8, 0.8], [0.9]), "b": trial([0.5, 0.5], [0.9])}
    assert weighing.weights_of(trials) == {"loss": 0.5, "a": 0.5, "b": 0.0}
    assert weighing.reliability(trials.values()) == 0.0
    edits = {name: trials[name] for name in "ab"}
    assert weighing.weights_of(edits) == {"a": 1.0, "b": 0.0}


@pytest.mark.parametrize(
    ("errors", "reliable"), [(0.0, 0.0), (1.5, 0.0), (2.25, 0.5), (2.7, 0.8), (3.0, 1.0), (9.0, 1.0)]
)
def test_what_was_found_counts_by_how_far_it_is_beyond_noise(errors, reliable):
    """From 1.5 standard errors to three the weights pass from those of the unseen to those of what was found."""
    trials = {"loss": trial([], [], 0.01 * errors, 0.01), "a": trial([0.8, 0.8], [0.9]), "b": trial([0.8, 0.8], [0.9])}
    assert weighing.reliability(trials.values()) == pytest.approx(reliable)
    own = (1 - reliable) / 4
    assert weighing.weights_of(trials) == pytest.approx({"loss": 1 - 2 * own, "a": own, "b": own})
    sure = replace(trials["loss"], excess=Excess(0.1, 0.01 * errors, 0.01, np.array([0.0, 1.0])))
    expected = torch.tensor([0.5 * reliable + 1 - reliable, 1.0])
    assert_close(torch.ones(2) * weighing.confidence([(1.0, sure)], torch.zeros(2)), expected)


def test_harm_counts_as_members_are_sure_and_at_least_as_on_average():
    a, b = (
        replace(trial([0], [0]), excess=Excess(0.2, 0.2, 0.01, np.array(sure))) for sure in ([0, 0, 1, 0], [0, 1, 1, 0])
    )
    assert_close(weighing.confidence([(0.6, a), (0.4, b)], torch.zeros(4)), torch.tensor([0.35, 0.4, 1.0, 0.35]))
    wild = replace(a, excess=replace(a.excess, standard_error=0.2))
    assert weighing.confidence([(1.0, wild)], torch.zeros(2)) == 1.0, "what is no more than noise makes nobody sure"
    assert weighing.confidence([(1.0, replace(a, excess=None))], torch.zeros(2)) == 1.0


@pytest.mark.parametrize(
    ("found", "error", "share"), [(0.1, 0.01, 0.5), (0.1, 0.1 / 2.25, 0.25), (0.1, 0.1, 0.0), (0.3, 0.01, 0.5)]
)
def test_the_learned_loss_counts_as_much_as_all_edits_as_far_as_it_is_more_than_noise(found, error, share):
    """Beside two edits that find more. By what was found its weight would be e⁻² of theirs, or as much as one's."""
    edits = {name: trial([0.5], [0.5], 0.3, 0.01) for name in "ab"}
    weights = weighing.weights_of({**edits, "learned loss": trial([], [], found, error)})
    own = np.exp(3 * (found - 0.3) / 0.3)
    assert weights["learned loss"] == pytest.approx(max(share, own / (2 + own)))
    assert weights["a"] == weights["b"] == pytest.approx((1 - weights["learned loss"]) / 2)


def test_weights_by_hand():
    """e⁻¹ for .03 below the best; below a tenth, nothing."""
    trials = {
        "best": trial([0.8, 0.8], [1.0, 1.0]),
        "less": trial([0.78, 0.78], [0.96, 0.96]),
        "far": trial([0.5, 0.5], [1.0, 1.0]),
    }
    weights = weighing.weights_of(trials)
    assert weights == pytest.approx({"best": 1 / (1 + np.exp(-1)), "less": np.exp(-1) / (1 + np.exp(-1)), "far": 0.0})


def test_weights_allow_for_the_noise_of_the_best():
    """Of four failures at 1 and 0 the mean of the two halves has a standard error of ⅛."""
    trials = {"best": trial([1.0, 0.0, 1.0, 0.0], [1.0]), "less": trial([0.25] * 4, [1.0])}
    weights = weighing.weights_of(trials)
    assert weights["less"] / weights["best"] == pytest.approx(np.exp(-1))


def test_scores_are_joined_in_units_of_mean_harm():
    """Harm counts wherever a member finds it; elsewhere the least harmless come first."""
    a, b = torch.tensor([2.0, -1.0, 0.0, -4.0]), torch.tensor([-3.0, 6.0, 0.0, -1.0])
    joined = weighing.joined([(0.75, a), (0.25, b)])
    assert_close(joined, torch.tensor([3.0, 1.0, 0.0, -0.75 * 8 - 0.25 * 2 / 3]))
    assert_close(weighing.joined([(0.75, 1000 * a), (0.25, b)]), joined)
    assert_close(weighing.joined([(0.5, -a.abs()), (0.5, b)]), b.clamp(min=0) / 3 + b.clamp(max=0) / 3 * (b <= 0))
