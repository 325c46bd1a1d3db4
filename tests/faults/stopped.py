"""Commands that are killed, told to stop, or begun twice, at instants of their own run; then they are run again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from amends.algorithm import fitting
from amends.workflow import fits
from tests.faults.killing import contents
from tests.faults.parts import Outcome, Part
from tests.projects import amends, digits_project, heeding, texts_project

PROJECTS = {"texts": texts_project, "digits": digits_project}  # 45 to remove; all that the default chooses
VERBS = {
    "identify": ("identify", "-o", "run"), "curve": ("curve", "run"),
    "treat": ("treat", "run"), "repair": ("repair", "-o", "run"),
}  # fmt: skip
COMMANDS = [(verb, project) for verb in VERBS for project in PROJECTS]
TIMES = {"manifest.sha256", "report.html", "run.toml"}  # they say when the run was made
COMMAND = [sys.executable, "-c", "from amends.cli import main; main()"]
TOLD = """
import json, sys
from amends.cli.app import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "torch": "torch" in sys.modules}))
"""


class Peace(NamedTuple):
    """What a command leaves when nothing happens to it, and how long it takes."""

    left: dict[str, bytes]
    seconds: float


def quietly(*args: Any) -> int:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        return amends(*args)


def result(run: Path) -> dict[str, bytes]:
    """All files of a run but those that say when it was made."""
    return {name: data for name, data in contents(run).items() if name not in TIMES} if run.exists() else {}


def begin(verb: str) -> None:
    """As it is before the command: nothing, or the search that it goes on from."""
    for path in (path for path in Path.cwd().iterdir() if path.name.lstrip(".").startswith("run")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if verb in ("curve", "treat"):
        shutil.copytree("search", "run")


@cache
def home(project: str) -> Path:
    """The folder of a project with a search in it."""
    folder = Path(project).absolute()
    folder.mkdir()
    PROJECTS[project](folder)
    with contextlib.chdir(folder):
        assert quietly("identify", "-o", "search", "-q") == 0
    return folder


@cache
def peace(verb: str, project: str) -> Peace:
    """Once to see what is left, and again, when everything is imported, with a clock."""
    begin(verb)
    assert quietly(*VERBS[verb], "-q") == 0
    left = result(Path("run"))
    begin(verb)
    start = time.monotonic()
    _, status = os.waitpid(forked(verb), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert result(Path("run")) == left
    return Peace(left, time.monotonic() - start)


def forked(verb: str) -> int:
    """The command in a process of its own, which keeps each of its fits, however short."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            fits.SHORT = 0.0
            code = quietly(*VERBS[verb], "-q")
        finally:
            os._exit(code)
    return child


def interrupted(out: Path, fitted: int, *options: str) -> None:
    """A repair that was stopped, as by Ctrl-C, after so many fits, each of which it kept."""
    made, real = [], fitting.treated

    def treated(*given: Any) -> Any:
        made.append(given)
        if len(made) > fitted:
            raise KeyboardInterrupt
        return real(*given)

    with patch.object(fitting, "treated", treated), patch.object(fits, "SHORT", 0.0):
        assert quietly("repair", "-o", out, "-q", *options) == 130
    assert len(fits.fit_files(out)) == fitted


def over(part: Part, tried: Callable[[int, str, str], Outcome]) -> Iterator[Outcome]:
    """A case for each command of each project, in turn."""
    for number, (verb, project) in part.mine(islice(cycle(COMMANDS), part.count)):
        with contextlib.chdir(home(project)):
            yield tried(number, verb, project)


def kills(part: Part) -> Iterator[Outcome]:
    """SIGKILL at a random instant of each command, then the same command again."""
    return over(part, _killed)


def _killed(number: int, verb: str, project: str) -> Outcome:
    wanted, rng = peace(verb, project), random.Random(number)
    while True:  # until it is alive at the instant that is drawn
        begin(verb)
        before = result(Path("run"))
        child = forked(verb)
        time.sleep(rng.uniform(0, wanted.seconds))
        os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL:
            break
    way = f"{verb}, {_reached(before)}"
    if not _alone(child):
        return Outcome(number, way, "a process of it lives on after ten seconds")
    return Outcome(number, way, _again(verb, wanted))


def _reached(before: dict[str, bytes]) -> str:
    run = Path("run")
    making = [*Path().glob(".run.making-*"), *run.glob(".adding.making-*"), *run.glob(".ready")]
    if making:
        return "while files were written"
    return "before anything was written" if result(run) == before else "after a stage was stored"


def _alone(session: int) -> bool:
    """Whether nothing is left of a process and all that it has started."""
    for _ in range(100):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def _again(verb: str, wanted: Peace) -> str:
    """The same command once more: what is wrong with its end. It may say that the run is finished: all had been
    written, and at most the last files were still to be put in their place."""
    run = Path("run")
    code = quietly(*VERBS[verb], "-q")
    if result(run) != wanted.left:
        return f"{verb} run again ends with exit code {code} and other bytes than one left in peace"
    if code not in (0, 2):
        return f"{verb} run again ends with exit code {code}"
    if quietly("verify", "run") != 0:
        return f"after {verb} run again verify finds damage"
    left = [p.name for folder in (run, Path()) for p in folder.iterdir() if p.name.startswith(".")]
    return f"left behind: {left}" if left else ""


def signals(part: Part) -> Iterator[Outcome]:
    """SIGINT and SIGTERM in turn, at a random instant after the command has said its first word."""
    return over(part, _told)


def _told(number: int, verb: str, project: str) -> Outcome:
    wanted, rng = peace(verb, project), random.Random(number)
    what, code = ((signal.SIGINT, 130), (signal.SIGTERM, 143))[number // len(COMMANDS) % 2]
    while True:
        begin(verb)
        process = subprocess.Popen([*COMMAND, *VERBS[verb]], stderr=-1, stdout=-3, text=True, preexec_fn=heeding)
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(rng.uniform(0, wanted.seconds / 2))
        start = time.monotonic()
        for _ in range(1 + number % 2):  # every second time twice, as `timeout` does
            process.send_signal(what)
        _, said = process.communicate()
        if process.returncode not in (0, -what) or result(Path("run")) != wanted.left:  # otherwise it had ended
            break
    way, took = f"{verb}, exit code {process.returncode}", time.monotonic() - start
    if process.returncode != code or took > 5 or said.count("stopped: ") != 1 or "Traceback" in said:
        return Outcome(number, way, f"{what.name} to {verb}: {process.returncode} after {took:.1f} s, {said[-200:]!r}")
    return Outcome(number, way, _again(verb, wanted))


def pairs(part: Part) -> Iterator[Outcome]:
    """Two processes that treat one folder at the same time: one does, the other is told so before it imports torch."""
    for number, _ in part.mine(range(part.count)):
        with contextlib.chdir(home("texts")):
            wanted = peace("treat", "texts")
            begin("treat")
            both = [_treating() for _ in range(2)]
            ends: list[dict[str, Any]] = [json.loads(process.communicate()[0].splitlines()[-1]) for process in both]
            told = sorted((end["code"], end["torch"]) for end in ends)
            wrong = "" if told == [(0, True), (4, False)] else f"exit codes, and whether torch was imported: {told}"
            if not wrong and (result(Path("run")) != wanted.left or quietly("verify", "run") != 0):
                wrong = "the result is not that of one process"
            yield Outcome(number, f"exit codes {told[0][0]} and {told[1][0]}", wrong)


def _treating() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", TOLD, *VERBS["treat"], "-q"], stdout=-1, stderr=-3, text=True)
