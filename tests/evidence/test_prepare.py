"""Sets that do not go together: columns and classes are those of train."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch import nn

import amends
from amends.errors import BadInput
from amends.evidence.prepare import RESIDENT, prepare, resident
from tests.evidence.small import data, model


def test_what_is_not_there_is_named():
    for sets in ((None, data()), (data(), None)):
        with pytest.raises(BadInput, match=r"(train|failures) is None; pass labelled examples"):
            amends.repair(model(), *sets)


def table(columns="abcd", seed=0):
    x, y = data(30, seed)
    return pd.DataFrame({c: x[:, i % 4] for i, c in enumerate(columns)} | {"label": y})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("abdc", "failures has the columns of train in another order; give the columns of train, in its order"),
        ("abc", "failures has no column d; give the columns of train"),
        ("abcx", "failures has no column d"),
        ("abcdx", "failures has column x, but train does not"),
    ],
)
def test_columns_are_those_of_train(columns, said):
    """A model takes columns by their place; a table that has others would be read as something else."""
    with pytest.raises(BadInput, match=said):
        amends.identify(model(), table(), table(columns, seed=1), method=amends.methods.grad_dot())


def test_classes_are_those_of_train_by_name(tmp_path):
    """A set that lacks a class gives the others lower numbers."""

    def named(names, seed):
        frame = table(seed=seed)
        frame = frame.assign(label=[names[k] for k in frame["label"]]).query("label != ''")
        frame.to_csv(tmp_path / "set.csv", index=False)
        return frame["label"].tolist(), amends.data.read(tmp_path / "set.csv")

    _, train = named(("no", "yes", "maybe"), 0)
    words, some = named(("no", "yes", ""), 1)
    assert (train.classes, some.classes) == (("maybe", "no", "yes"), ("no", "yes"))
    given = prepare(model(), None, None, 8, train=train, failures=some)["failures"].examples
    assert given.classes == train.classes
    assert [train.classes[k] for k in given.y.tolist()] == words
    with pytest.raises(BadInput, match="failures has class never, but train does not; give only maybe, no, yes"):
        prepare(model(), None, None, 8, train=train, failures=named(("no", "yes", "never"), 1)[1])
    with pytest.raises(BadInput, match=r"failures\[0\] has label -1, but failures has 2 classes; map classes"):
        prepare(model(), None, None, 8, train=train, failures=replace(some, y=some.y - 1 - some.y[0]))
    spare = replace(some, classes=("no", "yes", "never"))
    assert (prepare(model(), None, None, 8, train=train, failures=spare)["failures"].examples.y == given.y).all()


def test_small_sets_stay_on_an_accelerator_beside_a_train_set_that_does_not_fit():
    """Failures are read at every step of an edit, a large train once."""
    sizes = {"train": RESIDENT, "failures": 10, "remaining": 20}
    assert resident(sizes) == {"failures", "remaining"}
    assert resident({**sizes, "train": RESIDENT - 30}) == {"train", "failures", "remaining"}
    assert resident({**sizes, "failures": 2 * RESIDENT}) == {"remaining"}


def test_what_was_made_in_inference_mode_can_be_differentiated():
    """Features that somebody computed there, and a model that was loaded there."""
    with torch.inference_mode():
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
        x = torch.randn(30, 4)
        y = (x[:, 0] > 0).long()
    scores = amends.identify(net, (x, y), (x[:9], y[:9]), method=amends.methods.grad_dot()).scores
    plain = amends.identify(net, (x.numpy(), y.numpy()), (x[:9].numpy(), y[:9].numpy()),
                            method=amends.methods.grad_dot()).scores  # fmt: skip
    assert (scores == plain).all()
