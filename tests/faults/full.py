"""The full forms of the faults, with a count for each: `make faults`, or one of them by its name.

python -m tests.faults.full damage --count 500
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from amends.cli.app import run as amends
from amends.runs import manifest
from tests.faults import disk, fuzzing, limits, setups
from tests.faults.broken import BROKEN
from tests.faults.killing import contents
from tests.faults.sound import SOUND
from tests.projects import digits_project, heeding, texts_project

COMMAND = [sys.executable, "-c", "from amends.cli import main; main()"]
SAME = ("metrics.json", "repaired/model.safetensors", "curve.csv", "dataset/kept.csv", "identified/scores.npz")


def quietly(*args: str) -> int:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        return amends(list(args))


def digests(run: Path) -> list[str]:
    return [hashlib.sha256((run / name).read_bytes()).hexdigest() for name in SAME]


def kills(count: int) -> str:
    """SIGKILL at a random instant of a repair, then the same command again: the bytes of a repair left in peace."""
    assert quietly("repair", "-o", "whole", "-q") == 0
    wanted, right = digests(Path("whole")), 0
    for i in range(count):
        out = f"killed-{i}"
        process = subprocess.Popen([*COMMAND, "repair", "-o", out, "-q"], stderr=-3, stdout=-3)
        time.sleep(random.Random(i).uniform(0.5, 8.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        code = quietly("repair", "-o", out, "-q")
        right += code in (0, 2) and digests(Path(out)) == wanted and quietly("verify", out) == 0
        assert not [p.name for p in Path(out).iterdir() if p.name.startswith(".")]
        shutil.rmtree(out)
    return f"{right} of {count} killed repairs end with the bytes of one left in peace"


def damage(count: int) -> str:
    """So many flipped bits, and as many cut ends, of each file that people do not edit."""
    assert quietly("repair", "-o", "whole", "-q") == 0
    rng, found, made = random.Random(0), 0, 0
    for name in [*manifest.read(Path("whole")), manifest.NAME]:
        path = Path("whole") / name
        whole = path.read_bytes()
        for k in range(2 * count):
            data = bytearray(whole)
            if k < count:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            else:
                del data[rng.randrange(len(data)) :]
            path.write_bytes(data)
            made += 1
            found += quietly("verify", "whole") == 3
        path.write_bytes(whole)
    return f"{found} of {made} damaged files are found, exit code 3"


def pairs(count: int) -> str:
    """Two processes that treat one folder at the same time."""
    assert quietly("identify", "-o", "search", "-q") == 0
    right = 0
    for i in range(count):
        run = shutil.copytree("search", f"pair-{i}")
        both = [subprocess.Popen([*COMMAND, "treat", run, "-q"], stderr=-3, stdout=-3) for _ in range(2)]
        codes = sorted(process.wait() for process in both)
        right += codes in ([0, 4], [0, 2]) and quietly("verify", run) == 0  # 2: the other had finished before it began
        shutil.rmtree(run)
    return f"{right} of {count} pairs: one result, the other told so"


def signals(count: int) -> str:
    """SIGINT and SIGTERM at a random instant: the right code within five seconds, and the run goes on."""
    right = 0
    for i in range(count):
        number, code = ((signal.SIGINT, 130), (signal.SIGTERM, 143))[i % 2]
        process = subprocess.Popen(
            [*COMMAND, "repair", "-o", f"told-{i}"], stderr=subprocess.PIPE, stdout=-3, text=True, preexec_fn=heeding
        )
        for line in process.stderr or ():
            if "control: " in line:
                break
        process.send_signal(number)
        start = time.monotonic()
        _, told = process.communicate()
        stopped = time.monotonic() - start
        before = contents(Path(f"told-{i}"))
        right += process.returncode == code and stopped < 5 and bool(before) and "stopped: " in told
        assert quietly("repair", "-o", f"told-{i}", "-q") == 0
    return f"{right} of {count} stopped within five seconds with the right code, and went on"


def configs(count: int) -> str:
    """Mutated configs and command lines."""
    return _fuzzed(fuzzing.configs, count, count)


def files(count: int) -> str:
    """Mutated weights (two kinds), npz, csv and parquet files, a fifth of them each."""
    return _fuzzed(fuzzing.files, count, count // 5)


def _fuzzed(work: Callable[[int], fuzzing.Tally], count: int, each: int) -> str:
    digits_project(Path.cwd())
    tally = work(each)
    for line in tally.wrong[:20]:
        print(f"  {line[:300]}", flush=True)
    return f"{tally.tried - len(tally.wrong)} of {tally.tried} end as they should, in {len(tally.ways)} distinct ways"


def broken(_: int) -> str:
    """Setups that are broken, and setups that are sound."""
    named = [name for name in BROKEN if setups.of_broken(name).names(BROKEN[name].said)]
    alarms = [name for name in SOUND if setups.of_sound(name).stopped]
    for name in (*(BROKEN.keys() - set(named)), *alarms):
        print(f"  {name}", flush=True)
    return (
        f"{len(named)} of {len(BROKEN)} broken setups are named; {len(alarms)} of {len(SOUND)} sound ones are stopped"
    )


def disks(count: int) -> str:
    """Each error at each call of each command, files that become too large, few open files; at most so many."""
    here, codes, wrong = Path.cwd(), Counter(), 0
    with contextlib.redirect_stdout(io.StringIO()):
        disk.begin(here)
    tried = (
        trial
        for command in disk.COMMANDS
        for work in (
            disk.trials(here, command, disk.every),
            disk.full_disks(here, command),
            disk.few_files(here, command),
        )
        for trial in work
    )
    for trial in islice(tried, count):
        codes[trial.code] += 1
        wrong += bool(trial.wrong)
        if trial.wrong:
            print(f"  {trial}"[:300], flush=True)
    ends = ", ".join(f"{number} with exit code {code}" for code, number in sorted(codes.items()))
    return f"{codes.total() - wrong} of {codes.total()} commands on a failing disk end as they should: {ends}"


def memory(count: int) -> str:
    """A repair at five levels of memory, `count` times."""
    right, codes = 0, Counter()
    with contextlib.redirect_stdout(io.StringIO()):
        assert limits.in_child(lambda: amends(["repair", "-o", "whole", "-q"])).code == 0
    wanted = digests(Path("whole"))
    for level in limits.LEVELS * count:
        shutil.rmtree("capped", ignore_errors=True)
        ended = limits.with_memory(level, lambda: amends(["repair", "-o", "capped", "-q"]))
        codes[ended.code] += 1
        right += ended.clean and (ended.code == 7 or (ended.code == 0 and digests(Path("capped")) == wanted))
    same, said = codes[0], codes[7]
    return f"{right} of {codes.total()} with little memory: {same} end with the same bytes, {said} with exit code 7"


def soak(count: int) -> str:
    """Searches in one process."""
    with contextlib.redirect_stdout(io.StringIO()):
        early, late = limits.soak(count)
    grown = (late.memory - early.memory) / 2**20
    return (
        f"{count} searches in one process: from the {count // 5}th to the last {grown:+.1f} MB of memory, "
        f"{late.files - early.files:+d} open files, {late.threads - early.threads:+d} threads"
    )


FULL = {
    "kills": (kills, 200), "damage": (damage, 500), "pairs": (pairs, 50), "signals": (signals, 20),
    "configs": (configs, 10_000), "files": (files, 10_000), "setups": (broken, 1), "disks": (disks, 10_000),
    "memory": (memory, 1), "soak": (soak, 1_000),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Faults, in full.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(FULL)}; all when left out")
    parser.add_argument("--count", type=int)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    for name in asked.names or FULL:
        work, usual = FULL[name]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            texts_project(Path(folder))
            print(f"{name}: {work(asked.count or usual)}", flush=True)


if __name__ == "__main__":
    main()
