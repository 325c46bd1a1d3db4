"""Model and data that do not belong together are named before anything is computed, and sound ones are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import amends
from amends.data.records import Records
from amends.errors import BadInput
from tests import projects
from tests.faults.broken import BROKEN
from tests.faults.kinds import evaluated
from tests.faults.setups import of_broken, of_sound, told_in_python
from tests.faults.sound import SOUND
from tests.worlds import QUICK, cheaply, clean_digits, planted_digits

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_setup_is_named_before_anything_is_computed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = of_broken(name)
    assert told.names(BROKEN[name].said), told.lines


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_setup_is_not_called_broken(name):
    told = of_sound(name)
    assert not told.stopped, told.lines
    doubts = ("the outputs are", "batch norm", "differ widely")
    assert not [line for line in told.lines if any(doubt in line for doubt in doubts)]


def test_the_tables_are_as_large_as_they_claim():
    assert len(BROKEN) >= 40
    assert len(SOUND) >= 20
    assert {case.world.__name__ for case in BROKEN.values()} == {"pictures", "texts", "table"}


def test_an_alarm_says_how_to_go_on():
    told = told_in_python(*swapped_digits())
    assert told.stopped
    assert told.lines[-1].endswith(", or go on with anyway=True, --anyway on the command line")


def swapped_digits():
    """Two classes the wrong way round, in train and in the evaluation set."""
    net, train, failures, remaining, _ = planted_digits()
    held = tuple(torch.cat(pair) for pair in zip(failures, remaining, strict=True))
    turned = ((x, torch.where((y == 3) | (y == 4), 7 - y, y)) for x, y in (train, held))
    return evaluated(net, *turned)


def test_whoever_wants_to_goes_on_and_the_result_says_so():
    result = amends.repair(*swapped_digits(), anyway=True, **QUICK)
    (alarm,) = result.metrics["setup"]["alarms"]
    assert "seem to be in another order" in alarm
    assert result.metrics["warnings"][0] == alarm
    with pytest.raises(BadInput, match="anyway is 'yes'; it must be True or False"):
        amends.repair(*swapped_digits(), anyway="yes")


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


def test_failures_in_the_place_of_remaining_are_refused(planted):
    net, train, failures, _, _ = planted
    with pytest.raises(BadInput, match=r"77 of the 77 examples of remaining are failures too; remaining; give held"):
        amends.repair(net, train, failures, failures)


def test_some_of_remaining_that_are_wrong_are_counted(planted):
    net, train, failures, (x, y), _ = planted
    some = torch.cat([x, x[:40] + 0.01]), torch.cat([y, (y[:40] + 1) % 10])
    said = amends.repair(net, train, failures, some, **QUICK).metrics["warnings"]
    assert [line for line in said if "of remaining that judge" in line and "wrong before the repair" in line]


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
        assert "next to nothing about evaluation" in said
        assert said.strip().endswith("--anyway on the command line")
    assert not Path("run").exists()
    assert projects.amends("check", "--anyway") == 0
    assert "and guessing would be" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("number", "said"), [(7, "cannot show a repair by themselves"), (20, "5 more than its controls")]
)
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
