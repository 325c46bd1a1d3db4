"""All experiments in one call, side by side, within a limit of time.

    python -m experiments.all --data DIR --seeds 0 1 2 3 4 --workers 14 --limit 540
    python -m experiments.all --data DIR --on cifar10 --items annotation-noise causes --workers 2

A job is one row of one seed. Workers are processes of one thread each; a worker stays with a network and its failures
while there is work on it. What the paper compares comes first, what takes long and methods it does not name come last.
Rows are stored as they are made: a call that was stopped, or that ran out of time, goes on from there. `speed` is not
part of it, since it is measured alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from amends.errors import AmendsError, BadInput, nearest
from experiments import ITEMS
from experiments.rankings import USUAL
from experiments.running import Found, Plan, Row, Rows, drawn, one_seed, script
from experiments.sets import SETS

DAMAGE = {"random-noise": "noise", "poisoning": "poison"}  # all others begin with flipped labels
TOGETHER = {"causes": "annotation-noise"}  # which rank the same: the second gives its rows on the way
RANKING = ("annotation-noise", "causes", *DAMAGE)  # with a row for every method, where they are asked for
LONG = ("linear, gd", "linear, sa")


@dataclass(frozen=True)
class Job:
    """A row of some experiments that begin with the same network."""

    items: tuple[str, ...]
    seed: int
    row: str

    @property
    def network(self) -> tuple[str, int]:
        return DAMAGE.get(self.items[0], "labels"), self.seed

    @property
    def turn(self) -> int:
        """Lower ones come first."""
        ranking, late = self.items[0] in RANKING, self.items[0] == "sample-efficiency"
        if self.row in LONG:
            return 2 if ranking else 5
        if ranking and self.row not in USUAL:
            return 5 if self.items[0] in DAMAGE else 4
        return 0 if ranking else 3 if late else 1


def every(plan: Plan, items: Iterable[str]) -> tuple[str, ...]:
    """The rows that these experiments can have."""
    return tuple(row for item in items for row in script(item).names(replace(plan, item=item, methods=("all",))))


def asked(plan: Plan, item: str) -> tuple[str, ...]:
    """The rows of the plan that this experiment has; none where it makes its usual ones. `all` is for methods that rank
    what was damaged."""
    known = every(plan, [item])
    return tuple(row for row in plan.methods if row in known or (row == "all" and item in RANKING))


def parts(plan: Plan, row: str) -> Iterable[str]:
    """What a row is stored as: itself, or one for each kind of failure."""
    made = script(plan.item)
    return made.parts(plan, row) if hasattr(made, "parts") else [row]


def jobs(plan: Plan, items: tuple[str, ...]) -> list[Job]:
    """Those with rows that are not there yet."""
    made: dict[tuple[str, int, str], tuple[str, ...]] = {}
    known = {row for item in items for row in asked(plan, item)}
    for row in plan.methods:
        if row not in known:
            raise BadInput(f"no row {row!r}; --methods; {nearest(row, every(plan, items))}")
    for item in items:
        here = replace(plan, item=item, methods=asked(plan, item))
        for seed in plan.seeds:
            rows = Rows(here.folder, seed, plan.patience)
            for row in script(item).names(here):
                if rows.missing(parts(here, row)):
                    key = TOGETHER.get(item, item), seed, row
                    made[key] = (*made.get(key, ()), item)
    return sorted((Job(items, seed, row) for (_, seed, row), items in made.items()), key=lambda job: job.turn)


class Sent(Rows):
    """Rows of a worker, which go to the one process that stores them."""

    pipe: Connection
    item: str

    def add(self, method: str, found: Found) -> None:
        made = [Row(self.seed, method, k, measure, float(value)) for k, measure, value in found]
        self.rows = [row for row in self.rows if row.method != method] + made
        self.pipe.send(("rows", self.item, self.seed, method, [(r.k, r.measure, r.value) for r in made]))

    def pictures(self, **arrays: np.ndarray) -> None:
        self.pipe.send(("pictures", self.item, self.seed, arrays))


def work(pipe: Connection, plan: Plan) -> None:
    """A worker: one job after the other, until there is none. A job that breaks is named, and the next one comes."""
    import torch

    torch.set_num_threads(1)
    while (job := pipe.recv()) is not None:
        try:
            for item in job.items:
                here = replace(plan, item=item, methods=(job.row,))
                rows = Sent(here.folder, job.seed, plan.patience)
                rows.pipe, rows.item = pipe, item
                one_seed(here, job.seed, rows)
            pipe.send(("done",))
        except Exception:
            pipe.send(("broke", job, traceback.format_exc(limit=-4)))


@dataclass
class Office:
    """Hands out jobs and stores what comes back."""

    plan: Plan
    todo: list[Job]
    say: Callable[[str], None]
    busy: dict[Connection, Job] = field(default_factory=dict)
    broken: int = 0

    def give(self, pipe: Connection) -> None:
        """The next job for this worker: of the earliest turn; there, of the network it has, or of the one that has
        most jobs for each worker at it."""
        before = self.busy.pop(pipe, None)
        if not self.todo:
            pipe.send(None)
            return
        turn = min(job.turn for job in self.todo)
        now = [job for job in self.todo if job.turn == turn]
        left, at = Counter(job.network for job in now), Counter(job.network for job in self.busy.values())
        if before is None or before.network not in left:
            network = max(left, key=lambda n: (left[n] / (at[n] + 1), n))
        else:
            network = before.network
        job = next(job for job in now if job.network == network)
        self.todo.remove(job)
        self.busy[pipe] = job
        pipe.send(job)

    def hear(self, pipe: Connection) -> None:
        try:
            kind, *said = pipe.recv()
        except EOFError:
            self.lost(self.busy.pop(pipe, None), "its process ended")
            return
        if kind == "rows":
            item, seed, method, found = said
            rows = self.rows(item, seed)
            if rows.missing([method]):
                rows.add(method, found)
        elif kind == "pictures":
            item, seed, arrays = said
            self.rows(item, seed).pictures(**arrays)
        else:
            if kind == "broke":
                self.lost(*said)
            self.give(pipe)

    def rows(self, item: str, seed: int) -> Rows:
        return Rows(replace(self.plan, item=item).folder, seed, self.plan.patience)

    def lost(self, job: Job | None, why: str) -> None:
        self.broken += 1
        self.say(f"broken: {job}: {why}")


def run(plan: Plan, items: tuple[str, ...], workers: int, limit: float) -> int:
    """All jobs, or as many as can be done in so many seconds. Returns how many are left."""
    start = time.monotonic()
    os.environ |= {"OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    office = Office(plan, jobs(plan, items), lambda text: print(text, file=sys.stderr, flush=True))
    office.say(f"{len(office.todo)} jobs, {workers} workers, {limit:.0f} seconds")
    ways = multiprocessing.get_context("spawn")
    pipes: dict[Connection, Any] = {}
    for _ in range(min(workers, len(office.todo))):
        ours, theirs = ways.Pipe()
        process = ways.Process(target=work, args=(theirs, plan), daemon=True)
        process.start()
        theirs.close()
        pipes[ours] = process
        office.give(ours)
    while office.busy and (left := limit - (time.monotonic() - start)) > 0:
        for pipe in wait(list(office.busy), timeout=min(left, 60)):
            office.hear(pipe)  # pyright: ignore[reportArgumentType]
    remaining = len(office.todo) + len(office.busy) + office.broken
    for process in pipes.values():
        process.terminate()
    office.say(f"{remaining} jobs left after {time.monotonic() - start:.0f} seconds")
    return remaining


def main(args: list[str] | None = None) -> None:
    ask = argparse.ArgumentParser(prog="python -m experiments.all", description="All experiments in one call.")
    ask.add_argument("--data", help="folder with mnist.npz, or cifar10_train_part1..5.npz and cifar10_test.npz")
    ask.add_argument("--on", choices=list(SETS), default="mnist")
    ask.add_argument("-o", "--out", type=Path, default=Path("reproduced"))
    ask.add_argument("--seeds", type=int, nargs="+", default=[0])
    items = [item for item in ITEMS if item != "speed"]
    ask.add_argument("--items", nargs="+", choices=items, metavar="ITEM", default=items, help="all but speed, or these")
    ask.add_argument("--methods", nargs="*", default=[], help="rows; all for every method that ranks")
    ask.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of causes to remove")
    ask.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    ask.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    ask.add_argument("--patience", type=int, default=120, help="seconds a method may take with a large network")
    ask.add_argument("--device", help="cuda where there is one, unless told otherwise")
    given = ask.parse_args(args)
    plan = Plan("causes", given.on, given.data, given.out, tuple(given.seeds), tuple(given.methods), tuple(given.sizes))
    plan = replace(plan, device=given.device or plan.device, patience=given.patience)
    try:
        left = run(plan, tuple(given.items), given.workers, given.limit)
        for item in given.items:
            here = replace(plan, item=item)
            if any(here.folder.glob("seed_*.csv")):
                print(*drawn(here), sep="\n")
    except AmendsError as error:
        sys.exit(f"error: {error}")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
