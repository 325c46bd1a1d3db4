"""What all experiments share: the plan of a run, and its rows in one CSV file per seed. A second run continues from
these files."""

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

Values = Iterable[tuple[float, str, float]]  # k, a measure and its value
COLUMNS = ("seed", "method", "k", "measure", "value")
LATE = "given up"  # a measure: the value is how many seconds were not enough, or 0 if the next run continues the row


class GivenUp(Exception):
    """A row is given up: it takes more than `seconds`, or (infinity) no amount of time would be enough."""

    def __init__(self, why: str, seconds: float = math.inf) -> None:
        super().__init__(why)
        self.seconds = seconds


class Row(NamedTuple):
    """One number of a method, with k examples removed or looked at (0 where k has no meaning)."""

    seed: int
    method: str
    k: float
    measure: str
    value: float


@dataclass(frozen=True)
class Plan:
    """The options of a run."""

    item: str
    on: str = "mnist"
    data: str | None = None
    out: Path = Path("reproduced")
    seeds: tuple[int, ...] = (0,)
    methods: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()  # numbers of causes to remove; if empty, those of the data set
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
    """The rows of one seed. The file is rewritten as a whole whenever a method is done. Methods that have rows are not
    run again, unless they were given up after fewer seconds than are allowed now."""

    def __init__(self, folder: Path, seed: int, patience: float) -> None:
        self.path, self.seed, self.patience = folder / f"seed_{seed}.csv", seed, patience
        self.rows = read(self.path) if self.path.exists() else []

    def missing(self, names: Iterable[str]) -> list[str]:
        late = {row.method for row in self.rows if row.measure == LATE and row.value < self.patience}
        done = {row.method for row in self.rows} - late
        return [name for name in names if name not in done]

    def fill(self, names: Iterable[str], make: Callable[[str], Values]) -> None:
        """Compute the missing rows. If a row is given up, that is stored in its place, and the reason goes to
        stderr."""
        for name in self.missing(names):
            try:
                values = make(name)
            except GivenUp as why:
                print(f"seed {self.seed}: {name} is given up: {why}", file=sys.stderr, flush=True)
                values = [(0, LATE, why.seconds)]
            self.add(name, values)

    def add(self, method: str, values: Values) -> None:
        new = [Row(self.seed, method, k, measure, float(value)) for k, measure, value in values]
        self.rows = [row for row in self.rows if row.method != method] + new
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((r.seed, r.method, f"{r.k:g}", r.measure, f"{r.value:.6g}") for r in self.rows)
        written(self.path, text.getvalue().encode())
        print(f"seed {self.seed}: {method}", file=sys.stderr, flush=True)

    def pictures(self, **arrays: np.ndarray) -> None:
        """Store images for the figures, beside the rows. Arrays already in the file are kept."""
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
    """Write the file whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(path.suffix + ".part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise DiskError(f"cannot write: {error.strerror}; {path}; choose another folder") from error


def reproduce(plan: Plan) -> list[Path]:
    """Compute the missing rows of every seed, then draw the figures. Returns the files of the figures."""
    if plan.item not in ITEMS:
        raise BadInput(f"no experiment {plan.item!r}; reproduce; {nearest(plan.item, ITEMS)}")
    for seed in plan.seeds:
        one_seed(plan, seed, Rows(plan.folder, seed, plan.patience))
    return drawn(plan)


def script(item: str) -> ModuleType:
    return import_module(f"experiments.{item.replace('-', '_')}")


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    """Run one seed. The numbers are the same every time on the same hardware, except for large networks on a GPU."""
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
    """Draw the figures from all seeds that have rows. Returns their files."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("figures are drawn with matplotlib, which is not here: run it again where it is", file=sys.stderr)
        return []
    seeds = sorted(plan.folder.glob("seed_*.csv"), key=lambda p: int(p.stem.split("_")[1]))
    module = script(plan.item)
    order = {name: i for i, name in enumerate(module.names(replace(plan, methods=("all",))))}
    rows = [row for path in seeds for row in read(path)]
    return module.draw(plan, sorted(rows, key=lambda row: (order.get(row.method.split(": ")[0], -1), row.seed)))


def main(item: str, args: list[str] | None = None) -> None:
    """Run an experiment as a script."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{item.replace('-', '_')}", description=ITEMS[item])
    parser.add_argument("--data", help="folder with mnist.npz, or cifar10_train_part1..5.npz and cifar10_test.npz")
    parser.add_argument("--on", choices=list(SETS), default="mnist")
    parser.add_argument("-o", "--out", type=Path, default=Path("reproduced"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="*", default=[], help="names of rows; all for every one there is")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of causes to remove")
    parser.add_argument("--patience", type=int, default=120, help="seconds a method may take with a large network")
    options: Any = vars(parser.parse_args(args))
    try:
        for path in reproduce(plan_of(item, **options)):
            print(path)
    except AmendsError as error:
        sys.exit(f"error: {error}")


def plan_of(item: str, **options: Any) -> Plan:
    """A plan from the options of the command line."""
    lists = {key: tuple(options[key]) for key in ("seeds", "methods", "sizes")}
    return Plan(item, **{**options, **lists})
