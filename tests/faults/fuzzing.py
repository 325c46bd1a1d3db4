"""Configs, command lines and files with random damage, and what `amends check` says of each."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import random
import re
import resource
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
import torch
from safetensors.torch import load_file

from amends.cli.app import run
from amends.config.keys import TABLES
from tests.faults.limits import held
from tests.faults.parts import Outcome, Part
from tests.projects import digits_project, texts_project

WORDS = ("", "0", "-1", "1e400", "nan", "true", "[]", "{}", '"', "'", "=", "\\", "\x00", "é", "../..", "/dev/null",
         "[x", "a" * 300, "9" * 30, '"""', "#", "train", "evaluation.npz")  # fmt: skip
FLAGS = ("--top", "--seed", "--method", "--treat", "--group", "--batch-size", "--device", "--budget", "--floor", "-o",
         "--require", "--json", "--holdout", "--nonsense", "check", "repair", "-q", "--to", "csv", "model.safetensors",
         "--port", "--shard", "1/2", "--trust", "--approved")  # fmt: skip
VERBS = ("check", "identify", "repair", "treat", "curve", "report", "export", "patch", "apply", "revert", "judge",
         "verify", "merge", "runs", "nothing")  # fmt: skip
VALUES: tuple[Any, ...] = (
    0, -1, 1, 7, 10**30, 0.5, -0.5, 1e308, float("inf"), float("nan"), True, False, "", "x", "é\n", "a" * 300, "../..",
    "/dev/null", "evaluation.npz", "amends.toml", "cuda:9", "json:loads", "my_model:build", "npz", "loss", "ewc",
    "holdout>=2", [], [0], [-1, 10**9], ["a", "a"], [[1]], [0.5, "x"], {}, {"a": 1}, {"epochs": -1}, {"width": 3},
)  # fmt: skip
ENDS = (0, 1, 2, 3, 6)  # done; not what --require asks for; bad input, a damaged run, numbers that are none
LONGEST, LARGEST = 10, 1.5 * 2**30  # seconds of a command; bytes it may take beyond what its process holds already


def told(number: int, args: list[str], made: bytes, valid: Callable[[], bool]) -> Outcome:
    """How the command ends; `made` is what was damaged. Weights that are sound in form and absurd in size are exit
    code 6."""
    out, err, start = io.StringIO(), io.StringIO(), time.monotonic()
    peak, before = _peak(), held().memory
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(args)
    took, lines = time.monotonic() - start, err.getvalue().splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    way = re.sub(r"\d+|'[^']*'|\"[^\"]*\"|/\S+", "#", f"{code} {errors[-1] if errors else ''}")[:120]
    wrong = ""
    if took > LONGEST or "Traceback" in err.getvalue() or code not in ENDS:
        wrong = f"exit {code} after {took:.1f} s: {args} {lines[-1:]}"
    elif code and len(errors) != 1:
        wrong = f"exit {code} with {len(errors)} lines of errors: {args}"
    elif not code and not valid():
        wrong = f"exit 0 for what another reader refuses: {args}"
    elif _peak() > max(peak, before + LARGEST):  # tests before it may have had a higher one
        wrong = f"more than {LARGEST / 2**30:.1f} GB of memory: {args}"
    return Outcome(number, way, wrong, hashlib.sha256(made + "\0".join(args).encode()).hexdigest())


def _peak() -> int:
    """Bytes this process has held at most, ever."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A bit, a byte, a cut, a piece twice, a piece away, or words of a config put in."""
    made, at = bytearray(data), rng.randrange(len(data))
    match rng.randrange(6):
        case 0:
            made[at] ^= 1 << rng.randrange(8)
        case 1:
            made[at] = rng.randrange(256)
        case 2:
            del made[at:]
        case 3:
            made[at:at] = made[at : at + rng.randrange(1, 64)]
        case 4:
            del made[at : at + rng.randrange(1, 64)]
        case _:
            made[at:at] = rng.choice(WORDS).encode()
    return bytes(made)


def configs(part: Part) -> Iterator[Outcome]:
    """Of a project with arrays and of one with a table: keys with odd values, bytes of a config, command lines."""
    wholes = {made: made(_folder(made.__name__)).read_bytes() for made in (digits_project, texts_project)}
    for number, (made, whole) in part.mine(islice(cycle(wholes.items()), part.count)):
        with contextlib.chdir(made.__name__):
            yield _config(number, whole, random.Random(number))


def _folder(name: str) -> Path:
    Path(name).mkdir()
    return Path(name)


def _config(number: int, whole: bytes, rng: random.Random) -> Outcome:
    made, args = damaged(whole, rng), ["check", "fuzzed.toml", "-q"]
    match rng.randrange(4):
        case 0:
            made, args = whole, _command_line(rng)
        case 1 | 2:
            made = _with_odd_values(whole, rng)
    Path("fuzzed.toml").write_bytes(made)
    before = set(Path().iterdir())
    ended = told(number, args, made, lambda: _reads(Path("fuzzed.toml"), _toml))
    for path in set(Path().iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return ended


def _command_line(rng: random.Random) -> list[str]:
    words = [rng.choice((*FLAGS, *WORDS)).replace("\x00", "") for _ in range(rng.randrange(1, 6))]
    return [rng.choice(VERBS), *(["fuzzed.toml"] if rng.random() < 0.5 else []), "-q", *words]


def _with_odd_values(config: bytes, rng: random.Random) -> bytes:
    """One to three keys that amends knows, with values that few of them can hold."""
    tables = tomllib.loads(config.decode())
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(list(TABLES))
        table = tables.setdefault(name, {})
        if name == "keep" or rng.random() < 0.05:
            table = table.setdefault("more", {})
        table[rng.choice([*TABLES[name], "nonsense"])] = rng.choice(VALUES)
    return tomli_w.dumps(tables).encode()


def _toml(path: Path) -> None:
    tomllib.loads(path.read_text(encoding="utf-8"))


def _rows(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        list(csv.reader(file))


def _arrays(path: Path) -> None:
    with np.load(path, allow_pickle=False) as kept:
        [kept[name] for name in kept.files]


READERS: dict[str, Callable[[Path], object]] = {
    "model.safetensors": load_file, "model.pt": lambda p: torch.load(p, weights_only=True),
    "train.npz": _arrays, "train.csv": _rows, "train.parquet": pq.read_table,
}  # fmt: skip


def _reads(path: Path, reader: Callable[[Path], object]) -> bool:
    try:
        reader(path)
    except Exception:
        return False
    return True


def kinds() -> Iterator[tuple[str, str]]:
    """The files of this folder, in every kind that is read, and the config that names each."""
    text = Path("amends.toml").read_text()
    torch.save(load_file("model.safetensors"), "model.pt")
    with np.load("train.npz") as kept:
        x, y = kept["x"], kept["y"]
    table = {**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "label": y}
    pq.write_table(pa.table(table), "train.parquet")
    with Path("train.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))
    for name in READERS:
        old = "model.safetensors" if name.startswith("model") else "train.npz"
        yield name, text.replace(old, f"fuzzed{Path(name).suffix}")


def files(part: Part) -> Iterator[Outcome]:
    """Damaged ones of each kind in turn."""
    digits_project(Path.cwd())
    every = list(kinds())
    for number, (name, text) in part.mine(islice(cycle(every), part.count)):
        path = Path(f"fuzzed{Path(name).suffix}")
        Path("fuzzed.toml").write_text(text)
        made = damaged(Path(name).read_bytes(), random.Random(number))
        path.write_bytes(made)
        yield told(
            number, ["check", "fuzzed.toml", "-q", "--anyway"], made,
            lambda path=path, name=name: _reads(path, READERS[name]),
        )  # fmt: skip
