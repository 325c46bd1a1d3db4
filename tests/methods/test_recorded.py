"""What is read from a recorded run: laws of synaptic intelligence, SGD-influence and TracIn, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.algorithm.identify import identify
from amends.editors import Mode
from amends.errors import BadInput
from amends.evidence import Factor, flatten
from amends.methods import Method
from amends.methods.library.sgd_influence import SGDInfluence
from amends.methods.library.tracin import TracIn
from amends.remember import PathIntegral
from amends.trace import Recorder, Trace, TraceStep, replay
from tests.conftest import classification
from tests.methods.worlds import held, softmax

RUN = {"epochs": 2, "batch": 12, "rate": 0.2}


def importance(train, failures, trace):
    return held(PathIntegral(trace)(train))


ALL = {
    "path integral": importance,
    "path integral, no trace": lambda train, failures, trace: importance(train, failures, None),
    "SGD-influence": lambda train, failures, trace: SGDInfluence(trace)(train, failures),
    "SGD-influence, no trace": lambda train, failures, trace: SGDInfluence(**RUN)(train, failures),
    "TracIn": lambda train, failures, trace: TracIn(trace)(train, failures),
}


@pytest.mark.parametrize("name", ALL)
def test_the_compute_batch_changes_nothing(name):
    train, failures = softmax()
    start = {k: v + 0.1 for k, v in train.network.params.items()}
    answers = []
    for batch in (1, 7, 1000):
        parts = replace(train, batch=batch), replace(failures, batch=batch)
        answers.append(ALL[name](*parts, replay(parts[0], start, **RUN)))
    for other in answers[1:]:
        assert_close(other, answers[0], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("method", [SGDInfluence(batch=8), TracIn(), Method(PathIntegral(), Mode())])
def test_identify_takes_them_and_leaves_the_model(method):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 3))
    x, y, _ = classification(dtype=torch.float32)
    before, rng = flatten(model.state_dict()).clone(), torch.get_rng_state()
    first, again = (identify(model, (x[:50], y[:50]), (x[50:], y[50:]), method=method) for _ in range(2))
    assert (first.scores == again.scores).all()
    assert len(np.unique(first.scores)) > 40
    assert torch.equal(flatten(model.state_dict()), before)
    assert torch.equal(torch.get_rng_state(), rng)
    assert model.training


def a_trace(train: Factor, **changes) -> Trace:
    """One step, with something wrong about it."""
    step = TraceStep(train.network.params, np.arange(4), 0.1)
    return Trace((replace(step, **changes),), train.network.params)


TRAIN, FAILURES = softmax(n=10)
PARAMS = TRAIN.network.params
BAD = {
    "no steps": (lambda: SGDInfluence(Trace((), PARAMS))(TRAIN, FAILURES), "the trace has no steps"),
    "no replayed steps": (lambda: SGDInfluence(epochs=0)(TRAIN, FAILURES), "replay for more epochs"),
    "another model": (lambda: PathIntegral(a_trace(TRAIN, theta={"w": PARAMS["weight"]}))(TRAIN),
                      r"no parameter weight; trace\[0\]"),
    "one more parameter": (lambda: a_trace(TRAIN, theta=PARAMS | {"w": PARAMS["bias"]}).check(TRAIN),
                           r"w is not a trainable parameter of the model; trace\[0\]"),
    "another width": (lambda: TracIn(a_trace(TRAIN, theta=PARAMS | {"bias": torch.zeros(4)}))(TRAIN, FAILURES),
                      r"bias has shape \[4\], expected \[3\]; trace\[0\]"),
    "another end": (lambda: replace(a_trace(TRAIN), end={}).check(TRAIN), r"no parameter weight; trace\[1\]"),
    "another set": (lambda: SGDInfluence(a_trace(TRAIN, positions=np.array([2, 10])))(TRAIN, FAILURES),
                    r"trace\[0\] holds position 10, but train has 10 examples"),
    "from the back": (lambda: PathIntegral(a_trace(TRAIN, positions=np.array([-1])))(TRAIN), "holds position -1"),
    "standing still": (lambda: PathIntegral(a_trace(TRAIN))(TRAIN), "no weight moved along the trace"),
    "half positions": (lambda: Recorder(TRAIN.network.module)([0.5, 1.0], 0.1), r"float64 of shape \[2\]; recorder"),
    "a mask": (lambda: Recorder(TRAIN.network.module)(torch.ones(3) > 0, 0.1), "positions are bool"),
    "no positions": (lambda: Recorder(TRAIN.network.module)(np.arange(0), 0.1), r"of shape \[0\]"),
    "rate that is no number": (lambda: Recorder(TRAIN.network.module)([1], float("nan")), "learning rate is nan"),
    "another start": (lambda: replay(TRAIN, {"bias": PARAMS["bias"]}), "no parameter weight; start"),
    "missing name": (lambda: TracIn([PARAMS, {"bias": PARAMS["bias"]}])(TRAIN, FAILURES),
                     r"no parameter weight; checkpoints\[1\]"),
    "misshapen": (lambda: TracIn([PARAMS | {"weight": torch.zeros(3, 4)}])(TRAIN, FAILURES),
                  r"weight has shape \[3, 4\], expected \[3, 3\]; checkpoints\[0\]"),
    "one state dict": (lambda: TracIn(cast(Any, PARAMS))(TRAIN, FAILURES), "expected named parameters, got a str"),
    "no checkpoints": (lambda: TracIn([])(TRAIN, FAILURES), "0 checkpoints and 0 rates"),
    "too few rates": (lambda: TracIn([PARAMS, PARAMS], [0.1])(TRAIN, FAILURES), "2 checkpoints and 1 rates"),
    "rates of nothing": (lambda: TracIn(rates=[0.1])(TRAIN, FAILURES), "rates without state dicts"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_wrong_things_are_refused_in_one_line(name):
    call, words = BAD[name]
    with pytest.raises(BadInput, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)
