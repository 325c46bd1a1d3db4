"""The full forms of the faults, with a count for each: `make faults`, or some of them by name.

python -m tests.faults.full damage --count 500 --jobs 2 --seconds 600
python -m tests.faults.full files --case 1234
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from amends.runs import manifest
from tests.faults import disk, fuzzing, limits, setups, stopped
from tests.faults.broken import BROKEN
from tests.faults.parts import Kind, Outcome, Part, shared
from tests.faults.sound import SOUND
from tests.faults.stopped import quietly, result
from tests.projects import amends, texts_project

READERS = {
    "whole": (
        ["verify"], ["runs", "show"], ["treat"], ["curve"], ["report"], ["export", "--to", "cleanlab"],
        ["repair", "-q", "-o"],
    ),
    "stopped": (["verify"], ["repair", "-q", "-o"]),
}  # fmt: skip


def damage(part: Part) -> Iterator[Outcome]:
    """So many flipped bits, and as many cut ends, of each file of a run that people do not edit, and of each that a
    stopped run keeps to go on from: the next command, one after the other, says so."""
    texts_project(Path.cwd())
    assert quietly("repair", "-o", "whole", "-q") == 0
    stopped.interrupted(Path("stopped"), 2)
    files = [(run, name) for run in READERS for name in (*sorted(manifest.read(Path(run))), manifest.NAME)]
    cases = ((*file, how, k) for file in files for how in ("bits", "ends") for k in range(part.count))
    for number, (run, name, how, k) in part.mine(cases):
        path = Path(run) / name
        whole = path.read_bytes()
        places = _places(name, how, len(whole) * (8 if how == "bits" else 1), part.count)
        if k >= len(places):
            continue
        path.write_bytes(_flipped(whole, places[k]) if how == "bits" else whole[: places[k]])
        verb = READERS[run][k % len(READERS[run])]
        if verb[0] == "report" and name in ("report.html", manifest.NAME):  # which it writes anew
            verb = ["verify"]
        code = quietly(*verb, run)
        wrong = "" if code == 3 else f"{verb[0]} ends with exit code {code}: {run}/{name}, {how}, {places[k]}"
        path.write_bytes(whole)
        yield Outcome(number, f"{how}, exit code {code}", wrong, f"{run}/{name} {how} {places[k]}")


@cache
def _places(name: str, how: str, size: int, count: int) -> list[int]:
    """Where a file is damaged, each place once."""
    return random.Random(f"{name} {how}").sample(range(size), min(size, count))


def _flipped(data: bytes, bit: int) -> bytes:
    made = bytearray(data)
    made[bit // 8] ^= 1 << bit % 8
    return bytes(made)


def broken(part: Part) -> Iterator[Outcome]:
    """Setups that are broken, and setups that are sound."""
    for number, name in part.mine([*BROKEN, *SOUND]):
        if name in BROKEN:
            told = setups.of_broken(name)
            wrong = "" if told.names(BROKEN[name].said) else f"{name} is not named: {told.lines}"
        else:
            told = setups.of_sound(name)
            wrong = f"{name} is stopped: {told.lines[-1]}" if told.stopped else ""
        yield Outcome(number, "broken" if name in BROKEN else "sound", wrong)


def disks(part: Part) -> Iterator[Outcome]:
    """Each error at each call of each command, files that become too large, few open files; at most so many."""
    here = texts_project(Path.cwd()).parent
    disk.begin(here)
    for number, case in part.mine(islice(disk.cases(here), part.count)):
        trial = case()
        wrong = f"{trial.command}, {trial.fault}: {trial.wrong}" if trial.wrong else ""
        yield Outcome(number, f"{trial.command}, exit code {trial.code}", wrong, f"{trial.command}: {trial.fault}")


def memory(part: Part) -> Iterator[Outcome]:
    """A repair at five levels of memory, `count` times."""
    texts_project(Path.cwd())
    assert limits.in_child(lambda: amends("repair", "-o", "whole", "-q")).code == 0
    wanted = result(Path("whole"))
    for number, level in part.mine(limits.LEVELS * part.count):
        shutil.rmtree("capped", ignore_errors=True)
        ended = limits.with_memory(level, lambda: amends("repair", "-o", "capped", "-q"))
        same = ended.code == 0 and result(Path("capped")) == wanted
        wrong = "" if ended.clean and (same or ended.code == 7) else f"{level} MB: exit code {ended.code}, {ended.said}"
        yield Outcome(number, "the same bytes" if same else f"exit code {ended.code}", wrong)


def soak(part: Part) -> Iterator[Outcome]:
    """So many searches in one process."""
    texts_project(Path.cwd())
    if part.number:
        return
    ends = limits.soak(part.count)
    first, early = next(ends)
    for number, (times, late) in enumerate(ends):
        grown, files, threads = (b - a for a, b in zip(early, late, strict=True))
        way = f"from search {first} to {times:,} {grown / 2**20:+.1f} MB, {files:+d} files, {threads:+d} threads"
        yield Outcome(number, way, "" if grown < limits.GROWTH and files <= 0 and threads <= 0 else "it grows")


FULL = {
    "kills": Kind(stopped.kills, 200, "killed commands, run again, end with the bytes of one left in peace"),
    "signals": Kind(stopped.signals, 20, "commands stop within five seconds with the right code, and go on"),
    "pairs": Kind(stopped.pairs, 50, "pairs: one result, and the other is told so before it imports torch"),
    "disks": Kind(disks, 10_000, "commands on a failing disk end as they should"),
    "damage": Kind(damage, 500, "damaged files are found by the next command, exit code 3"),
    "memory": Kind(memory, 1, "repairs with little memory end with the same bytes, or say so"),
    "configs": Kind(fuzzing.configs, 11_000, "mutated configs and command lines end as they should"),
    "files": Kind(fuzzing.files, 10_200, "mutated weights, npz, csv and parquet files end as they should"),
    "setups": Kind(broken, 1, "setups: the broken ones are named, the sound ones not stopped"),
    "soak": Kind(soak, 1_000, "times one process holds no more than after a fifth of its searches", 600),
}  # fmt: skip


def _end(*_: object) -> None:
    """With the processes that share the cases; `timeout` asks twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main() -> None:
    parser = argparse.ArgumentParser(description="Faults, in full.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(FULL)}; all when left out")
    parser.add_argument("--count", type=int, help="cases, of each file or level where a fault has several")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that share them")
    parser.add_argument("--seconds", type=float, default=3600.0, help="that a fault may take at most")
    parser.add_argument("--case", type=int, help="this one alone, as a wrong one is numbered")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    wrong = 0
    for name in asked.names or FULL:
        count = asked.count or FULL[name].count
        parts = [Part(k, asked.jobs, count) for k in range(asked.jobs)]
        if asked.case is not None:
            parts = [Part(asked.case, 10**9, count)]
        wrong += len(shared(name, FULL[name], parts, asked.seconds).wrong)
    raise SystemExit(int(wrong > 0))


if __name__ == "__main__":
    main()
