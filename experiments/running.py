"""What every experiment shares: what is asked of it, and its rows in one CSV file a seed, from which a second run goes
on."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from amends.errors import AmendsError, BadInput, DiskError, nearest
from experiments import ITEMS
from experiments.protocol import Case, Damaged, Start, case_of
from experiments.sets import SETS, DataSet

Found = Iterable[tuple[float, str, float]]  # k, a measure and its value
COLUMNS = ("seed", "method", "k", "measure", "value")
LATE = "given up"  # the measure of a row that was; its value is the seconds that were not enough, 0 if it goes on


class GivenUp(Exception):
    """A row that takes more than so many seconds, or that no number of seconds would make."""

    def __init__(self, why: str, seconds: float = math.inf) -> None:
        super().__init__(why)
        self.seconds = seconds


class Row(NamedTuple):
    """A number: of a method, with k examples removed or looked at (0 where that says nothing)."""

    seed: int
    method: str
    k: float
    measure: str
    value: float


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    item: str
    on: str = "mnist"
    data: str | None = None
    out: Path = Path("reproduced")
    seeds: tuple[int, ...] = (0,)
    methods: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()  # numbers of causes to remove; those of the data set where empty
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    patience: int = 120  # seconds a method may take with a large network before it is given up

    @property
    def folder(self) -> Path:
        return self.out / self.item / self.on

    def start(self, seed: int) -> Start:
        return Start(self.on, self.data, seed, self.device, self.patience)

    def case(self, seed: int, damage: Callable[[Start], Damaged]) -> Case:
        return case_of(self.start(seed), damage)

    @property
    def about(self) -> DataSet:
        return SETS[self.on]

    @property
    def removed(self) -> tuple[int, ...]:
        return self.sizes or self.about.sizes


class Rows:
    """The rows of a seed, stored whole whenever a method is done. Methods that are there are not made again, unless
    they were given up after fewer seconds than there are now."""

    def __init__(self, folder: Path, seed: int, patience: float) -> None:
        self.path, self.seed, self.patience = folder / f"seed_{seed}.csv", seed, patience
        self.rows = read(self.path) if self.path.exists() else []

    def missing(self, names: Iterable[str]) -> list[str]:
        late = {row.method for row in self.rows if row.measure == LATE and row.value < self.patience}
        done = {row.method for row in self.rows} - late
        return [name for name in names if name not in done]

    def fill(self, names: Iterable[str], make: Callable[[str], Found]) -> None:
        """Makes the rows that are missing. One that is given up says so; its reason goes to stderr."""
        for name in self.missing(names):
            try:
                found = make(name)
            except GivenUp as why:
                print(f"seed {self.seed}: {name} is given up: {why}", file=sys.stderr, flush=True)
                found = [(0, LATE, why.seconds)]
            self.add(name, found)

    def add(self, method: str, found: Found) -> None:
        made = [Row(self.seed, method, k, measure, float(value)) for k, measure, value in found]
        self.rows = [row for row in self.rows if row.method != method] + made
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((r.seed, r.method, f"{r.k:g}", r.measure, f"{r.value:.6g}") for r in self.rows)
        written(self.path, text.getvalue().encode())
        print(f"seed {self.seed}: {method}", file=sys.stderr, flush=True)

    def pictures(self, **arrays: np.ndarray) -> None:
        """Images for the figures, beside the rows; those that are there stay."""
        path = self.path.with_suffix(".npz")
        before = dict(np.load(path)) if path.exists() else {}
        stream = io.BytesIO()
        np.savez_compressed(stream, **{**before, **arrays})  # pyright: ignore[reportArgumentType]
        written(path, stream.getvalue())


def read(path: Path) -> list[Row]:
    """The rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    try:
        return [Row(int(r["seed"]), r["method"], float(r["k"]), r["measure"], float(r["value"])) for r in lines]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"not a table of an experiment; {path}; remove it to make it again") from error


def written(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(path.suffix + ".part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise DiskError(f"cannot write: {error.strerror}; {path}; choose another folder") from error


def reproduce(plan: Plan) -> list[Path]:
    """Make the rows of every seed that are not there yet, then draw the figures. Returns the files of the figures."""
    if plan.item not in ITEMS:
        raise BadInput(f"no experiment {plan.item!r}; reproduce; {nearest(plan.item, ITEMS)}")
    for seed in plan.seeds:
        one_seed(plan, seed, Rows(plan.folder, seed, plan.patience))
    return drawn(plan)


def script(item: str) -> ModuleType:
    return import_module(f"experiments.{item.replace('-', '_')}")


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    """The same numbers every time on the same hardware, but for those of large networks on a GPU."""
    large = plan.about.large
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = large
    torch.backends.cudnn.deterministic = not large
    if plan.device != "cpu":
        torch.use_deterministic_algorithms(not large, warn_only=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script(plan.item).one_seed(plan, seed, rows)


def drawn(plan: Plan) -> list[Path]:
    """The figures, of all seeds that are there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("figures are drawn with matplotlib, which is not here: run it again where it is", file=sys.stderr)
        return []
    seeds = sorted(plan.folder.glob("seed_*.csv"), key=lambda p: int(p.stem.split("_")[1]))
    made = script(plan.item)
    order = {name: i for i, name in enumerate(made.names(replace(plan, methods=("all",))))}
    rows = [row for path in seeds for row in read(path)]
    return made.draw(plan, sorted(rows, key=lambda row: (order.get(row.method.split(": ")[0], -1), row.seed)))


def main(item: str, args: list[str] | None = None) -> None:
    """An experiment as a script."""
    ask = argparse.ArgumentParser(prog=f"python -m experiments.{item.replace('-', '_')}", description=ITEMS[item])
    ask.add_argument("--data", help="folder with mnist.npz, or cifar10_train_part1..5.npz and cifar10_test.npz")
    ask.add_argument("--on", choices=list(SETS), default="mnist")
    ask.add_argument("-o", "--out", type=Path, default=Path("reproduced"))
    ask.add_argument("--seeds", type=int, nargs="+", default=[0])
    ask.add_argument("--methods", nargs="*", default=[], help="names of rows; all for every one there is")
    ask.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of causes to remove")
    ask.add_argument("--patience", type=int, default=120, help="seconds a method may take with a large network")
    given: Any = vars(ask.parse_args(args))
    try:
        for path in reproduce(plan_of(item, **given)):
            print(path)
    except AmendsError as error:
        sys.exit(f"error: {error}")


def plan_of(item: str, **given: Any) -> Plan:
    """A plan from what a person said."""
    lists = {key: tuple(given[key]) for key in ("seeds", "methods", "sizes")}
    return Plan(item, **{**given, **lists})
