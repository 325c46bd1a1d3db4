"""`amends demo`, as a person runs it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from tests.projects import heeding

AMENDS = [sys.executable, "-c", "from amends.cli import main; main()"]


def amends(*args, cwd, **more):
    return subprocess.run([*AMENDS, *args], cwd=cwd, capture_output=True, text=True, **more)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, amends("demo", cwd=folder)


def test_the_demo_repairs_a_real_model(ran):
    folder, done = ran
    assert done.returncode == 0, done.stderr
    for word in (
        "Failures",
        "The training examples behind the failures",
        "How many to remove",
        "Repaired:",
        "fixed",
    ):
        assert word in done.stdout
    metrics = json.loads((folder / "runs/demo/metrics.json").read_text())
    assert metrics["verdict"] == "repaired"
    assert metrics["holdout"]["after"] > metrics["controls"]["nothing"]["holdout"] + 0.2
    assert metrics["holdout"]["after"] > metrics["controls"]["random"]["holdout"] + 0.2
    assert metrics["remaining"]["after"] > 0.97


def test_the_demo_writes_a_run_folder(ran):
    folder, _ = ran
    assert sorted(p.name for p in (folder / "runs/demo").iterdir()) == [
        "causes.csv", "causes.parquet", "curve.csv", "curve.png", "dataset", "failing", "failures.csv",
        "identified", "least_harmful.png", "looks.json", "manifest.sha256", "metrics.json", "repaired", "report.html",
        "run.toml", "strongest.png",
    ]  # fmt: skip
    assert (folder / "runs/demo/repaired/model.safetensors").stat().st_size > 100_000
    assert (folder / "runs/demo/curve.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in (folder / "runs").iterdir()) == ["demo"]


def test_a_patch_leads_from_the_model_that_failed_to_the_repaired_one(ran):
    folder, _ = ran
    failing, repaired = (f"runs/demo/{name}/model.safetensors" for name in ("failing", "repaired"))
    assert amends("patch", "runs/demo", "--weights", failing, "-o", "fix.safetensors", cwd=folder).returncode == 0
    assert amends("apply", "fix.safetensors", failing, "-o", "new.safetensors", cwd=folder).returncode == 0
    new, wanted = (load_file(folder / path) for path in ("new.safetensors", repaired))
    assert new.keys() == wanted.keys()
    assert all(torch.equal(new[name], wanted[name]) for name in new)


def test_lines_off_a_terminal(ran):
    """Progress goes to stderr as plain lines; nothing there but those."""
    _, done = ran
    assert "\x1b" not in done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert any(re.fullmatch(r"\d+ of \d+: trying functional; about .* left", line) for line in lines)
    assert len(lines) <= 20


def test_json_is_one_document_and_a_rerun_replaces_the_folder(ran):
    folder, _ = ran
    before = (folder / "runs/demo/metrics.json").read_text()
    quick = ["--method", "grad_dot", "--treat", "newton", "--solver", "diagonal"]
    done = amends("demo", "--json", "--seed", "1", *quick, cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["run"] == "runs/demo"
    assert document["seed"] == 1
    now = (folder / "runs/demo/metrics.json").read_text()
    assert now != before
    assert json.loads(now)["holdout"] == document["holdout"]


def test_what_is_not_a_demo_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = amends("demo", "-o", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the folder holds thesis.txt")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_run_that_is_no_demo_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.toml").write_text("[run]\n")
    done = amends("demo", "-o", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "a run that is not a demo" in done.stderr
    assert (tmp_path / "mine" / "run.toml").read_text() == "[run]\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["demo", "--method", "magic"], "'magic' is not one of"),
        (["demo", "--seed", "-1"], "-1 is not in the range"),
        (["demo", "--sede", "1"], "No such option"),
        (["repare"], "no command 'repare', did you mean repair?"),
    ],
)
def test_usage_errors_are_one_line_and_code_2(args, says, tmp_path):
    done = amends(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_killed_half_way_nothing_is_left(number, code, tmp_path):
    pipes = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": heeding}
    process = subprocess.Popen([*AMENDS, "demo"], cwd=tmp_path, **pipes)
    assert process.stderr is not None
    process.stderr.readline()  # the first stage has begun
    time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "stopped: " in err
    assert "Traceback" not in err
    assert list(tmp_path.rglob("*.json")) == []
