"""Sets whose inputs are given in several forms: as one, in a row, or by name; texts of two lengths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.errors import BadInput


class Sum(nn.Module):
    """Takes two inputs, or one with both."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(6, 3)

    def forward(self, a, b=None):
        return self.net(a if b is None else torch.cat([a, 2 * b], 1))


class Texts(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.out = nn.Embedding(20, 4, dtype=torch.float64), nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, input_ids, attention_mask):
        there = attention_mask[..., None].double()
        return self.out((self.words(input_ids) * there).sum(1) / there.sum(1))


def drawn(n, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=g), torch.randn(n, 3, generator=g), torch.arange(n) % 3


SETS = [drawn(n, n) for n in (40, 12, 24)]


def named(a, b, y):
    return {"a": a, "b": b}, y


def turned(a, b, y):
    return {"b": b, "a": a}, y


def in_a_row(a, b, y):
    return (a, b), y


def scores(*sets, model=None, **more):
    return amends.identify(Sum() if model is None else model, *sets, **more).scores


def test_inputs_are_joined_by_name():
    train, failures, right = SETS
    expected = scores(named(*train), named(*failures), named(*right))
    assert np.array_equal(scores(named(*train), turned(*failures), turned(*right)), expected)


def test_a_single_input_needs_no_name():
    (a, _, y), (fa, _, fy), right = SETS
    one = {"a": torch.cat([a, a], 1)}, y
    fails, kept = (torch.cat([fa, fa], 1), fy), (torch.cat([right[0]] * 2, 1), right[2])
    assert np.array_equal(scores(one, fails, kept), scores((one[0]["a"], y), ({"a": fails[0]}, fy), kept))


def test_inputs_in_a_row_are_what_the_model_takes_in_that_order():
    train, failures, right = SETS
    expected = scores(named(*train), named(*failures), named(*right))
    for one, other in ((turned, in_a_row), (in_a_row, turned), (named, in_a_row)):
        assert np.array_equal(scores(one(*train), other(*failures), one(*right)), expected)


@pytest.mark.parametrize("failures", [lambda a, b, y: (torch.cat([a, b], 1), y), lambda a, b, y: ({"a": a, "c": b}, y)])
def test_other_inputs_are_refused(failures):
    train, fails, _ = SETS
    said = r"^failures has (inputs named a, c|one input), but train has inputs named a, b; give both in one form$"
    with pytest.raises(BadInput, match=said):
        scores(named(*train), failures(*fails), method=amends.methods.grad_dot())


def texts(n, length, seed, long=9):
    """And the same, padded to `long`."""
    g = torch.Generator().manual_seed(seed)
    ids, y = torch.randint(1, 20, (n, length), generator=g), torch.arange(n) % 3
    made = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    padded = {k: nn.functional.pad(v, (0, long - length)) for k, v in made.items()}
    return (made, y), (padded, y)


def test_texts_with_a_mask_may_have_another_length_in_each_set():
    short, padded = zip(*(texts(*size) for size in ((60, 7, 0), (20, 9, 1), (40, 5, 2))), strict=True)
    np.testing.assert_allclose(scores(*short, model=Texts()), scores(*padded, model=Texts()), atol=1e-9)


def test_what_cannot_be_learned_together_is_named_before_anything_is_computed():
    (x, y), failures = (torch.randn(40, 3, 8), torch.arange(40) % 3), (torch.randn(12, 3, 6), torch.arange(12) % 3)
    model = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 3))
    said = r"have shapes \[3, 6\] and \[3, 8\] and cannot be learned together; train and failures; pad or resize them"
    for run in (amends.identify, amends.repair):
        with pytest.raises(BadInput, match=said):
            run(model, (x, y), failures)
    assert len(scores((x, y), failures, model=model, method=amends.methods.grad_dot())) == 40


def test_targets_of_texts_of_two_lengths():
    """A causal language model: where a text has ended no token is asked for."""

    class Next(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.words, self.out = nn.Embedding(20, 4, dtype=torch.float64), nn.Linear(4, 20, dtype=torch.float64)

        def forward(self, input_ids, attention_mask):
            return self.out(self.words(input_ids))

    def one(n, length, seed):
        both = texts(n, length, seed)
        return [({**x}, torch.where(x["attention_mask"] > 0, x["input_ids"], -100)) for x, _ in both]

    short, padded = zip(*(one(*size) for size in ((30, 7, 0), (12, 9, 1), (24, 5, 2))), strict=True)
    tokens = {"likelihood": amends.likelihoods.Tokens(), "model": Next()}
    members = [
        amends.identify(tokens["model"], *sets, likelihood=tokens["likelihood"]).members for sets in (short, padded)
    ]
    for one, other in zip(*members, strict=True):  # curvature is from labels drawn at every place, so `linear` differs
        assert one.name == "linear" or (one.found, one.unseen) == pytest.approx((other.found, other.unseen), abs=1e-9)
