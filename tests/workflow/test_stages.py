"""One path: several groups, stopped after any stage, end where they would have; the command line as Python does."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import amends
from amends.algorithm.options import Options
from amends.algorithm.problem import Problem
from amends.algorithm.rounds import Round, Search
from amends.config import read_config
from amends.evidence.network import Network
from amends.evidence.prepare import prepare
from amends.progress import Progress
from amends.runs import manifest
from amends.workflow import checkpoint, verbs
from amends.workflow.job import open_job
from amends.workflow.stages import stages
from tests.projects import amends as command
from tests.projects import digits_project
from tests.worlds import planted_digits

GROUPS = ("1→7", "9→4")
LIGHT = ("--method", "grad_dot", "--no-learn", "-q")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    digits_project(folder)
    return folder


@pytest.fixture
def _inside(project, monkeypatch):
    monkeypatch.chdir(project)


def repair(out, *more):
    return command("repair", "-o", out, *LIGHT, *(w for g in GROUPS for w in ("--group", g)), *more)


@pytest.fixture(scope="module")
def whole(project):
    """Two groups, repaired without a stop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        assert repair("runs/whole") == 0
    return project / "runs/whole"


def result_of(run):
    return json.loads((run / "metrics.json").read_text()), load_file(run / "repaired/model.safetensors")


def same(run, other):
    (metrics, weights), (others, other_weights) = result_of(run), result_of(other)
    assert metrics == others
    assert weights.keys() == other_weights.keys()
    assert all(torch.equal(weights[k], other_weights[k]) for k in weights)


class Stopped(KeyboardInterrupt):
    """Power fails."""


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize("ended", [1, 2, 3], ids=["first search", "first round", "second search"])
def test_several_groups_go_on_from_any_stage(whole, tmp_path, monkeypatch, ended):
    """The stages before the stop are not computed again, and the end is the same to the bit."""
    stored, computed = [], Counter()
    storing, searching, treating = verbs._store, Problem.search, Problem.treat

    def stop(*args):
        storing(*args)
        stored.append(args)
        if len(stored) == ended:
            raise Stopped

    monkeypatch.setattr(verbs, "_store", stop)
    assert repair(tmp_path / "run") == 130
    monkeypatch.setattr(verbs, "_store", storing)
    monkeypatch.setattr(Problem, "search", lambda self, before, shown, known=None: (
        computed.update(search=known is None) or searching(self, before, shown, known)))  # fmt: skip
    monkeypatch.setattr(Problem, "treat", lambda *args: computed.update(treat=1) or treating(*args))
    assert repair(tmp_path / "run") == 0
    same(whole, tmp_path / "run")
    assert computed == {"search": 2 - (ended + 1) // 2, "treat": 2 - ended // 2}
    assert {p.name for p in (tmp_path / "run").rglob("*.json")} == {p.name for p in whole.rglob("*.json")}


@pytest.mark.usefixtures("_inside")
def test_a_finished_run_keeps_what_each_search_found_and_no_weights_twice(whole):
    assert {p.name for p in (whole / "rounds").iterdir()} == {"1", "2"}
    assert {p.name for p in (whole / "rounds/1").iterdir()} == {"scores.npz", "members.json", "edited.safetensors"}
    first, second = (np.load(whole / f"rounds/{k}/scores.npz")["query"] for k in (1, 2))
    assert not set(first) & set(second)


@pytest.mark.usefixtures("_inside")
def test_it_is_treated_again_and_removed_like_any_run(whole, tmp_path):
    """From what the first search found; the run itself stays as it is."""
    before = {p: p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    assert command("treat", whole, "-o", tmp_path / "again", "-q", "--no-learn") == 0
    same(whole, tmp_path / "again")
    assert {p: p.read_bytes() for p in whole.rglob("*") if p.is_file()} == before
    assert command("curve", tmp_path / "again") == 0, "it holds one already"
    assert command("runs", "rm", tmp_path / "again", "--yes") == 0
    assert not (tmp_path / "again").exists()


@pytest.mark.usefixtures("_inside")
def test_the_command_line_is_python(whole, project):
    """Data, model and choices as a config has them."""
    job = open_job(read_config(project / "amends.toml"))
    result = amends.repair(
        job.loaded.model, job.records["train"], job.records["failures"], job.records["remaining"],
        identify_with=amends.methods.grad_dot(), treat_with=amends.methods.fine_tune(epochs=4), learn=False,
        group_by=amends.Groups(only=list(GROUPS)),
    )  # fmt: skip
    metrics, weights = result_of(whole)
    assert json.loads(json.dumps(result.metrics)) == metrics
    assert all(torch.equal(v, weights[k]) for k, v in result.model.state_dict().items())


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize("name", ["round.json", "weights.safetensors", "control-0.safetensors", "scores.npz"])
def test_a_damaged_stage_is_said(tmp_path, monkeypatch, capsys, name):
    storing = verbs._store

    def stop(stage, *args):
        storing(stage, *args)
        if isinstance(stage, Round):
            raise Stopped

    monkeypatch.setattr(verbs, "_store", stop)
    assert repair(tmp_path / "run") == 130
    (tmp_path / "run/rounds/1" / name).write_text("{")
    capsys.readouterr()
    assert repair(tmp_path / "run") == 3
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert f"rounds/1/{name} is not as it was written" in said
    assert said.count("\n") == 1


@pytest.mark.usefixtures("_inside")
def test_several_groups_are_not_identified_at_once(tmp_path, capsys):
    chosen = [word for g in GROUPS for word in ("--group", g)]
    assert command("identify", "-o", tmp_path / "run", "--method", "grad_dot", *chosen) == 2
    assert "name one group to identify" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_inside")
def test_the_model_is_copied_once(tmp_path, monkeypatch):
    made = []
    of = Network.of.__func__
    monkeypatch.setattr(Network, "of", classmethod(lambda cls, *args: made.append(args) or of(cls, *args)))
    assert command("repair", "-o", tmp_path / "run", *LIGHT, "--top", 20) == 0
    assert len(made) == 1


@pytest.fixture(scope="module")
def problem():
    model, train, failures, remaining, _ = planted_digits()
    given = prepare(model, None, None, 256, train=train, failures=failures, remaining=remaining)
    asked = Options(
        identify_with=amends.methods.grad_dot(), treat_with=amends.methods.fine_tune(epochs=1), remove=20, learn=False,
        group_by=amends.Groups(only=list(GROUPS)),
    )  # fmt: skip
    return Problem.of(given, asked)


def test_stages_come_in_order_and_leave_out_what_is_done(problem):
    with torch.no_grad():
        every = list(stages(problem, Progress()))
        assert [type(stage) for stage in every] == [Search, Round, Search, Round]
        after_one = list(stages(problem, Progress(), every[1:2]))
        assert [type(stage) for stage in after_one] == [Search, Round]
        after_search = list(stages(problem, Progress(), every[1:2], every[2].influence.identified))
    assert [type(stage) for stage in after_search] == [Round]
    for again in (after_one[-1], after_search[-1]):
        assert np.array_equal(again.removed, every[-1].removed)
        assert all(torch.equal(v, every[-1].after[k]) for k, v in again.after.items())


def test_a_round_is_read_back_as_it_was(problem, tmp_path):
    (tmp_path / "run.toml").touch()
    manifest.seal(tmp_path)
    with torch.no_grad():
        path = stages(problem, Progress())
        next(path)
        ended = next(path)
        checkpoint.add_round(ended, tmp_path, 0)
        (read,), known = checkpoint.read_stages(problem, tmp_path)
    assert known is None
    assert (read.row(), read.limits, read.controls) == (ended.row(), ended.limits, ended.controls)
    assert np.array_equal(read.removed, ended.removed)
    assert all(torch.equal(v, ended.after[k]) for k, v in read.after.items())
    assert read.points[0].row() == ended.points[0].row()
    for ours, theirs in zip(read.points[0].fits, ended.points[0].fits, strict=True):
        assert all(torch.equal(v, theirs.theta[k]) for k, v in ours.theta.items())
    shutil.rmtree(tmp_path / "rounds")
    assert checkpoint.read_stages(problem, tmp_path) == ([], None)
