"""Configs, command lines and files with random damage, and what `amends check` says of each."""

from __future__ import annotations

import contextlib
import csv
import io
import random
import re
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

from amends.cli.app import run

WORDS = ("", "0", "-1", "1e400", "nan", "true", "[]", "{}", '"', "'", "=", "\\", "\x00", "é", "../..", "/dev/null",
         "[x",          "a" * 300, "9" * 30, '"""', "#", "train", "evaluation.npz")  # fmt: skip
FLAGS = ("--top", "--seed", "--method", "--treat", "--group", "--batch-size", "--device", "--budget", "--floor", "-o",
         "--require", "--json", "--holdout", "--nonsense", "check", "repair", "-q")  # fmt: skip


@dataclass
class Tally:
    """How many were tried, and in how many distinct ways they ended; what should never happen is `wrong`. Weights
    that are sound in form and absurd in size are exit code 6."""

    tried: int = 0
    ways: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def told(self, args: list[str], valid: Callable[[], bool]) -> None:
        out, err, start = io.StringIO(), io.StringIO(), time.monotonic()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(args)
        took, lines = time.monotonic() - start, err.getvalue().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        self.tried += 1
        self.ways.add(re.sub(r"\d+|'[^']*'|\"[^\"]*\"|/\S+", "#", f"{code} {errors[-1] if errors else ''}")[:120])
        if took > 10 or "Traceback" in err.getvalue() or code not in (0, 2, 3, 6):
            self.wrong.append(f"exit {code} after {took:.1f} s: {args} {lines[-1:]}")
        elif code and len(errors) != 1:
            self.wrong.append(f"exit {code} with {len(errors)} lines of errors: {args}")
        elif not code and not valid():
            self.wrong.append(f"exit 0 for what another reader refuses: {args}")


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


def configs(count: int, seed: int = 0) -> Tally:
    """Of the amends.toml in this folder; every third time with a mutated command line as well."""
    rng, tally, whole = random.Random(seed), Tally(), Path("amends.toml").read_bytes()
    for i in range(count):
        Path("fuzzed.toml").write_bytes(damaged(whole, rng) if i % 3 else whole)
        more = (
            [rng.choice((*FLAGS, *WORDS)).replace("\x00", "") for _ in range(rng.randrange(1, 4))] if i % 3 == 0 else []
        )
        tally.told(["check", "fuzzed.toml", "-q", *more], lambda: _reads(Path("fuzzed.toml"), _toml))
    return tally


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


def files(count: int, seed: int = 0) -> Tally:
    """So many of each kind."""
    rng, tally = random.Random(seed), Tally()
    for name, text in kinds():
        whole, path = Path(name).read_bytes(), Path(f"fuzzed{Path(name).suffix}")
        Path("fuzzed.toml").write_text(text)
        for _ in range(count):
            path.write_bytes(damaged(whole, rng))
            tally.told(
                ["check", "fuzzed.toml", "-q", "--anyway"], lambda path=path, name=name: _reads(path, READERS[name])
            )
    return tally
