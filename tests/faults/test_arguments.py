"""Odd values for every argument of what people call: an error of amends in one line, or a result."""

from __future__ import annotations

import inspect
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import amends
from amends.errors import AmendsError, BadInput
from tests.worlds import lines

CALLS = {"identify": amends.identify, "treat": amends.treat, "failing": amends.failing, "repair": amends.repair}
ODD = {
    "None": None, "-1": -1, "0.5": 0.5, "1.5": 1.5, "nan": float("nan"), "1e30": 10**30, "text": "x", "nothing": "",
    "bytes": b"x", "true": True, "list": [1, 1], "empty": [], "table": {"a": 1}, "object": object(),
    "call": lambda *_: 1, "class": torch.nn.CrossEntropyLoss, "array": np.array([1, 2]), "tensor": torch.tensor([1, 2]),
    "number": torch.tensor(3),
    "frame": pd.DataFrame({"index": [1, 2]}), "module": torch.nn.Identity(), "complex": 1j, "stream": iter([1]),
    "sparse": (torch.eye(4).to_sparse(), torch.arange(4) % 3), "ragged": [(torch.ones(4), 0), (torch.ones(3), 1)],
    "too few": (torch.ones(4, 4), torch.zeros(3)), "words": (np.array(["a"] * 5), np.arange(5)), "none of them": [None],
}  # fmt: skip
CASES = [(call, name) for call, of in CALLS.items() for name in inspect.signature(of).parameters if name != "progress"]


@cache
def usual():
    net, train, failures, remaining = lines()
    one = {"model": net, "train": train, "failures": failures, "remaining": remaining, "anyway": True, "data": failures,
           "method": amends.methods.grad_dot(), "causes": [1, 2], "identify_with": amends.methods.grad_dot(),
           "treat_with": amends.methods.fine_tune(epochs=1), "remove": 5}  # fmt: skip
    return {call: {k: v for k, v in one.items() if k in inspect.signature(of).parameters} for call, of in CALLS.items()}


@pytest.mark.parametrize(("call", "name"), CASES)
def test_an_odd_value_is_refused_in_one_line_or_used(call, name):
    given = usual()[call] | ({"method": amends.methods.fine_tune(epochs=1)} if call == "treat" else {})
    said = ""
    for value in ODD.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                CALLS[call](**given | {name: value})
            except AmendsError as e:
                said += str(e)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("call", "odd", "said"),
    [
        ("repair", {"keep": None}, "keep is a NoneType; pass a list of labelled sets"),
        ("repair", {"keep": [None]}, r"keep\[0\] is None; pass labelled examples"),
        ("repair", {"keep": (torch.ones(3, 4), torch.zeros(3))}, r"keep is one set, .* write keep=\[\(x, y\)\]"),
        (
            "repair",
            {"remaining": DataLoader(TensorDataset(*lines()[3]))},
            "a DataLoader, .* pass the set it loads from",
        ),
        ("repair", {"model": nn.LazyLinear(3)}, "parameter weight has no values yet; call the model once"),
        ("identify", {"likelihood": lambda out, y: out.detach()[:, 0]}, "the likelihood has no gradient; leave out"),
        ("identify", {"model": nn.Linear(4, 1)}, r"likelihoods.Bernoulli\(\) for labels of 0 and 1"),
        ("repair", {"learn": np.array([1, 2])}, r"learn is array\(\[1, 2\]\); it must be True, False or None"),
        (
            "identify",
            {"likelihood": amends.likelihoods.Gaussian},
            r"likelihood is the class Gaussian; pass one of them",
        ),
        ("identify", {"likelihood": "gaussian"}, "likelihood is 'gaussian'; pass one such as"),
        ("identify", {"likelihood": nn.CrossEntropyLoss(reduction="none")}, "if it is a loss, pass minus the loss"),
        ("identify", {"device": 0.5}, "the model cannot be copied to device 0.5"),
        ("identify", {"train": ODD["sparse"]}, "it is sparse; call to_dense"),
        ("failing", {"data": None}, "data is None; pass labelled examples"),
    ],
)
def test_what_is_said(call, odd, said):
    with pytest.raises(BadInput, match=said):
        CALLS[call](**usual()[call] | odd)


def test_what_was_found_is_not_what_to_remove():
    given = usual()
    found = CALLS["identify"](**given["identify"] | {"method": amends.methods.grad_dot()})
    with pytest.raises(BadInput, match="causes is the whole result of identify; causes; pass the highest"):
        CALLS["treat"](**given["treat"] | {"causes": found})


@pytest.mark.parametrize("odd", [{"sigma": 0}, {"sigma": -1.0}, {"sigma": float("nan")}, {"bound": 0.0}])
def test_a_spread_is_above_zero(odd):
    with pytest.raises(BadInput, match="Gaussian; give a number above 0"):
        amends.likelihoods.Gaussian(**odd)
