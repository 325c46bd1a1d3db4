"""A run goes on where it stopped, and only with what it was made with."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
from safetensors.torch import load_file, save_file

from amends.runs.run import Run
from tests.projects import amends, heeding


def test_a_finished_run_is_never_overwritten(repaired, capsys):
    before = {p: p.read_bytes() for p in repaired.rglob("*") if p.is_file()}
    for args in (["repair", "-o", repaired], ["identify", "-o", repaired], ["treat", repaired, "--top", 3]):
        assert amends(*args, "-q") == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert {p: p.read_bytes() for p in repaired.rglob("*") if p.is_file()} == before


def test_a_repair_that_was_stopped_goes_on_from_its_search(identified, repaired, project, capsys):
    assert amends("repair", "-o", identified, "--seed", 2) == 0
    assert "trying kfac_ewc" not in capsys.readouterr().err, "it does not search again"
    assert (identified / "metrics.json").read_text() == (repaired / "metrics.json").read_text()


def test_killed_half_way_it_goes_on(repaired, project, tmp_path):
    """SIGINT and SIGTERM between the halves: their exit codes, nothing half-written, and the same result after."""
    out = tmp_path / "killed"
    command = [sys.executable, "-c", "from amends.cli import main; main()", "repair", "-o", str(out), "--seed", "2"]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True, "preexec_fn": heeding}
        with subprocess.Popen(command, **pipes) as process:
            for line in process.stderr:
                if "fitting what was chosen" in line:
                    for _ in range(20):  # as `timeout` and impatient people do
                        process.send_signal(number)
                        time.sleep(0.002)
                    break
            told = process.stderr.read()
            assert process.wait(60) == code, told
        assert "stopped: " in told
        assert Run.open(out).state == "identified"
        assert not [p for p in (*out.iterdir(), *tmp_path.iterdir()) if p.name.startswith(".")]
    assert amends("repair", "-o", out, "--seed", 2, "-q") == 0
    assert (out / "metrics.json").read_text() == (repaired / "metrics.json").read_text()


def test_another_recipe_does_not_go_on(identified, capsys):
    assert amends("repair", "-o", identified, "--seed", 3, "-q") == 3
    assert "another config" in capsys.readouterr().err


def test_changed_data_or_weights_do_not_go_on(project, identified, capsys):
    for name in ("train.npz", "model.safetensors"):
        kept = (project / name).read_bytes()
        try:
            if name == "train.npz":
                with np.load(project / name) as data:
                    np.savez(project / name, x=data["x"] + 1, y=data["y"])
            else:
                state = load_file(project / name)
                save_file({k: v + 0.1 for k, v in state.items()}, project / name)
            assert amends("treat", identified, "--top", 3, "-q") == 3
            assert "not what this run was made with" in capsys.readouterr().err
        finally:
            (project / name).write_bytes(kept)


def test_one_writer_at_a_time(identified, capsys):
    code = f"""
import sys
from pathlib import Path
from amends.runs.run import locked
with locked(Path({str(identified)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    try:
        assert amends("report", identified) == 4
        assert "another amends is writing this run" in capsys.readouterr().err
    finally:
        holder.communicate("")
    assert amends("report", identified) == 0
    assert not list(identified.parent.glob(".*"))


def test_a_full_disk_is_exit_code_five(identified, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("amends.runs.manifest.flush", full)
    assert amends("report", identified) == 5
    assert "No space left on device" in capsys.readouterr().err
