"""Several members, weighed by what they find: the scores they give together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.committee import decide as committee
from amends.committee import weighing
from amends.curvature import GGN, Diagonal
from amends.editors import Mode
from amends.errors import BadInput, NotConverged
from amends.evaluation.rankings import average_precision
from amends.likelihoods import Bernoulli, Gaussian, Weighted, with_weights
from amends.methods import Default, Method
from amends.methods.library.fine_tune import fine_tune
from amends.methods.library.loss import LearnedLoss
from amends.remember import Laplace
from amends.settings import DEFAULT
from tests.committee.worlds import Recording, decided, evidence, ours


def test_the_committee_finds_what_was_turned(influence, world):
    turned = np.isin(np.arange(100), world[-1])
    assert average_precision(influence.scores, turned) > 0.6
    assert influence.scores.shape == influence.raw.shape == (100,)


def test_who_counts_and_what_was_unseen(influence, world):
    _, _, failures, _, _ = world
    assert [h.name for h in influence.members] == list(Default().identifying(True))
    assert all(h.refused == "" and 0 <= h.found <= 1 and h.weight >= 0 for h in influence.members)
    assert [h.name for h in influence.members if h.unseen is None] == ["learned loss"]
    assert all(0 <= h.unseen <= 1 for h in influence.members if h.name != "learned loss")
    assert sum(h.weight for h in influence.members) == pytest.approx(1.0)
    assert influence.unseen.shape == (len(failures[0]),)
    assert ((influence.unseen >= 0) & (influence.unseen <= 1)).all()
    for h in influence.members:
        row = {
            "name": h.name,
            "found": h.found,
            "unseen": h.unseen,
            "weight": h.weight,
            "refused": "",
            "wrong": h.wrong,
        }
        assert h.row() == row


def test_scores_are_harm_times_how_sure_the_member_is(world, monkeypatch):
    train, failures, remaining = evidence(*world[:4])
    members, seen = {"it": ours(amends.methods.ewc())}, []
    of = committee.combined
    monkeypatch.setattr(committee, "combined", lambda trials, *rest: seen.append(trials) or of(trials, *rest))
    made = decided(members, train, failures, remaining)
    monkeypatch.setattr(committee, "confidence", lambda *_: 1.0)
    plain = decided(members, train, failures, remaining)
    sure = seen[0]["it"].excess.confidence
    assert made.members[0].weight == 1.0
    assert sure.max() > 0.3
    assert_close(
        made.scores, plain.scores * torch.tensor(np.where(plain.scores > 0, np.maximum(sure, sure.mean()), 1.0))
    )


def test_members_are_joined_in_their_own_order(world, monkeypatch):
    """The order of a set of names differs from process to process, and with it the last bit of a sum of three."""
    train, failures, remaining = evidence(*world[:4])
    names, seen, of = [f"member {i}" for i in range(8)], [], committee.combined
    monkeypatch.setattr(committee, "combined", lambda trials, *rest: seen.append(list(trials)) or of(trials, *rest))
    decided({name: ours(amends.methods.grad_dot()) for name in names}, train, failures, remaining)
    assert seen == [names]


@pytest.mark.usefixtures("alike")
def test_what_was_unseen_is_the_weighed_mean_of_those_that_count(world):
    train, failures, remaining = evidence(*world[:4])
    members = {"a": ours(amends.methods.grad_dot()), "b": ours(amends.methods.ewc())}
    both = decided(members, train, failures, remaining)
    alone = {name: decided({name: m}, train, failures, remaining) for name, m in members.items()}
    assert all(h.weight > 0 for h in both.members)
    assert np.allclose(both.unseen, sum(h.weight * alone[h.name].unseen for h in both.members))
    joined = weighing.joined([(h.weight, alone[h.name].scores) for h in both.members])
    assert_close(both.scores, torch.where(joined > 0, joined, both.scores))
    first = max(both.members, key=lambda h: h.weight).name
    assert_close(both.raw, alone[first].raw)


def test_no_more_right_examples_are_held_and_failures_shown_than_allowed(world):
    train, failures, remaining = evidence(*world[:4])
    member = Recording(ours(amends.methods.ewc()))
    decided({"it": member.as_member()}, train, failures, remaining, held=5, shown=3)
    assert [len(h) for h in member.held] == [5, 5]
    assert [len(e) for e in member.shown] == [3, 3]
    member = Recording(ours(amends.methods.ewc()))
    decided({"it": member.as_member()}, train, failures, None)
    assert member.held == [None, None]


def test_a_sample_of_d_is_enough_to_weigh_members_and_all_of_it_is_scored(world):
    train, failures, remaining = evidence(*world[:4])
    members = {"a": ours(amends.methods.grad_dot()), "b": ours(amends.methods.ewc()),
               "learned": LearnedLoss((fine_tune(2e-3, 5.0),), 4.0)}  # fmt: skip
    whole, part = (decided(members, train, failures, remaining, sample=n) for n in (100, 60))
    for a, b in zip(whole.members, part.members, strict=True):
        assert b.found == pytest.approx(a.found, abs=0.1)
    counting = [h.name for h in part.members if h.weight]
    assert counting
    assert part.scores.shape == whole.scores.shape == (100,)
    assert np.corrcoef(part.scores, whole.scores)[0, 1] > 0.7, "alike, though the weights differ by chance"


def test_an_edit_with_all_failures_where_that_is_asked_for(world):
    train, failures, remaining = evidence(*world[:4])
    member = Recording(ours(amends.methods.ewc()))
    made = decided({"it": member.as_member()}, train, failures, remaining, whole=2000)
    assert [len(e) for e in member.shown] == [len(failures) - len(failures) // 2, len(failures) // 2, len(failures)]
    assert made.edited is member.ends[2]


def test_how_far_an_edit_goes(world, monkeypatch):
    """Where predictions are held a large model needs more steps."""
    net, train, failures, remaining, _ = world
    seen = []

    def noting(self, posterior, evidence):
        seen.append((len(evidence), getattr(self.climb, "steps", None)))
        return climbs(self, posterior, evidence)

    climbs = Mode.__call__
    monkeypatch.setattr(Mode, "__call__", noting)
    amends.identify(net, train, failures, remaining=remaining)
    held = DEFAULT.identifying.edits.steps_held
    assert sum(n for n, steps in seen if steps == held) == len(failures[0])
    assert {steps for _, steps in seen} == {held, None}
    monkeypatch.setattr(amends.evidence.params, "LARGE", 1)
    seen.clear()
    influence = amends.identify(net, train, failures, remaining=remaining)
    assert {steps for _, steps in seen} == {2 * held, None}
    assert influence.unseen.shape == (len(failures[0]),)
    assert (influence.unseen > 0).all()


def test_budgets_differ_in_who_is_tried_and_how_far(world):
    net, train, failures, remaining, turned = world
    names = {}
    for budget in ("quick", "default", "thorough"):
        influence = amends.identify(net, train, failures, remaining=remaining, method=amends.methods.default(budget))
        names[budget] = {h.name for h in influence.members}
        assert average_precision(influence.scores, np.isin(np.arange(100), turned)) > 0.6
    assert names["quick"] < names["default"] < names["thorough"]
    with pytest.raises(BadInput, match="budget is 'small'; there is none of that name"):
        amends.methods.default("small")


class Without(Default):
    def identifying(self, remaining, large=False, examples=0):
        return {n: m for n, m in super().identifying(remaining, large, examples).items() if n != "learned loss"}


def test_labels_strewn_at_random_are_found_by_what_is_not_believed(strewn):
    net, train, failures, right, turned, _ = strewn
    influence = amends.identify(net, train, failures, remaining=right)
    edits = amends.identify(net, train, failures, remaining=right, method=Without())
    members = {h.name: h for h in influence.members}
    assert members["learned loss"].weight > 0.5
    assert members["learned loss"].unseen is None
    assert members["learned loss"].found == max(h.found for h in influence.members)
    assert average_precision(influence.scores, turned) > average_precision(edits.scores, turned) + 0.1
    assert np.array_equal(influence.unseen, edits.unseen), "what edits were not shown is theirs to say"
    assert influence.edited is not None


def test_sample_weights_of_d_alone_say_nothing_about_its_labels(strewn):
    """Failures and right examples weigh 1; what weighs more in D would all score higher."""
    net, (x, y), failures, right, _, _ = strewn
    heavy = x, with_weights(y, torch.full((len(y),), 5.0))
    failures, right = ((a, with_weights(b, torch.ones(len(b)))) for a, b in (failures, right))
    influence = amends.identify(net, heavy, failures, remaining=right, likelihood=Weighted())
    assert all(h.found is None for h in influence.members)


def refusing(train, remaining):
    raise NotConverged("no end in sight; test; none")


def test_a_member_that_refuses_is_named_and_the_rest_decide(world):
    train, failures, remaining = evidence(*world[:4])
    good = {"a": ours(amends.methods.grad_dot()), "b": ours(amends.methods.ewc())}
    refused = Method(refusing, Mode())
    expected = decided(good, train, failures, remaining)
    made = decided({"a": good["a"], "no": refused, "b": good["b"]}, train, failures, remaining)
    assert torch.equal(made.scores, expected.scores)
    assert np.array_equal(made.unseen, expected.unseen)
    (row,) = (h.row() for h in made.members if h.refused)
    why = "no end in sight; test; none"
    assert row == {"name": "no", "found": None, "unseen": None, "weight": 0.0, "refused": why, "wrong": 0.0}
    assert [h for h in made.members if not h.refused] == list(expected.members)


def test_a_member_that_ends_at_infinity_is_refused(world):
    train, failures, remaining = evidence(*world[:4])

    def away(posterior, evidence):
        yield posterior
        yield posterior.moved({k: v * float("inf") for k, v in posterior.mean.items()}, evidence)

    members = {"away": Method(Laplace(Diagonal(GGN())), away), "good": ours(amends.methods.grad_dot())}
    made = decided(members, train, failures, remaining)
    assert [h.name for h in made.members if "NaN or infinite" in h.refused] == ["away"]
    assert made.scores.isfinite().all()


def test_when_all_refuse_the_error_is_raised(world):
    train, failures, remaining = evidence(*world[:4])
    with pytest.raises(NotConverged, match="no end in sight"):
        decided({"one": Method(refusing, Mode()), "two": Method(refusing, Mode())}, train, failures, remaining)


@pytest.mark.parametrize(("number", "right"), [(5, 200), (1, 4), (2, None), (1, 3)])
def test_few_failures_and_few_right_ones_do(world, number, right):
    net, train, failures, remaining, turned = world
    rest = None if right is None else tuple(v[:right] for v in remaining)
    influence = amends.identify(net, train, tuple(v[:number] for v in failures), remaining=rest)
    assert len(influence.members) == (4 if right and right >= 4 else 3)
    assert influence.unseen.shape == (number,)
    assert average_precision(influence.scores, np.isin(np.arange(100), turned)) > 2 * len(turned) / 100


@pytest.mark.parametrize("likelihood", [Gaussian(sigma=0.5), Bernoulli()])
@pytest.mark.parametrize("rest", [True, False])
def test_causes_are_found_in_regression_and_among_labels(likelihood, rest):
    """Targets of one corner of the inputs are off in training; the failures lie there."""
    g = torch.Generator().manual_seed(0)
    x = torch.rand(260, 2, generator=g, dtype=torch.float64) * 2 - 1
    true = torch.stack([x.sum(1), x[:, 0] - x[:, 1]], 1)
    true = true if isinstance(likelihood, Gaussian) else (true > 0).double()
    corner = (x > 0.3).all(1)
    off = corner & (torch.arange(260) < 160) & (torch.arange(260) % 4 > 0)
    given = torch.where(off[:, None], true - 2 if isinstance(likelihood, Gaussian) else 1 - true, true)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2)).double()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(150):
        optimiser.zero_grad()
        (-likelihood(net(x[:160]), given[:160]).mean()).backward()
        optimiser.step()
    with torch.no_grad():
        ok = likelihood.right(net(x[160:]), true[160:])
    failures, remaining = ((x[160:][part], true[160:][part]) for part in (~ok, ok))
    influence = amends.identify(
        net, (x[:160], given[:160]), failures, remaining=remaining if rest else None, likelihood=likelihood
    )
    assert not any(h.refused for h in influence.members)
    assert average_precision(influence.scores, off[:160].numpy()) > 0.6


def test_the_same_seed_gives_the_same_bit_for_bit(influence, world):
    net, train, failures, remaining, _ = world
    again = amends.identify(net, train, failures, remaining=remaining)
    assert np.array_equal(again.scores, influence.scores)
    assert np.array_equal(again.raw, influence.raw)
    assert np.array_equal(again.unseen, influence.unseen)
    assert again.members == influence.members


def test_batches_do_not_matter(influence, world):
    net, train, failures, remaining, _ = world
    other = amends.identify(net, train, failures, remaining=remaining, batch_size=40)
    assert np.allclose(other.scores, influence.scores, rtol=0, atol=1e-6)
    assert np.allclose(other.unseen, influence.unseen, rtol=0, atol=1e-6)
    assert np.allclose([h.weight for h in other.members], [h.weight for h in influence.members], rtol=0, atol=1e-6)


def test_only_those_that_scored_all_of_d_have_a_weight(world, monkeypatch):
    """One that found nothing in the sample is not asked of all of D; should the other find nothing there, it still does
    not count."""
    train, failures, remaining = evidence(*world[:4])
    blind = ours(amends.methods.grad_dot())._replace(score=lambda q, after, data: torch.zeros(len(data)))
    members = {"blind": blind, "seeing": ours(amends.methods.ewc())}
    on_all, forgetful = committee.on_all, []

    def nothing_any_more(tried, *given):
        made = on_all(tried, *given)
        forgetful.append(made.excess.found)
        return replace(made, excess=replace(made.excess, found=0.0))

    monkeypatch.setattr(committee, "on_all", nothing_any_more)
    made = decided(members, train, failures, remaining, sample=60)
    assert len(forgetful) == 1
    assert forgetful[0] > 0
    assert {m.name: m.weight for m in made.members} == {"blind": 0.0, "seeing": 1.0}
