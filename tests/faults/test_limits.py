"""Little memory ends in the same bits or in exit code 7; many searches in one process leave nothing behind."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.failing import in_child
from tests.faults.limits import GROWTH, LEVELS, soak, with_memory
from tests.projects import amends, texts_project

SAME = ("metrics.json", "repaired/model.safetensors", "identified/scores.npz")


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def repaired(out="run"):
    return amends("repair", "-o", out, "-q")


def digests(out="run"):
    return [hashlib.sha256((Path(out) / name).read_bytes()).hexdigest() for name in SAME]


def test_little_memory_is_enough_or_is_said(here):
    """Five levels, from nothing to plenty."""
    assert in_child(repaired).code == 0
    wanted, codes = digests(), []
    for level in LEVELS:
        shutil.rmtree("run", ignore_errors=True)
        ended = with_memory(level, repaired)
        codes.append(ended.code)
        assert ended.clean, ended
        if ended.code == 0:
            assert digests() == wanted
        else:
            assert ended.code == 7, ended
            assert ended.said[-1].startswith("error: out of memory")
            assert "batch_size" in ended.said[-1]
            assert not Path("run").exists() or amends("verify", "run") == 0
    assert codes[0] == 7
    assert codes[-1] == 0


def test_a_library_that_does_not_fit_is_said(tmp_path):
    """Before torch is there."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**27,) * 2)\nfrom amends.cli import main; main()"
    )
    (tmp_path / "amends.toml").write_text('model.function = "json:loads"\ntrain.path = "x"\nevaluation.path = "y"\n')
    done = subprocess.run([sys.executable, "-c", code, "check"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert done.stderr.startswith("error: out of memory (")


def test_many_searches_in_one_process_leave_nothing_behind(here, capsys):
    """Fifteen here, a thousand in `make faults`."""
    (_, early), *_, (_, late) = soak(15)
    assert (late.files, late.threads) == (early.files, early.threads)
    assert late.memory - early.memory < GROWTH
