"""Help, and what needs no torch."""

from __future__ import annotations

import resource
import subprocess
import sys

from amends.cli.app import COMMANDS


def test_help_is_quick_and_does_not_import_torch():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from amends.cli.app import run; run(['--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


def test_help_of_every_command_needs_no_torch():
    code = f"""
import sys
from amends.cli.app import run
for command in {list(COMMANDS)}:
    assert run([command, "--help"]) == 0, command
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: amends") == len(COMMANDS)


def test_run_is_read_without_torch(repaired):
    code = f"""
import sys
from amends.cli.app import run
assert run(["runs", "show", {str(repaired)!r}]) == 0
assert run(["runs", "ls", {str(repaired.parent)!r}]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
