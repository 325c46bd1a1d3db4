"""An example that the model cannot take, and numbers that are none: the example is named, wherever it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import amends
from amends.errors import BadInput, NonFinite, OutOfMemory

WORDS, AT = 30, 100


def texts():
    """A model of 30 words, and sets it can take: train, failures, right examples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 4), nn.Flatten(), nn.Linear(12, 2))
    x = torch.randint(0, WORDS, (160, 3))
    y = (x[:, 0] > 15).long()
    return model, {"train": (x[:120], y[:120]), "failures": (x[120:135], y[120:135]), "remaining": (x[135:], y[135:])}


def spoilt(sets, name, at):
    x, y = sets[name]
    x = x.clone()
    x[at, 2] = WORDS
    return {**sets, name: (x, y)}


CALLS = {
    "identify": lambda m, s: amends.identify(m, s["train"], s["failures"], s["remaining"]),
    "grad_dot": lambda m, s: amends.identify(m, s["train"], s["failures"], method=amends.methods.grad_dot()),
    "repair": lambda m, s: amends.repair(m, s["train"], s["failures"], s["remaining"], anyway=True),
    "treat": lambda m, s: amends.treat(m, s["train"], [1, 2]),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_example_of_train_that_the_model_cannot_take_is_named(call):
    model, sets = texts()
    with pytest.raises(BadInput, match=rf"^the model cannot take an example \(index out of range.*; train\[{AT}\]; "):
        CALLS[call](model, spoilt(sets, "train", AT))


@pytest.mark.parametrize("name", ["failures", "remaining"])
def test_so_is_one_of_another_set(name):
    model, sets = texts()
    with pytest.raises(BadInput, match=rf"; {name}\[11\]; correct it or drop it"):
        CALLS["repair"](model, spoilt(sets, name, 11))


def test_an_error_that_no_example_causes_stays_what_it_is():
    model, sets = texts()

    def scorer(train, failures):
        return train.map(lambda x, y: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        amends.identify(model, sets["train"], sets["failures"], method=scorer)


class Spoiling(nn.Module):
    """Gives NaN, or an error, for inputs of one value."""

    def __init__(self, value, error=None):
        super().__init__()
        self.layer, self.value, self.error = nn.Linear(4, 2), value, error

    def forward(self, x):
        found = x[:, :1] == self.value
        if self.error is not None and found.any():
            raise self.error
        return torch.where(found, torch.nan, self.layer(x))


def lines(value, at):
    torch.manual_seed(0)
    x = torch.randn(200, 4)
    y = (x[:, 0] > 0).long()
    x[at, 0] = value
    return (x[:120], y[:120]), (x[120:140], y[120:140]), (x[140:], y[140:])


def test_outputs_that_are_no_numbers_are_never_trained_on():
    train, *_ = lines(7.0, 5)
    with pytest.raises(NonFinite, match=r"the log-likelihood is nan; train\[5\]; drop"):
        amends.treat(Spoiling(7.0), train, [1, 2])
    treated = amends.treat(Spoiling(7.0), train, [5])
    assert all(p.isfinite().all() for p in treated.parameters())


def test_outputs_that_are_no_numbers_of_right_examples():
    train, failures, right = lines(7.0, 152)
    with pytest.raises(NonFinite, match=r"the log-likelihood is nan; remaining\[12\]; drop"):
        amends.identify(Spoiling(7.0), train, failures, right)


def test_inputs_so_large_that_curvature_is_infinite():
    train, failures, right = lines(1e30, 5)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    with pytest.raises(NonFinite, match="the curvature is NaN or infinite; train; look for inputs"):
        amends.identify(model, train, failures, right, method=amends.methods.relatif())


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError("no more")], ids=type)
@pytest.mark.parametrize("at", [0, 60])
def test_memory_that_is_refused_is_no_bad_input(error, at):
    train, failures, right = lines(7.0, at)
    with pytest.raises(OutOfMemory), pytest.warns(UserWarning, match="do not fit into memory") if at else no_warning():
        amends.identify(Spoiling(7.0, error), train, failures, right, method=amends.methods.grad_dot())


class no_warning:  # noqa: N801
    def __enter__(self): ...
    def __exit__(self, *error): ...


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(checkpoint(lambda t: self.first(t).tanh(), x, use_reentrant=False))


def test_a_model_with_checkpoints_of_its_own_is_told_in_one_line():
    train, failures, right = lines(0.0, 0)
    with pytest.raises(BadInput, match=r"forward calls torch.utils.checkpoint, .*; model; switch it off"):
        amends.identify(Checkpointed(), train, failures, right)


@pytest.mark.parametrize("where", ["argument", "weights"])
def test_a_device_that_computes_nothing(where):
    train, failures, right = lines(0.0, 0)
    model = nn.Linear(4, 2, device="meta" if where == "weights" else None)
    expected = "the device is meta" if where == "argument" else "weight has no values yet"
    with pytest.raises(BadInput, match=expected):
        amends.identify(model, train, failures, right, device="meta" if where == "argument" else None)
