"""Several members heard by what they find and what they were not shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.committee import decide as committee
from amends.committee import trying, weighing
from amends.committee.apart import Apart
from amends.committee.decide import decide
from amends.curvature import GGN, Diagonal, Isotropic, Kronecker, Once, Part
from amends.curvature.diagonal import DiagonalPrecision
from amends.data import split
from amends.editors import Mode, Tangent
from amends.errors import NotConverged
from amends.evaluation.predictions import groups, predicted
from amends.evaluation.rankings import average_precision
from amends.evidence.network import Network
from amends.likelihoods import Bernoulli, Categorical, Gaussian
from amends.methods import Default, Method
from amends.methods.ratio import first_order, label_part
from amends.posteriors import Gaussian as Normal
from amends.progress import Progress
from amends.remember import Laplace
from tests.conftest import classification, factor
from tests.methods.test_ratio import edited

# --- curvature measured once ------------------------------------------------------------------------


def test_the_same_evidence_is_measured_once_and_other_evidence_anew():
    x, y, network = classification()
    data, theta, inner = factor(network, x, y), network.params, Diagonal(GGN())
    asked = []

    def counting(evidence, where):
        asked.append(evidence)
        return inner(evidence, where)

    once = Once(counting)
    first = once(data, theta)
    assert once(data, theta) is first
    assert len(asked) == 1
    assert_close(first.data, inner(data, theta).data)
    part, elsewhere = data[:20], {k: v + 1 for k, v in theta.items()}
    assert_close(once(part, theta).data, inner(part, theta).data)
    assert_close(once(data, elsewhere).data, inner(data, elsewhere).data)
    assert_close(once(2.0 * data, theta).data, inner(2.0 * data, theta).data)
    assert len(asked) == 4
    assert once(data, theta) is first
    assert len(asked) == 4


def test_the_members_share_what_they_measure_and_two_committees_nothing():
    one, two = (Default().identifying(True) for _ in range(2))
    diagonal, kronecker = (one[name].remember.curvature for name in ("ewc", "kfac_ewc"))
    assert isinstance(diagonal, Once)
    assert isinstance(diagonal.inner, Diagonal)
    assert isinstance(kronecker, Once)
    assert isinstance(kronecker.inner, Kronecker)
    assert one["functional + ewc"].remember.laplace.curvature is diagonal
    assert one["linear"].remember.curvature.inner is kronecker
    assert two["ewc"].remember.curvature is not diagonal


# --- large models and many failures ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [Diagonal, Kronecker])
def test_a_part_stands_for_all_of_the_evidence(shape):
    """A third of the examples, each counted thrice: the whole on average, whatever the evidence weighs."""
    x, y, network = classification()
    data, theta, inner = factor(network, x, y), network.params, shape(GGN())
    assert_close(Part(inner, 60)(data, theta).dense(), inner(data, theta).dense())
    parts = [Part(inner, 20, seed)(data, theta).dense() for seed in range(300)]
    assert any(not torch.allclose(p, parts[0]) for p in parts)
    if shape is Diagonal:  # a mean over draws of the part is the whole; of a product of sums it is not
        whole = inner(data, theta).dense()
        assert_close(torch.stack(parts).mean(0), whole, atol=0.05 * float(whole.max()), rtol=0)  # 300 draws of 20
    twice = Part(inner, 20)(2.0 * data, theta).dense()
    assert_close(twice, 2.0 * parts[0])


def test_a_large_model_is_asked_less(world, monkeypatch):
    net, train, failures, remaining, _ = world
    seen = []

    def noting(self, posterior, evidence):
        seen.append((len(evidence), self.climb.steps))
        return climbs(self, posterior, evidence)

    climbs = Mode.__call__
    monkeypatch.setattr(Mode, "__call__", noting)
    amends.identify(net, train, failures, remaining=remaining)
    assert max(n for n, _ in seen) == len(failures[0])
    assert {steps for _, steps in seen} == {60, 40}
    for room in (amends.algorithm.identify, committee):
        monkeypatch.setattr(room, "LARGE", 1)
    for name, value in (("SHOWN", 8), ("MOST", 16)):
        monkeypatch.setattr(committee, name, value)
    seen.clear()
    found = amends.identify(net, train, failures, remaining=remaining)
    assert {n for n, _ in seen} == {2, 8}  # of a half, a quarter of SHOWN; in the end four times that
    assert {steps for _, steps in seen} == {30, 20}
    assert found.unseen.shape == (len(failures[0]),)
    assert (found.unseen > 0).all()


# --- mass -----------------------------------------------------------------------------------------------


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


# --- the committee ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    """Three kinds, a corner of one of them labelled as another in training, and a small net that learned that."""
    g = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (300,), generator=g)
    centres = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]], dtype=torch.float64)
    x = centres[y] + 0.6 * torch.randn(300, 2, generator=g, dtype=torch.float64)
    given = y[:100].clone()
    turned = np.flatnonzero((y[:100].numpy() == 0) & (x[:100, 1].numpy() > 0))
    given[turned] = 1
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=40)

    def loss():
        optimiser.zero_grad()
        value = nn.functional.cross_entropy(net(x[:100]), given) + 1e-3 * sum((p**2).sum() for p in net.parameters())
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        ok = net(x[100:]).argmax(1) == y[100:]
    failures, remaining = ((x[100:][part], y[100:][part]) for part in (~ok, ok))
    return net, (x[:100], given), failures, remaining, turned


@pytest.fixture(scope="module")
def found(world):
    net, train, failures, remaining, _ = world
    return amends.identify(net, train, failures, remaining=remaining)


def test_the_committee_finds_what_was_turned(found, world):
    turned = np.isin(np.arange(100), world[-1])
    assert average_precision(found.scores, turned) > 0.6
    assert found.scores.shape == found.raw.shape == (100,)


def test_who_was_heard_and_what_was_unseen(found, world):
    _, _, failures, _, _ = world
    assert [h.name for h in found.heard] == list(Default().identifying(True))
    assert all(h.refused == "" and 0 <= h.found <= 1 and h.weight >= 0 for h in found.heard)
    assert [h.name for h in found.heard if h.unseen is None] == ["loss"]
    assert all(0 <= h.unseen <= 1 for h in found.heard if h.name != "loss")
    assert sum(h.weight for h in found.heard) == pytest.approx(1.0)
    assert found.unseen.shape == (len(failures[0]),)
    assert ((found.unseen >= 0) & (found.unseen <= 1)).all()
    for h in found.heard:
        row = {"name": h.name, "found": h.found, "unseen": h.unseen, "weight": h.weight, "refused": ""}
        assert h.row() == row


def test_a_method_by_name_hears_nobody(world):
    net, train, failures, _, _ = world
    found = amends.identify(net, train, failures, method=amends.methods.grad_dot())
    assert found.heard == ()
    assert found.unseen is None


def test_a_method_scores_by_what_it_says(world):
    net, train, failures, _, _ = world
    found = amends.identify(net, train, failures, method=amends.methods.ewc()._replace(score=label_part))
    part, whole = (score(found.start, found.edited, found.train).numpy() for score in (label_part, first_order))
    assert np.array_equal(found.scores, part)
    assert not np.allclose(part, whole, atol=0.1)


def rates(heard, worth):
    """How fast the weight of each falls with how much worse than the best it does."""
    best = max(heard, key=worth)
    return [np.log(best.weight / h.weight) / (worth(best) - worth(h)) for h in heard if h.weight and h is not best]


def test_weights_follow_what_was_found(found):
    by_weight, by_found = (sorted(found.heard, key=key) for key in (lambda h: h.weight, lambda h: h.found))
    assert [h.name for h in by_weight if h.weight] == [h.name for h in by_found if h.weight]
    falls = rates(found.heard, lambda h: h.found)
    assert len(falls) > 1
    assert falls == pytest.approx([falls[0]] * len(falls))


def test_without_right_examples_weights_follow_what_was_unseen(world):
    net, train, failures, _, _ = world
    heard = amends.identify(net, train, failures).heard
    assert [h.name for h in heard] == list(Default().identifying(False))
    assert all(h.found is None for h in heard)
    falls = rates(heard, lambda h: h.unseen)
    assert falls == pytest.approx([falls[0]] * len(falls))


def trial(failures, right, found=0.0, noise=0.0):
    return trying.Trial(np.array(failures), np.array(right), (), Apart(found, noise, np.zeros(1)))


def test_weights_by_what_was_found_by_hand():
    """e⁻¹ for a quarter less than the best; below a fifth, nothing; whether it edits does not matter."""
    trials = {
        "best": trial([], [], 0.2, 0.01),
        "less": trial([0.9], [0.9], 0.15, 0.01),
        "far": trial([0.9], [0.9], 0.1, 0.01),
    }
    say = np.array([1.0, np.exp(-1)])
    assert weighing.weights_of(trials) == pytest.approx(dict(zip(trials, [*say / say.sum(), 0.0], strict=True)))
    wide = {name: replace(t, apart=replace(t.apart, noise=0.06)) for name, t in trials.items()}
    assert weighing.weights_of(wide)["less"] / weighing.weights_of(wide)["best"] == pytest.approx(np.exp(-0.05 / 0.06))


def test_what_is_more_than_noise_decides_beside_more_that_is_not():
    trials = {"sure": trial([0.5], [0.5], 0.1, 0.01), "wild": trial([0.9], [0.9], 0.101, 0.04)}
    assert weighing._found(trials.values()) is trials["sure"]
    assert weighing.weights_of(trials)["sure"] == weighing.weights_of(trials)["wild"] == 0.5
    wilder = {**trials, "wild": trial([0.9], [0.9], 0.3, 0.2)}
    assert weighing.weights_of(wilder)["sure"] == 0.5, "however much it seems to find"


def test_what_is_no_more_than_noise_decides_nothing():
    trials = {"loss": trial([], [], 0.06, 0.03), "a": trial([0.8, 0.8], [0.9]), "b": trial([0.5, 0.5], [0.9])}
    assert weighing.weights_of(trials) == {"loss": 0.0, "a": 1.0, "b": 0.0}


def test_harm_counts_as_members_are_sure_and_a_tenth():
    a, b = (replace(trial([0], [0]), apart=Apart(0.2, 0.01, np.array(sure))) for sure in ([0, 1], [1, 1]))
    assert_close(weighing.sure([(0.75, a), (0.25, b)], torch.zeros(2)), torch.tensor([0.35, 1.1]))
    wild = replace(a, apart=replace(a.apart, noise=0.1))
    assert weighing.sure([(1.0, wild)], torch.zeros(2)) == 1.0, "what is no more than noise makes nobody sure"
    assert weighing.sure([(1.0, replace(a, apart=None))], torch.zeros(2)) == 1.0


def test_the_loss_counts_where_edits_find_harm_and_elsewhere_as_they_find_less():
    """Half as much told apart: half of what is sure counts where they find no harm, if it is rather than not."""
    loss = replace(trial([], []), apart=Apart(0.2, 0.01, np.array([0.8, 0.8, 0.6, 0.4])))
    harm = torch.tensor([2.0, -1.0, 0.0, -1.0], dtype=torch.float64)
    for told, elsewhere in ((0.1, [0.4, 0.3]), (0.0, [0.8, 0.6]), (0.2, [0, 0]), (0.3, [0, 0])):
        assert weighing.counted(loss, told, harm).tolist() == pytest.approx([1, *elsewhere, 0])
    wild = replace(loss, apart=replace(loss.apart, noise=0.1))
    for unsure in (wild, replace(loss, apart=None)):
        assert weighing.counted(unsure, 0.0, harm).tolist() == [1, 0, 0, 0]


def test_weights_by_hand():
    """e⁻¹ for .03 below the best; below a fifth, nothing."""
    trials = {
        "best": trial([0.8, 0.8], [1.0, 1.0]),
        "less": trial([0.78, 0.78], [0.96, 0.96]),
        "far": trial([0.5, 0.5], [1.0, 1.0]),
    }
    found = weighing.weights_of(trials)
    assert found == pytest.approx({"best": 1 / (1 + np.exp(-1)), "less": np.exp(-1) / (1 + np.exp(-1)), "far": 0.0})


def test_weights_allow_for_the_noise_of_the_best():
    """Of four failures at 1 and 0 the mean of the two halves has a standard error of ⅛."""
    trials = {"best": trial([1.0, 0.0, 1.0, 0.0], [1.0]), "less": trial([0.25] * 4, [1.0])}
    found = weighing.weights_of(trials)
    assert found["less"] / found["best"] == pytest.approx(np.exp(-1))


def test_scores_are_joined_in_units_of_mean_harm():
    """Harm counts wherever a member finds it; elsewhere the least harmless come first."""
    a, b = torch.tensor([2.0, -1.0, 0.0, -4.0]), torch.tensor([-3.0, 6.0, 0.0, -1.0])
    joined = weighing.joined([(0.75, a), (0.25, b)])
    assert_close(joined, torch.tensor([3.0, 1.0, 0.0, -0.75 * 8 - 0.25 * 2 / 3]))
    assert_close(weighing.joined([(0.75, 1000 * a), (0.25, b)]), joined)
    assert_close(weighing.joined([(0.5, -a.abs()), (0.5, b)]), b.clamp(min=0) / 3 + b.clamp(max=0) / 3 * (b <= 0))


def test_harm_that_every_edit_finds_counts_more_than_as_much_from_one():
    """(⅓√3 + ⅓√0 + ⅓√0)² = ⅓ where one edit alone finds harm; where none does, the mean."""
    edits = torch.tensor([[3.0, 1.0, 0.0, -2.0], [0.0, 1.0, 3.0, -1.0], [0.0, 1.0, 3.0, -3.0]])
    found = weighing.replicated(list(edits))
    assert_close(found, torch.tensor([1 / 3, 1.0, 4 / 3, -2.0]))
    assert_close(weighing.replicated([7 * edits[0], *edits[1:]]), found)
    assert_close(weighing.replicated([edits[0]] * 3), edits[0])


def test_scores_are_harm_times_how_sure_the_member_is(world, monkeypatch):
    train, failures, remaining = evidence(world)
    members, heard = {"it": ours(amends.methods.ewc())}, []
    of = committee.sure
    monkeypatch.setattr(committee, "sure", lambda trials, like: heard.extend(trials) or of(trials, like))
    made = decided(members, train, failures, remaining)
    monkeypatch.setattr(committee, "sure", lambda trials, like: 1.0)
    plain = decided(members, train, failures, remaining)
    ((weight, tried),) = heard
    assert weight == 1.0
    assert tried.apart.sure.max() > 0.3
    assert_close(made.scores, plain.scores * torch.tensor(np.where(plain.scores > 0, 0.1 + tried.apart.sure, 1.0)))


def test_a_probability_is_relative_to_the_most_a_likelihood_can_give():
    data, _, after = edited("gaussian")
    out = data.outputs(after.mean)
    expected = (-((out - data.examples.y) ** 2) / (2 * 0.3**2)).sum(1).exp()
    assert_close(trying._probability(data.network.likelihood, out, data.examples.y), expected.numpy())
    wide = replace(data, network=replace(data.network, likelihood=Gaussian(sigma=5.0)))
    assert_close(trying._probability(wide.network.likelihood, data.examples.y, data.examples.y), np.ones(30))
    data, _, after = edited("bernoulli")
    out, y = data.outputs(after.mean), data.examples.y
    both = torch.where(y > 0, out.sigmoid(), (-out).sigmoid()).prod(1)
    assert_close(trying._probability(data.network.likelihood, out, y), both.numpy())
    data, _, after = edited("soft")
    of, y = data.network.likelihood, data.examples.y
    assert_close(trying._probability(of, y.log(), y), np.ones(30))
    assert (trying._probability(of, data.outputs(after.mean), y) < 1).all()


class Recording:
    """A member that keeps what it was given and where its edits ended."""

    def __init__(self, method):
        self.method, self.held, self.shown, self.ends = method, [], [], []

    def remember(self, train, remaining):
        self.held.append(None if remaining is None else remaining.ids)
        return self.method.remember(train, remaining)

    def editor(self, posterior, evidence):
        self.shown.append(evidence)
        *_, end = path = list(self.method.editor(posterior, evidence))
        self.ends.append(end)
        yield from path

    def as_member(self):
        return self.method._replace(remember=self.remember, editor=self.editor)


def evidence(world):
    net, train, failures, remaining, _ = world
    network = Network.of(net, Categorical())
    sets = {"train": train, "failures": failures, "remaining": remaining}
    return [factor(network, *data, name, batch=64) for name, data in sets.items()]


def decided(members, train, failures, remaining, seed=0):
    return decide(members, train, failures, remaining, seed, Progress())


@pytest.fixture
def alike(monkeypatch):
    """Harm counts the same, however sure members are."""
    monkeypatch.setattr(committee, "sure", lambda heard, like: 1.0)


def ours(method):
    return method._replace(mass=1.0, score=label_part)


def chance(data, theta):
    return data.per_example(theta).exp().numpy()


@pytest.mark.usefixtures("alike")
def test_a_member_is_judged_by_what_it_was_not_shown(world):
    train, failures, remaining = evidence(world)
    member = Recording(ours(amends.methods.functional(0.05)))
    made = decided({"it": member.as_member()}, train, failures, remaining)
    one, two, all_of_them = (e.ids for e in member.shown)
    assert set(one) & set(two) == set()
    assert set(one) | set(two) == set(all_of_them) == set(failures.ids)
    assert set(member.held[0]) & set(member.held[1]) == set()
    assert set(member.held[0]) | set(member.held[1]) == set(member.held[2]) == set(remaining.ids)
    named = groups(failures, predicted(failures, train.network.params))
    assert one.tolist() == failures.ids[split(named, 0.5, 0)[0]].tolist()
    assert all(float(e.weights.sum()) == pytest.approx(len(train)) for e in member.shown)
    on_failures, on_right = (
        sum(
            np.where(np.isin(data.ids, seen), 0, chance(data, end.mean))
            for seen, end in zip(past, member.ends[:2], strict=True)
        )
        for data, past in ((failures, (one, two)), (remaining, member.held[:2]))
    )
    assert np.allclose(made.unseen, on_failures)
    assert made.heard[0].unseen == pytest.approx((on_failures.mean() + on_right.mean()) / 2)
    assert made.heard[0].weight == 1.0
    assert made.edited is member.ends[2]
    assert_close(made.raw, first_order(made.start, made.edited, train))
    harm = [label_part(made.start, end, train) for end in (made.edited, *member.ends[:2])]
    joined = weighing.replicated(harm)
    assert_close(made.scores, torch.where(joined > 0, joined / joined.clamp(min=0).mean(), made.scores))
    assert ((made.scores > 0) == (torch.stack(harm) > 0).any(0)).all()


@pytest.mark.usefixtures("alike")
def test_what_was_unseen_is_the_weighed_mean_of_those_heard(world):
    train, failures, remaining = evidence(world)
    members = {"a": ours(amends.methods.grad_dot()), "b": ours(amends.methods.ewc())}
    both = decided(members, train, failures, remaining)
    alone = {name: decided({name: m}, train, failures, remaining) for name, m in members.items()}
    assert all(h.weight > 0 for h in both.heard)
    assert np.allclose(both.unseen, sum(h.weight * alone[h.name].unseen for h in both.heard))
    joined = weighing.joined([(h.weight, alone[h.name].scores) for h in both.heard])
    assert_close(both.scores, torch.where(joined > 0, joined, both.scores))
    first = max(both.heard, key=lambda h: h.weight).name
    assert_close(both.raw, alone[first].raw)


def test_how_far_a_tangent_goes_is_not_its_own_to_choose(world):
    train, failures, remaining = evidence(world)
    rows = [
        decided({"it": ours(Method(Laplace(Isotropic()), Tangent(gamma)))}, train, failures, remaining)
        for gamma in (1e-6, 1.0, 1e3)
    ]
    assert np.allclose(rows[0].unseen, rows[1].unseen, atol=1e-9)
    assert np.allclose(rows[2].unseen, rows[1].unseen, atol=1e-9)
    assert rows[1].unseen.mean() > 2 * chance(failures, train.network.params).mean()


def test_no_more_right_examples_are_held_than_allowed(world, monkeypatch):
    train, failures, remaining = evidence(world)
    monkeypatch.setattr(committee, "MOST", 5)
    member = Recording(ours(amends.methods.ewc()))
    decided({"it": member.as_member()}, train, failures, remaining)
    assert [len(h) for h in member.held] == [5, 5, 10]
    member = Recording(ours(amends.methods.ewc()))
    decided({"it": member.as_member()}, train, failures, None)
    assert member.held == [None, None, None]


# --- a shift of the bias gains nothing ------------------------------------------------------------------


def one_sided():
    """Two classes, told apart by x₀ alone. All failures are of class 1, and x₁ is what they share."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 2
    x = torch.stack([(2.0 * y - 1) * (1 + torch.rand(80, generator=g)), torch.zeros(80)], 1).double()
    wrong = torch.stack([-0.5 - torch.rand(20, generator=g), 1 + torch.rand(20, generator=g)], 1).double()
    layer = nn.Linear(2, 2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        layer.bias.zero_()
    network = Network.of(layer, Categorical())
    sets = (x[:40], y[:40]), (wrong, torch.ones(20, dtype=torch.long)), (x[40:], y[40:])
    return [factor(network, *data, name) for data, name in zip(sets, ("train", "failures", "remaining"), strict=True)]


def free(name, column):
    """An edit that moves this part of the parameters and no other."""

    def remember(data, remaining):
        stiff = {k: torch.full_like(v, 1e9) for k, v in data.network.params.items()}
        stiff[name][..., column] = 0.1
        return Normal(data.network.params, DiagonalPrecision(stiff), Diagonal(GGN()), len(data))

    return ours(Method(remember, Mode()))


def test_a_shift_of_the_bias_is_not_heard_more_than_what_separates():
    train, failures, remaining = one_sided()
    bias, separates = free("bias", slice(None)), free("weight", 1)
    made = decided({"bias": bias, "separates": separates}, train, failures, remaining)
    by = {h.name: h for h in made.heard}
    alone = decided({"bias": bias}, train, failures, remaining)
    assert alone.unseen.mean() > 0.95, "the shift does put the failures right"
    assert by["bias"].unseen < 0.8
    assert by["separates"].unseen > by["bias"].unseen + 0.1
    assert by["separates"].weight > 0.9


# --- members that refuse ------------------------------------------------------------------------------------


def refusing(train, remaining):
    raise NotConverged("no end in sight; test; none")


def test_a_member_that_refuses_is_named_and_the_rest_decide(world):
    train, failures, remaining = evidence(world)
    good = {"a": ours(amends.methods.grad_dot()), "b": ours(amends.methods.ewc())}
    refused = Method(refusing, Mode())
    expected = decided(good, train, failures, remaining)
    made = decided({"a": good["a"], "no": refused, "b": good["b"]}, train, failures, remaining)
    assert torch.equal(made.scores, expected.scores)
    assert np.array_equal(made.unseen, expected.unseen)
    (row,) = (h.row() for h in made.heard if h.refused)
    why = "no end in sight; test; none"
    assert row == {"name": "no", "found": None, "unseen": None, "weight": 0.0, "refused": why}
    assert [h for h in made.heard if not h.refused] == list(expected.heard)


def test_a_member_that_ends_at_infinity_is_refused(world):
    train, failures, remaining = evidence(world)

    def away(posterior, evidence):
        yield posterior
        yield posterior.moved({k: v * float("inf") for k, v in posterior.mean.items()}, evidence)

    members = {"away": Method(Laplace(Diagonal(GGN())), away), "good": ours(amends.methods.grad_dot())}
    made = decided(members, train, failures, remaining)
    assert [h.name for h in made.heard if "not finite" in h.refused] == ["away"]
    assert made.scores.isfinite().all()


def test_when_all_refuse_the_error_is_raised(world):
    train, failures, remaining = evidence(world)
    with pytest.raises(NotConverged, match="no end in sight"):
        decided({"one": Method(refusing, Mode()), "two": Method(refusing, Mode())}, train, failures, remaining)


# --- few of everything, other families ------------------------------------------------------------------


@pytest.mark.parametrize(("number", "right"), [(5, 200), (1, 4), (2, None), (1, 3)])
def test_few_failures_and_few_right_ones_do(world, number, right):
    net, train, failures, remaining, turned = world
    rest = None if right is None else tuple(v[:right] for v in remaining)
    found = amends.identify(net, train, tuple(v[:number] for v in failures), remaining=rest)
    assert len(found.heard) == (7 if right and right >= 4 else 4)
    assert found.unseen.shape == (number,)
    assert average_precision(found.scores, np.isin(np.arange(100), turned)) > 2 * len(turned) / 100


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
    found = amends.identify(
        net, (x[:160], given[:160]), failures, remaining=remaining if rest else None, likelihood=likelihood
    )
    assert not any(h.refused for h in found.heard)
    assert average_precision(found.scores, off[:160].numpy()) > 0.6


# --- the same again ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bit_for_bit(found, world):
    net, train, failures, remaining, _ = world
    again = amends.identify(net, train, failures, remaining=remaining)
    assert np.array_equal(again.scores, found.scores)
    assert np.array_equal(again.raw, found.raw)
    assert np.array_equal(again.unseen, found.unseen)
    assert again.heard == found.heard


def test_another_seed_cuts_other_halves(world):
    one, same, other = (
        decided({"it": ours(amends.methods.grad_dot())}, *evidence(world), seed=seed).unseen for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_batches_do_not_matter(found, world):
    net, train, failures, remaining, _ = world
    other = amends.identify(net, train, failures, remaining=remaining, batch_size=40)
    assert np.allclose(other.scores, found.scores, rtol=0, atol=1e-6)
    assert np.allclose(other.unseen, found.unseen, rtol=0, atol=1e-6)
    assert np.allclose([h.weight for h in other.heard], [h.weight for h in found.heard], rtol=0, atol=1e-6)
