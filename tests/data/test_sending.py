"""Batches on their way to a GPU: in order, no more of them than memory holds, and the same numbers as of data that is
there."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import amends
from amends.data import sending
from amends.data.ahead import AHEAD
from amends.evidence import prepare
from tests.worlds import planted_digits


class Stream:
    """As a GPU's, that never ends with what it was given until it is waited for."""

    def __init__(self, *_):
        self.begun, self.most = 0, 0

    def wait_stream(self, _):
        pass

    def record_event(self):
        self.begun += 1
        self.most = max(self.most, self.begun)
        return self

    def synchronize(self):
        self.begun -= 1


def test_no_more_batches_are_taken_than_are_computed(monkeypatch):
    """Where reading is faster than computing, what waits to be computed does not fill the memory."""
    stream, used = Stream(), []
    monkeypatch.setattr(sending, "_copying", lambda _: Stream())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda t, s: used.append(t), raising=False)
    given = (({"a": torch.full((2,), i), "b": torch.full((2,), -i)}, torch.tensor([i, i])) for i in range(9))
    found = list(sending.sent(given, torch.device("cpu")))
    assert [int(y[0]) for _, y in found] == [int(x["a"][1]) for x, _ in found] == list(range(9))
    assert len(used) == 27  # every tensor is kept until the GPU is done with it
    assert stream.most == AHEAD + 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_scores_of_what_is_sent_are_those_of_what_is_there(monkeypatch):
    """19 batches in 5 shards, in their order and in another."""
    model, (x, y), failures, remaining, _ = planted_digits()
    orders = (slice(None), np.random.default_rng(0).permutation(len(x)))

    def scores():
        ask = {"method": amends.methods.functional(), "device": "cuda", "batch_size": 16}
        return [amends.identify(model, (x[at], y[at]), failures, remaining, **ask).scores for at in orders]

    there = scores()
    monkeypatch.setattr(prepare, "resident", lambda sizes: set(sizes) - {"train"})
    assert all(np.array_equal(a, b) for a, b in zip(there, scores(), strict=True))
