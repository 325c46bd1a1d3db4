"""A writer that is killed leaves the stage before or the stage after, whole, and nothing that stays in the way."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from amends.runs import manifest
from amends.runs.disk import locked
from amends.runs.run import Run, remove
from tests.faults.killing import contents, killed_at
from tests.projects import amends


def stage(made):
    """Some files anew, one more, and another state."""
    (made / "causes.csv").write_text((made.parent / "causes.csv").read_text().replace("remove", "keep"))
    (made / "metrics.json").write_text(json.dumps({"verdict": "another"}))
    (made / "rounds/2").mkdir(parents=True)
    (made / "rounds/2/round.json").write_text("{}")
    (made / "run.toml").write_text((made.parent / "run.toml").read_text().replace('"first"', '"second"'))


def test_killed_at_any_call_the_folder_holds_one_stage_or_the_other(folder, tmp_path):
    before = contents(folder)
    after = shutil.copytree(folder, tmp_path / "after")
    manifest.add_to_run(after, stage, drop=["curve.csv"])
    after = contents(after)
    assert "curve.csv" in before.keys() - after.keys()
    seen = []
    for number in range(10**3):
        run = shutil.copytree(folder, tmp_path / str(number))
        died = killed_at(number, lambda run=run: manifest.add_to_run(run, stage, drop=["curve.csv"]))
        Run.sound(run)
        with locked(run):
            manifest.settle(run)
        assert contents(run) in (before, after), number
        assert manifest.strangers(run) == []
        assert [p.name for p in run.iterdir() if p.name.startswith(".")] == []
        seen.append(contents(run) == after)
        if number % 7 == 0:
            remove(run)
            assert not run.exists()
        if not died:
            break
    assert len(seen) > 20, "as many calls as there are to be killed at"
    assert seen == sorted(seen), "once the stage counts, it stays"
    assert not seen[0]


def test_a_new_run_is_whole_or_not_there(folder, tmp_path):
    wanted = contents(folder)

    def fill(made):
        shutil.copytree(folder, made, dirs_exist_ok=True)
        (made / manifest.NAME).unlink()

    for number in range(10**3):
        out = tmp_path / "new" / "run"
        died = killed_at(number, lambda out=out: manifest.write_run(out, fill))
        assert not out.exists() or contents(out) == wanted
        with locked(out):
            pass
        if not died:
            break
        if out.exists():
            shutil.rmtree(out)
    assert number > 10
    assert [p.name for p in out.parent.iterdir()] == ["run"], "what killed writers left is cleared away"


def test_what_a_killed_writer_left_does_not_keep_a_run_from_being_removed(folder, capsys):
    (folder / ".adding.making-0123abcd/half").mkdir(parents=True)
    assert amends("runs", "rm", folder, "--yes") == 0
    assert not folder.exists()


@pytest.mark.parametrize("name", ["repaired/notes.txt", "dataset/mine.csv", "mine/deep/file", "x.lnk"])
def test_a_file_of_the_users_is_never_removed(name, folder, capsys):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "x.lnk":
        path.symlink_to(folder / "run.toml")
    else:
        path.write_text("mine")
    before = contents(folder)
    assert amends("runs", "rm", folder, "--yes") == 2
    assert "which amends did not write" in capsys.readouterr().err
    assert contents(folder) == before


def test_every_file_is_on_the_disk_before_it_has_its_name(folder, monkeypatch):
    """fsync of each file, then the rename, then fsync of the folder that holds the name."""
    log, real = [], {name: getattr(os, name) for name in ("fsync", "rename")}

    def fsync(handle):
        log.append(("fsync", os.readlink(f"/proc/self/fd/{handle}")))
        real["fsync"](handle)

    def rename(a, b):
        log.append(("rename", str(b)))
        real["rename"](a, b)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    manifest.add_to_run(folder, stage)
    at = log.index(("rename", str(folder / manifest.READY)))
    flushed = [name for what, name in log[:at] if what == "fsync"]
    for name in ("causes.csv", "metrics.json", "rounds/2/round.json", "run.toml", manifest.NAME):
        assert any(path.endswith(f"/{name}") for path in flushed), name
    assert ("fsync", str(folder)) in log[at:]


def test_the_umask_is_kept(folder, tmp_path):
    """Nobody else reads a run of somebody whose umask says so."""
    before = os.umask(0o077)
    try:
        run = manifest.write_run(tmp_path / "mine", lambda made: (made / "run.toml").write_text("x") and None)
        manifest.add_to_run(folder, stage)
    finally:
        os.umask(before)
    assert run.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o077 for p in run.rglob("*")} == {0}
    assert (folder / "metrics.json").stat().st_mode & 0o077 == 0
