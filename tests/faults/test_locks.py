"""One writer at a time, from before anything is loaded until the result is written."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from amends.errors import BadInput
from amends.runs.claim import claimed
from amends.runs.disk import locked
from amends.runs.run import Run
from amends.workflow import verbs
from amends.workflow.job import open_job
from tests.projects import amends, texts_project

SECOND = """
import json, sys
from amends.cli.app import run
codes = {" ".join(args): run(args) for args in json.loads(sys.argv[1])}
print(json.dumps({"codes": codes, "torch": "torch" in sys.modules}))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert amends("identify", "-o", "run", "-q") == 0
    return tmp_path


def test_the_second_is_told_before_it_imports_torch(here):
    commands = [["treat", "run"], ["curve", "run"], ["repair", "-o", "run"], ["identify", "-o", "new"],
                ["treat", "run", "-o", "new"], ["repair", "-o", "new"], ["demo", "-o", "new"],
                ["runs", "rm", "--yes", "run"]]  # fmt: skip
    with locked(here / "run"), locked(here / "new"):
        done = subprocess.run([sys.executable, "-c", SECOND, json.dumps(commands)], capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert set(said["codes"].values()) == {4}, (said, done.stderr)
    assert not said["torch"]
    assert done.stderr.count("another amends is writing this run") == len(commands)


def test_the_state_is_read_again_under_the_lock(here):
    """Somebody finished the run after this one had opened it."""
    opened = Run.open(here / "run")
    job = open_job(opened.config)
    assert amends("treat", "run", "--top", 9, "-q") == 0
    before = (here / "run/metrics.json").read_bytes()
    with pytest.raises(BadInput, match="the run is finished"):
        verbs.treat_into(opened, job, None, None, False)
    assert (here / "run/metrics.json").read_bytes() == before


def test_two_runs_without_a_name_do_not_take_the_same(here):
    with claimed(None, "repair") as one, claimed_elsewhere() as other:
        assert (str(one), other) == ("runs/repair-1", "runs/repair-2")


def claimed_elsewhere():
    from contextlib import contextmanager

    code = (
        "from amends.runs.claim import claimed\nimport sys\n"
        "with claimed(None, 'repair') as out:\n    print(out, flush=True)\n    sys.stdin.read()\n"
    )

    @contextmanager
    def process():
        with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as made:
            yield made.stdout.readline().strip()
            made.communicate("")

    return process()
