"""Repairs, their patches and curves, each in a process of its own that lives on when page and server close."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amends.errors import AmendsError, BadInput
from amends.runs.disk import on_disk
from amends.runs.manifest import REPAIRS
from amends.runs.run import Run
from amends.runs.run import remove as remove_run
from amends.web import causes
from amends.web.results import finished, folder_of, name_of, patch_file
from amends.web.table import FOLDER, Missing, Table, counts
from amends.web.trail import add_line

KINDS = ("repair", "curve", "patch")
RUNNING, ENDED, FAILED, STOPPING, CANCELLED = "running", "done", "failed", "stopping", "cancelled"
LEFT = re.compile(r"; about ([\d.]+) (second|minute|hour)s? left\Z")
UNITS = {"second": 1, "minute": 60, "hour": 3600}
SHOWN = 200  # lines of a job's log
READ = 200_000  # bytes of a job's log


CHILDREN: dict[Path, subprocess.Popen[bytes]] = {}  # jobs this process started, also those of a closed review


class Busy(BadInput):
    """A job is running already."""


class Jobs:
    """The jobs of one run. A job holds a lock that ends with its process, so a server started again knows it runs."""

    def __init__(self, table: Table, run: Path, trust: bool = False):
        self.table, self.run, self.trust = table, run, trust
        self.home = run / FOLDER / "jobs"
        self.home.mkdir(parents=True, exist_ok=True)

    def start(self, kind: str, person: str = "", learn: bool | None = None, of: int | None = None) -> dict[str, Any]:
        """Begins `amends treat`, `amends curve` or `amends patch` (`of` a repair). A repair is a folder of its own."""
        if kind not in KINDS:
            raise BadInput(f"there is no job {kind!r}; the request; give repair, curve or patch")
        with self.table.filing, self.table.lock:
            if self.running() is not None:
                raise Busy("something is being made already; the review; wait for it, or cancel it")
            number = 1 + (self.table.one("select max(number) from jobs") or 0)
            if kind == "patch":
                repair, args = of, self._patch(of)
            else:
                self._saved()
                repair = self._next() if kind == "repair" else None
                args = self._command(kind, repair, learn)
            pid = self._begin(number, args)
            with self.table.writing() as sql:
                sql.execute(
                    "insert into jobs (number, kind, state, started, pid, repair, person, marked) "
                    "values (?, ?, ?, ?, ?, ?, ?, (select count(*) from failures where marked))",
                    [number, kind, RUNNING, time.time(), pid, repair, person],
                )
            if kind == "repair":
                n = counts(self.table)["removed"]
                add_line(self.table, "repair", f"repair {repair} begun: {n} removed or relabelled", person, n)
        return self.get(number)

    def cancel(self, number: int) -> dict[str, Any]:
        job = self.get(number)
        if job["state"] == RUNNING:
            with self.table.writing() as sql:
                sql.execute("update jobs set state = ? where number = ?", [STOPPING, number])
            pid = self.table.one("select pid from jobs where number = ?", [number])
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)
        return self.get(number)

    def running(self) -> int | None:
        """The number of the job that runs now, if any; jobs whose process has ended are settled."""
        running = None
        for row in self.table.all("select number from jobs where state in (?, ?)", [RUNNING, STOPPING]):
            if self._alive(row["number"]):
                running = row["number"]
            else:
                self._settle(row["number"])
        return running

    def get(self, number: int, lines: bool = False) -> dict[str, Any]:
        rows = self.table.all("select * from jobs where number = ?", [number])
        if not rows:
            raise Missing
        if rows[0]["state"] in (RUNNING, STOPPING) and not self._alive(number):
            self._settle(number)
            rows = self.table.all("select * from jobs where number = ?", [number])
        log = self._log(number)
        job = self._described(rows[0], log)
        return job | {"lines": log[-SHOWN:]} if lines else job

    def all(self) -> list[dict[str, Any]]:
        rows = self.table.all("select number from jobs order by number desc limit 50")
        return [self.get(row["number"]) for row in rows]

    def _saved(self) -> None:
        """Writes the decisions to causes.csv, where the process will read them."""
        if causes.changed(self.table):
            causes.take_in(self.table)
        if not causes.write(self.table):
            error = (self.table.setting("told") or {}).get("error") or "causes.csv was changed just now"
            raise BadInput(f"causes.csv cannot be used ({error}); {self.run}; correct it, then try again")

    def _command(self, kind: str, repair: int | None, learn: bool | None) -> list[str]:
        opened = Run.open(self.run)
        _ = opened.trusting(self.trust).config  # raises if there is none, or if it is not trusted
        trust = ["--trust"] if self.trust else []
        if kind == "curve":
            if opened.curve:
                raise BadInput("the curve is there already; the request; load it")
            return ["curve", str(self.run), *trust]
        if not counts(self.table)["removed"]:
            raise BadInput("nothing is to be removed or relabelled; the review; decide something, or set a cut")
        out = self.run / REPAIRS / str(repair)
        marked = self.table.all("select at from failures where marked order by at")
        left_out = [] if not marked else ["--leave-out", ",".join(str(row[0]) for row in marked)]
        how = [] if learn is None else ["--learn" if learn else "--no-learn"]
        return ["treat", str(self.run), "--approved", "-o", str(out), *left_out, *how, *trust]

    def _patch(self, of: int | None) -> list[str]:
        """The arguments that patch a finished repair, or for 0 the run itself, into a file next to its folder."""
        run = finished(self.table, -1 if of is None else of)
        _ = run.trusting(self.trust).config
        if run.patch:
            raise BadInput("the patch is there already; the request; load it")
        path = patch_file(self.table, of or 0)
        with on_disk(path):
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)  # left by a patch that was cancelled too early to be in the run
        return ["patch", str(run.folder), "-o", str(path), *(["--trust"] if self.trust else [])]

    def _begin(self, number: int, args: Sequence[str]) -> int:
        import fcntl

        lock = os.open(self.home / f"{number}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (self.home / f"{number}.log").open("wb") as log:
                child = subprocess.Popen(
                    [sys.executable, "-m", "amends", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=log, start_new_session=True, pass_fds=(lock,),
                )  # fmt: skip
        finally:
            os.close(lock)
        CHILDREN[self.home / str(number)] = child
        return child.pid

    def _alive(self, number: int) -> bool:
        import fcntl

        child = CHILDREN.get(self.home / str(number))
        if child is not None and child.poll() is not None:
            del CHILDREN[self.home / str(number)]
            return False
        try:
            lock = os.open(self.home / f"{number}.lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def _settle(self, number: int) -> None:
        """Stores the end of a job whose process has ended. A repair that did not succeed leaves no folder."""
        job = self.table.all("select * from jobs where number = ?", [number])[0]
        state = ENDED if self._finished(job) else CANCELLED if job["state"] == STOPPING else FAILED
        if state != ENDED and job["kind"] == "repair":
            _clear(self.run / REPAIRS / str(job["repair"]))
        with self.table.writing() as sql:
            if not sql.execute(
                "update jobs set state = ?, ended = ? where number = ? and state in (?, ?)",
                [state, time.time(), number, RUNNING, STOPPING],
            ).rowcount:
                return
            if job["kind"] != "curve":
                what = f"{'the patch of ' if job['kind'] == 'patch' else ''}{name_of(job['repair'])}"
                add_line(self.table, "repair", f"{what} {'ended' if state == ENDED else state}", job["person"])

    def _finished(self, job: Any) -> bool:
        try:
            if job["kind"] == "curve":
                return bool(Run.open(self.run).curve)
            if job["kind"] == "patch":
                return bool(Run.open(folder_of(self.table, job["repair"])).patch)
            return Run.open(self.run / REPAIRS / str(job["repair"])).done
        except AmendsError:
            return False

    def _next(self) -> int:
        """A number that no repair has had."""
        numbers = [int(p.name) for p in (self.run / REPAIRS).glob("*") if p.name.isdigit()]
        return 1 + max([self.table.one("select max(repair) from jobs") or 0, *numbers])

    def _log(self, number: int) -> list[str]:
        path = self.home / f"{number}.log"
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - READ))
                return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            return []

    def _described(self, row: Any, log: list[str]) -> dict[str, Any]:
        running = row["state"] in (RUNNING, STOPPING)
        step = next((line for line in reversed(log) if not line.startswith(("note:", "warning:", "error:"))), "")
        end = time.time() if running else (row["ended"] or row["started"])
        return {
            "number": row["number"], "kind": row["kind"], "state": RUNNING if running else row["state"],
            "started": _moment(row["started"]), "ended": None if running else _moment(end),
            "seconds": round(end - row["started"], 1), "left": self._left(row, step) if running else None,
            "step": LEFT.sub("", step) if running else "", "repair": row["repair"],
            "error": _error(log) if row["state"] == FAILED else None,
        }  # fmt: skip

    def _left(self, row: Any, step: str) -> float | None:
        """Seconds left: as the process says, else as if it took as long as the last job of its kind."""
        match = LEFT.search(step)
        if match:
            log = self.home / f"{row['number']}.log"
            return max(0.0, round(float(match[1]) * UNITS[match[2]] - (time.time() - log.stat().st_mtime), 1))
        took = self.table.one(
            "select ended - started from jobs where kind = ? and state = ? order by number desc limit 1",
            [row["kind"], ENDED],
        )
        return None if took is None else max(0.0, round(took - (time.time() - row["started"]), 1))


def _error(log: list[str]) -> dict[str, str]:
    """The last error line of a log, in its three parts."""
    line = next((line for line in reversed(log) if line.startswith("error: ")), "")
    parts = line.removeprefix("error: ").split("; ") if line else []
    if not parts:
        return {"what": "the process ended without saying why", "where": log[-1] if log else "",
                "todo": "try again, or run amends treat in a terminal"}  # fmt: skip
    return {"what": parts[0], "where": "; ".join(parts[1:-1]), "todo": parts[-1] if len(parts) > 1 else ""}


def _clear(folder: Path) -> None:
    """Removes the folder of a repair that did not end."""
    with suppress(AmendsError, OSError):
        remove_run(folder)
    if folder.is_dir() and not (folder / "run.toml").exists():
        shutil.rmtree(folder, ignore_errors=True)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
