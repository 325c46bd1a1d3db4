"""Model and data that do not belong together are named before anything is computed, and sound ones are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.algorithm.rounds import Plan
from amends.data.records import Records
from amends.errors import BadInput
from tests import projects
from tests.worlds import QUICK, cheaply, clean_digits, learned, planted_digits

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Prepared(nn.Module):
    """A model behind another preparation of its inputs than it was trained with, or another reading of its outputs."""

    def __init__(self, net, before=None, after=None):
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, x):
        x = x if self.before is None else self.before(x)
        out = self.net(x)
        return out if self.after is None else self.after(out)


def evaluated(net, train, held):
    """As a stranger makes the four arguments of a repair: by running the model."""
    with torch.no_grad():
        ok = net(held[0]).argmax(1) == held[1]
    return net, train, *(tuple(v[part] for v in held) for part in (~ok, ok))


def world(break_it):
    net, train, failures, remaining, _ = planted_digits()
    held = tuple(torch.cat(pair) for pair in zip(failures, remaining, strict=True))
    return evaluated(*break_it(net, train, held))


def with_classes(data, order):
    """Labels numbered by the place of their class in another order."""
    return data[0], torch.argsort(torch.tensor(order))[data[1]]


ALPHABET = np.argsort(np.array(NAMES)).tolist()  # what sorting the names makes of the classes
SWAPPED = [0, 1, 2, 4, 3, 5, 6, 7, 8, 9]


def shuffled(data):
    return data[0], data[1][torch.randperm(len(data[1]), generator=torch.Generator().manual_seed(0))]


BROKEN = {
    "classes sorted by name": (
        lambda n, t, h: (n, with_classes(t, ALPHABET), with_classes(h, ALPHABET)), "seem to be in another order",
    ),
    "two classes swapped": (
        lambda n, t, h: (n, with_classes(t, SWAPPED), with_classes(h, SWAPPED)),
        "with output 3 as 4, output 4 as 3 for 9",
    ),
    "outputs turned round": (lambda n, t, h: (Prepared(n, after=lambda o: o.flip(1)), t, h), "output 0 as 9"),
    "normalised twice": (lambda n, t, h: (Prepared(n, lambda x: (x - 2.5) / 0.3), t, h), "a last layer fitted anew"),
    "inputs turned round": (lambda n, t, h: (Prepared(n, lambda x: x.flip(1)), t, h), "a last layer fitted anew"),
    "weights of no training": (lambda n, t, h: (learned(t[0][:1], t[1][:1]), t, h), "a last layer fitted anew"),
    "labels of train shuffled": (lambda n, t, h: (n, shuffled(t), h), "and guessing would be for"),
    "inputs of another set": (lambda n, t, h: (n, (torch.rand(t[0].shape), t[1]), h), "and guessing would be for"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_setup_is_named_before_anything_is_computed(name, monkeypatch):
    monkeypatch.setattr(Plan, "search", None)  # would be called
    break_it, said = BROKEN[name]
    with pytest.raises(BadInput) as caught:
        amends.repair(*world(break_it))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(", or go on with anyway=True, --anyway on the command line")


def test_whoever_wants_to_goes_on_and_the_result_says_so():
    result = amends.repair(*world(BROKEN["two classes swapped"][0]), anyway=True, **QUICK)
    (alarm,) = result.metrics["setup"]["alarms"]
    assert "seem to be in another order" in alarm
    assert result.metrics["warnings"][0] == alarm
    with pytest.raises(BadInput, match="anyway is 'yes'; it must be True or False"):
        amends.repair(*world(lambda *w: w), anyway="yes")


def test_more_names_than_outputs_are_refused(planted):
    net, train, failures, remaining, _ = planted
    named = Records(*train, classes=(*NAMES, "ten"))
    with pytest.raises(BadInput, match="there are 11 names of classes, but the model has 10 outputs; classes"):
        amends.repair(net, named, failures, remaining)


def test_failures_that_are_training_examples_are_refused(planted):
    net, train, _, remaining, wrong = planted
    with torch.no_grad():
        missed = torch.tensor(wrong) | (net(train[0]).argmax(1) != train[1])
    own = (train[0][missed], (train[1][missed] + 1) % 10)
    both = tuple(torch.cat(pair) for pair in zip(train, own, strict=True))
    with pytest.raises(BadInput, match=r"of the \d+ failures are training examples, label and all"):
        amends.repair(net, both, own, remaining)


def blobs(classes, per, apart, seed=0, hidden=32, epochs=60, inputs=20):
    """Classes around random centres, `per` examples of each to learn from and as many held out, and a net for them."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat(2 * per)
    x = apart * torch.randn(classes, inputs, generator=g)[y] + torch.randn(len(y), inputs, generator=g)
    half = classes * per
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(epochs):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[:half]), y[:half]).backward()
        optimiser.step()
    return net, (x[:half], y[:half]), (x[half:], y[half:])


def weighted():
    """One class of ten is rare, and the model was trained to find it at any price."""
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(1200, generator=g) < 0.08).long()
    x = 0.5 * y[:, None] + torch.randn(1200, 6, generator=g)
    torch.manual_seed(0)
    net = nn.Linear(6, 2)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[:600]), y[:600], weight=torch.tensor([1.0, 15.0])).backward()
        optimiser.step()
    return net, (x[:600], y[:600]), (x[600:], y[600:])


def noisy(share):
    """Labels of train that are wrong at random, and not fitted."""
    net, (x, y), held = blobs(5, 80, 0.8, epochs=40)
    g = torch.Generator().manual_seed(1)
    turned = torch.rand(len(y), generator=g) < share
    return net, (x, torch.where(turned, torch.randint(0, 5, y.shape, generator=g), y)), held


SOUND = {
    "two classes, hardly told apart": lambda: blobs(2, 300, 0.08, hidden=4, epochs=30),
    "77 classes": lambda: blobs(77, 12, 0.9, hidden=64),
    "77 classes, barely fitted": lambda: blobs(77, 12, 0.9, hidden=64, epochs=25),
    "a rare class at any price": weighted,
    "a third of the labels wrong": lambda: noisy(0.33),
    "memorised": lambda: blobs(3, 40, 0.3, hidden=128, epochs=300),
    "few examples": lambda: blobs(4, 8, 1.0),
    "ten digits": lambda: (lambda n, t, f, r: (n, t, tuple(map(torch.cat, zip(f, r, strict=True)))))(*clean_digits()),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_setup_is_not_called_broken(name):
    arguments = evaluated(*SOUND[name]())
    result = amends.repair(*arguments, **QUICK)
    assert result.metrics["setup"]["alarms"] == []
    told = result.metrics["setup"]["evaluation"]["right"]
    if name == "two classes, hardly told apart":
        assert 0.55 < told < 0.66


@pytest.fixture
def project(tmp_path, monkeypatch):
    projects.digits_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_and_repair_say_how_often_the_model_is_right(project, capsys):
    assert projects.amends("check", "--json") == 0
    right = json.loads(capsys.readouterr().out)["right"]
    assert right["train"]["n"] == right["train"]["of"] == 300
    assert right["evaluation"] == {"right": pytest.approx(423 / 500), "n": 500, "of": 500}
    assert projects.amends("check") == 0
    assert "84.6% of evaluation" in capsys.readouterr().out
    Path("amends.toml").write_text(Path("amends.toml").read_text() + 'method = "grad_dot"\ntop = 30\nlearn = true\n')
    assert projects.amends("repair", "-o", "run") == 0
    assert "84.6% of the evaluation set" in capsys.readouterr().err
    with (project / "run/failures.csv").open() as rows:
        lines = [line.split(",") for line in rows]
    at = {name: lines[0].index(name) for name in ("part", "learned")}
    assert {(row[at["part"]], row[at["learned"]]) for row in lines[1:]} == {("query", "yes"), ("holdout", "")}


def test_an_evaluation_set_prepared_in_another_way_stops_both(project, capsys):
    with np.load("evaluation.npz") as held:
        np.savez("evaluation.npz", x=np.roll(held["x"], 17, axis=1), y=held["y"])
    for command in (("check",), ("identify", "-o", "found", "-q"), ("repair", "-o", "run", "-q")):
        assert projects.amends(*command) == 2
        said = capsys.readouterr().err
        assert "of evaluation, and guessing would be for" in said
        assert said.strip().endswith("--anyway on the command line")
    assert not Path("run").exists()
    assert projects.amends("check", "--anyway") == 0
    assert "and guessing would be for" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "said"), [(7, "cannot show a repair"), (20, "only if it fixes 5 of them beyond")])
def test_check_says_what_so_few_failures_can_show(project, capsys, number, said):
    text = Path("amends.toml").read_text()
    Path("amends.toml").write_text(f"{text}learn = true\n\n[failures]\nindices = {list(range(number))}\n")
    assert projects.amends("check", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(said in note for note in notes)
    assert any("will be learned from: do not test the repaired model on them again" in note for note in notes)


def test_where_training_on_alone_fixes_most_the_verdict_says_so(result):
    """A net whose weights were disturbed, as by a bad conversion."""
    net, train, failures, remaining = clean_digits()
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.4 * torch.randn(p.shape, generator=g))
    held = tuple(torch.cat(pair) for pair in zip(failures, remaining, strict=True))
    repair = amends.repair(
        *evaluated(net, train, held),
        **cheaply(result, learn=False, anyway=True, treat_with=amends.methods.fine_tune(rate=5e-3)),
    )
    assert repair.metrics["controls"]["nothing"]["holdout"] > 0.5
    assert "with nothing removed the same treatment fixes" in repair.metrics["reason"]
