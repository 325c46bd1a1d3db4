"""Augmentation is for fine-tuning alone: scores, curvature and evaluation never see it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.data import Records, examples, read, views
from amends.data.views import seeded
from amends.editors.climb import Adam
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.data.shaken import DRAWS, N, Shaken, X, Y, model

TUNE = amends.methods.fine_tune(epochs=2, batch=16)


def tuned(train, seed=0, **more):
    method = amends.methods.fine_tune(epochs=2, batch=16, seed=seed, learn=bool(more))
    return amends.treat(model(), train, [3, 4], method=method, **more).weight


@pytest.mark.parametrize("draw", DRAWS)
def test_fine_tuning_uses_it_and_repeats_itself(draw):
    shaken = Shaken(DRAWS[draw])
    random.seed(4), np.random.seed(4), torch.manual_seed(4)
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    one = tuned(views((X, Y), shaken))
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert torch.equal(torch.get_rng_state(), states[2])
    assert {3, 4}.isdisjoint(shaken.read[2:]), "what is forgotten is not read"
    assert len(shaken.read) == 2 + 2 * (N - 2), "each example once an epoch, and two to see that the views agree"
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    assert torch.equal(one, tuned(views((X, Y), shaken)))
    assert not torch.equal(one, tuned(views((X, Y), shaken), seed=1))
    assert not torch.equal(one, tuned((X, Y)))
    assert torch.equal(tuned(views((X, Y), Shaken(DRAWS[draw], 0.0))), tuned((X, Y)))


def test_every_batch_is_another_draw():
    """Also where one batch holds everything."""
    shaken = Shaken(DRAWS["torch"])
    network = Network.of(model(), Categorical())
    data = Factor.of(network, examples(views((X, Y), shaken), "train"))
    seen = []
    shaken.draw = lambda: seen.append(torch.randn(64)) or seen[-1]
    list(Adam(epochs=2, batch=100, augmented=True)([data], network.params))
    assert len(seen) == 2 * N
    assert not torch.equal(seen[0], seen[N])
    seen.clear()
    list(Adam(epochs=2, batch=100)([data], network.params))
    assert not seen, "an optimiser uses it only when told"


def test_scores_and_evaluation_do_not_see_it():
    failures = (X[:10], (Y[:10] + 1) % 10)
    remaining = (X[10:40], Y[10:40])
    shaken = Shaken(DRAWS["torch"], 5.0)
    for method in (None, amends.methods.ewc(), amends.methods.ewc_as_printed(), amends.methods.tracin()):
        plain = amends.identify(model(), (X, Y), failures, remaining=remaining, method=method)
        shaken.read.clear()
        viewed = amends.identify(model(), views((X, Y), shaken), failures, remaining=remaining, method=method)
        assert np.array_equal(plain.scores, viewed.scores)
        assert plain.frame().equals(viewed.frame())
        assert shaken.read == [0, N - 1]


def test_newton_and_unlearning_do_not_see_it():
    shaken = Shaken(DRAWS["torch"], 5.0)
    for method in (amends.methods.newton(), amends.methods.ewc()):
        plain = amends.treat(model(), (X, Y), [3, 4], method=method)
        assert torch.equal(plain.weight, amends.treat(model(), views((X, Y), shaken), [3, 4], method=method).weight)


def test_failures_without_a_view_are_learned_as_they_are():
    shaken = Shaken(DRAWS["torch"])
    failures = (X[:10], (Y[:10] + 1) % 10)
    one = tuned(views((X, Y), shaken), failures=failures)
    assert torch.equal(one, tuned(views((X, Y), shaken), failures=failures))
    assert not torch.equal(one, tuned((X, Y), failures=failures))
    still = tuned(views((X, Y), Shaken(DRAWS["torch"], 0.0)), failures=failures)
    assert torch.equal(still, tuned((X, Y), failures=failures))
    relabelled = amends.methods.fine_tune(epochs=1, batch=16, relabel=True)
    assert amends.treat(model(), views((X, Y), shaken), [1], method=relabelled) is not None


def numbered(offset):
    """A view whose item says which one it is."""
    return [(torch.tensor([offset + i, 0.5]), 0) for i in range(6)]


def test_rows_find_their_view_however_sets_are_cut_and_joined():
    x, y = torch.zeros(6, 2), torch.zeros(6).long()
    a = examples(views((x, y), numbered(10)), "train")
    b = examples(views((x + 1, y), numbered(20)), "failures")
    c = examples((x + 2, y), "remaining")
    both = (a[[4, 2]] + c[[5]] + b[[3]])[[3, 1, 2, 0]] + a[[0]]
    assert both.anew(0).x[:, 0].tolist() == [23, 12, 2, 14, 10]
    assert both.fetch(0, 5)[0][:, 0].tolist() == [1, 0, 2, 0, 0]
    assert (a[[4]] + a[[1]]).anew(0).x[:, 0].tolist() == [14, 11]
    assert a[1:3].with_targets(y[:2] + 7).anew(0).y.tolist() == [7, 7]
    network = Network.of(nn.Linear(2, 2), Categorical())
    d = Factor.of(network, a)
    kept = d + (-d[[0, 1]])
    assert kept.examples.anew(0).x[:, 0].tolist() == [12, 13, 14, 15]
    assert c.anew(0) is c
    alone = replace(a, training=None)  # the same inputs, without the view
    assert (alone[[2]] + a[[3]]).anew(0).x[:, 0].tolist() == [0, 13]
    part = Records(x, y, training=numbered(30))[[5, 1]]
    assert examples(part, "train").anew(0).x[:, 0].tolist() == [35, 31]


def test_views_of_dicts_and_tuples():
    y = torch.zeros(6).long()
    items = [{"a": torch.full((2,), i + 0.5), "b": torch.tensor([i]), "label": 0, "note": "n"} for i in range(6)]
    data = examples(
        views({"a": torch.zeros(6, 2), "b": torch.zeros(6, 1).long(), "label": y}, items), "t", accepts={"a", "b"}
    )
    drawn = data[[4, 1]].anew(0).x
    assert drawn["a"].tolist() == [[4.5, 4.5], [1.5, 1.5]]
    assert drawn["b"].tolist() == [[4], [1]]
    pair = [((torch.tensor([float(i)]), torch.tensor([i])), 0) for i in range(6)]
    data = examples(views(((torch.zeros(6, 1), torch.zeros(6, 1).long()), y), pair), "t")
    assert data[[3]].anew(0).x[1].tolist() == [[3]]


class Together(Shaken):
    """The same, with several read at once, and a name that views of ours use for something else."""

    def __init__(self, *given):
        super().__init__(*given)
        self.inputs = X
        self.asked = []

    def __getitems__(self, positions):
        self.asked.append(len(positions))
        return [self[i] for i in positions]


def test_several_items_are_read_at_once_where_the_set_can():
    together = Together(DRAWS["torch"])
    assert torch.equal(tuned(views((X, Y), together)), tuned(views((X, Y), Shaken(DRAWS["torch"]))))
    assert together.asked == 2 * ([16] * 3 + [10]), "one batch after the other, in each of two passes"


class OneByOne(Shaken):
    __getitems__ = None  # as torch's loader has it, a set that cannot read several at once


def test_a_set_may_say_that_it_reads_one_item_at_a_time():
    assert torch.equal(tuned(views((X, Y), OneByOne(DRAWS["torch"]))), tuned(views((X, Y), Shaken(DRAWS["torch"]))))


class Fewer(Shaken):
    def __getitems__(self, positions):
        return []


def drawn(scoring, training, at=(0,)):
    return examples(views(scoring, training), "train")[list(at)].anew(0)


WRONG = {
    "another length": (
        lambda: drawn((X, Y), Shaken(DRAWS["torch"], n=50)), "has 50 examples, but the scoring view has 60"),
    "another order": (
        lambda: drawn((X, Y.flip(0)), Shaken(DRAWS["torch"])), r"train\[0\] has label 0 in the training view"),
    "no dataset": (lambda: drawn((X, Y), iter([])), "the training view of train is a list_iterator"),
    "items that are no pairs": (lambda: drawn((X, Y), X), "an item of the training view is a Tensor, expected"),
    "other columns": (
        lambda: drawn(
            {"a": torch.zeros(2, 2), "b": torch.zeros(2, 3), "label": torch.zeros(2)}, [{"a": torch.zeros(2)}] * 2),
        "an item of the training view has the columns a; return a, b"),
    "fewer items than asked for": (
        lambda: drawn((X, Y), Fewer(DRAWS["torch"])), "gives 0 items for 1 positions; __getitems__; return one each"),
    "other shapes beside others": (
        lambda: (examples(views((X, Y), [(torch.zeros(9), int(y)) for y in Y]), "train")
                 + examples((X, Y), "failures")).anew(0),
        "training view of train .* do not fit the others"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_views_that_do_not_fit(case):
    call, message = WRONG[case]
    with pytest.raises(BadInput, match=message) as caught:
        call()
    assert "; " in str(caught.value), "what and where; what to do"
    assert "\n" not in str(caught.value)


def test_read_can_augment(tmp_path):
    np.savez(tmp_path / "d.npz", x=(X.reshape(N, 8, 8).numpy() * 255).astype(np.uint8), y=Y)

    def shifted(x):
        return x.roll(int(torch.randint(8, ())), -1)

    data = read(tmp_path / "d.npz", augment=shifted, mean=0.5, std=0.5)
    plain = read(tmp_path / "d.npz", mean=0.5, std=0.5)
    assert torch.equal(data.x, plain.x)
    held = examples(data[10:30], "train")
    once, twice, other = (held.anew(seed).x for seed in (0, 0, 1))
    assert torch.equal(once, twice)
    assert not torch.equal(once, other)
    assert torch.equal(once.sum(-1), plain.x[10:30].sum(-1)) or torch.allclose(once.sum(-1), plain.x[10:30].sum(-1))
    item, label = data.training[4]
    assert item.shape == (1, 8, 8)
    assert label == Y[4]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    assert not torch.equal(
        amends.treat(net, data, [1], method=TUNE)[1].weight, amends.treat(net, plain, [1], method=TUNE)[1].weight
    )
    with pytest.warns(UserWarning, match=r"example of .*d.npz differently.*as augment, for fine-tuning") as told:
        read(tmp_path / "d.npz", transform=lambda x: x + torch.randn(1))
    assert told[0].filename == __file__
    asked = []

    def encode(items):
        asked.append(len(items))
        return {"pixel_values": torch.stack(items)}

    data = read(tmp_path / "d.npz", augment=lambda x: x + 1, encode=encode)
    anew = examples(data, "train")[[2, 9]].anew(0).x
    assert torch.equal(anew["pixel_values"], data.x["pixel_values"][[2, 9]] + 1)
    assert asked == [N, 2], "a batch is encoded at once, so that padding agrees"


def test_seeded_restores_what_was_there():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with seeded(3):
        a = random.random(), np.random.rand(), float(torch.rand(1))
    with seeded(3):
        assert (random.random(), np.random.rand(), float(torch.rand(1))) == a
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected
