"""A disk that fails at any call: one line and exit code 5, or a good end, and what was there before stays as it was."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from amends.errors import DiskError
from amends.runs import manifest
from amends.runs.disk import locked
from tests.faults import disk
from tests.faults.failing import ERRORS, failing_at, in_child, sites
from tests.faults.killing import contents
from tests.faults.test_kills import stage
from tests.projects import amends, texts_project


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project of texts with a search and a finished repair."""
    folder = tmp_path_factory.mktemp("disk")
    texts_project(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        disk.begin(folder)
        yield folder


def adding(folder):
    """Adds a stage; 5 where the disk is said to fail."""
    try:
        manifest.add_to_run(folder, stage, drop=["curve.csv"])
    except DiskError:
        return 5
    return 0


def test_a_stage_is_added_or_not_whatever_call_fails(folder, tmp_path):
    """Every call that adding a stage makes, with one error after the other."""
    before = contents(folder)
    after = shutil.copytree(folder, tmp_path / "after")
    adding(after)
    after = contents(after)
    ended = []
    for number in range(10**3):
        run = shutil.copytree(folder, tmp_path / str(number) / "run")
        reached = failing_at(number, ERRORS[number % len(ERRORS)], lambda run=run: adding(run), run.parent)
        assert reached.code in (0, 5), reached
        with locked(run):
            manifest.settle(run)
        assert contents(run) in (before, after), number
        assert [p.name for p in run.iterdir() if p.name.startswith(".")] == []
        ended.append((reached.code, contents(run) == after))
        if reached.calls <= number:
            break
    assert len(ended) > 20, "as many calls as there are"
    assert ended[-1] == (0, True)
    assert (5, False) in ended


def test_commands_on_a_failing_disk(project):
    """Of each line that calls the disk the first call, with one error after the other; all of them in `make faults`."""

    def picked(found):
        first = {site.line: number for number, site in reversed(list(enumerate(found)))}
        return [(number, ERRORS[i % len(ERRORS)]) for i, number in enumerate(sorted(first.values()))]

    tried = [trial() for trial in disk.trials(project, "report", picked)]
    assert [trial for trial in tried if trial.wrong] == []
    assert {trial.code for trial in tried} == {0, 5}


def test_a_disk_that_is_full_in_the_middle_of_a_file(project):
    """Of each file that a search writes, the last byte does not fit: libraries that write by themselves included."""
    tried = [trial() for trial in disk.full_disks(project, "identify")]
    assert [trial for trial in tried if trial.wrong] == []
    assert {trial.code for trial in tried} == {5}
    assert len(tried) > 8


def test_too_few_open_files(project):
    tried = [trial() for trial in disk.few_files(project, "report", 6)]
    assert [trial for trial in tried if trial.wrong] == []
    assert {trial.code for trial in tried} == {0, 5}


def test_what_fails_is_what_was_asked_to_fail(tmp_path):
    """The faults are real: the nth call raises, and those before it do not."""
    (tmp_path / "in").mkdir()

    def work():
        (tmp_path / "in/a").write_text("a")
        os.rename(tmp_path / "in/a", tmp_path / "in/b")
        (tmp_path / "in/c").write_text("c")
        return 0

    assert [site.call for site in sites(work, tmp_path / "in")] == ["open", "os.rename", "open"]
    assert sorted(p.name for p in (tmp_path / "in").iterdir()) == ["b", "c"]
    shutil.rmtree(tmp_path / "in")
    (tmp_path / "in").mkdir()
    ended = failing_at(1, errno.EIO, work, tmp_path / "in")
    assert ended.code == 99
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["a"]
    assert in_child(lambda: 7).code == 7


def test_no_file_left_to_open_is_no_bug_of_amends(project, monkeypatch, capsys):
    """Whatever library is the one that is refused."""

    def refused(*_):
        raise RuntimeError("unable to open file <model.safetensors> in read-only mode: Too many open files (24)")

    monkeypatch.setattr("safetensors.torch.load_file", refused)
    assert amends("check") == 5
    said = capsys.readouterr().err
    assert said.startswith("error: unable to open file")
    assert "bug" not in said


COMMANDS = [("treat", "runs/search"), ("treat", "runs/search", "-o", "runs/new"), ("curve", "runs/search"),
            ("identify", "-o", "runs/new"), ("repair", "-o", "runs/new"), ("demo", "-o", "runs/new")]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_cannot_be_written_is_known_before_anything_is_loaded(command, project, monkeypatch, capsys):
    def refused(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("amends.runs.disk.fresh", refused)
    monkeypatch.setattr("amends.cli.loading.load_job", lambda *_: pytest.fail("it loads"))
    monkeypatch.setattr("amends.demo.digits", lambda *_: pytest.fail("it loads"))
    before = contents(project)
    assert amends(*command) == 5
    assert capsys.readouterr().err.startswith("error: Permission denied; runs")
    assert contents(project) == before
