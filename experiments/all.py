"""All experiments in one call, in parallel, within a time limit.

    python -m experiments.all --data DIR --seeds 0 1 2 3 4 --workers 14 --limit 540
    python -m experiments.all --data DIR --on cifar10 --items annotation-noise causes --workers 2

A job is one row of one seed. Workers are processes with one thread each; a worker keeps its network and its failures as
long as there is work on them. What the paper compares comes first; slow methods and methods the paper does not name
come last. Rows are stored as soon as they are computed: a call that was stopped, or ran out of time, continues from
there. `speed` is left out, since nothing else may run while it measures.
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
from experiments.running import Plan, Row, Rows, Values, drawn, one_seed, script
from experiments.sets import SETS

DAMAGE = {"random-noise": "noise", "poisoning": "poison"}  # all others begin with flipped labels
TOGETHER = {"causes": "annotation-noise"}  # both need the same rankings, so one job fills the rows of both
RANKING = ("annotation-noise", "causes", *DAMAGE)  # these can have a row for every method
LONG = ("linear, gd", "linear, sa")


@dataclass(frozen=True)
class Job:
    """One row of one or more experiments that start from the same network."""

    items: tuple[str, ...]
    seed: int
    row: str

    @property
    def network(self) -> tuple[str, int]:
        return DAMAGE.get(self.items[0], "labels"), self.seed

    @property
    def turn(self) -> int:
        """The priority of the job: lower numbers run first."""
        ranking, late = self.items[0] in RANKING, self.items[0] == "sample-efficiency"
        if self.row in LONG:
            return 2 if ranking else 5
        if ranking and self.row not in USUAL:
            return 5 if self.items[0] in DAMAGE else 4
        return 0 if ranking else 3 if late else 1


def every(plan: Plan, items: Iterable[str]) -> tuple[str, ...]:
    """All rows that these experiments can have."""
    return tuple(row for item in items for row in script(item).names(replace(plan, item=item, methods=("all",))))


def asked(plan: Plan, item: str) -> tuple[str, ...]:
    """The rows of `plan.methods` that this experiment has. Empty means its usual rows. `all` applies only to
    experiments that rank the damaged examples."""
    possible = every(plan, [item])
    return tuple(row for row in plan.methods if row in possible or (row == "all" and item in RANKING))


def parts(plan: Plan, row: str) -> Iterable[str]:
    """The names under which a row is stored: its own, or one for each kind of failure."""
    module = script(plan.item)
    return module.parts(plan, row) if hasattr(module, "parts") else [row]


def jobs(plan: Plan, items: tuple[str, ...]) -> list[Job]:
    """The jobs whose rows are not stored yet, in the order they should run."""
    waiting: dict[tuple[str, int, str], tuple[str, ...]] = {}
    possible = {row for item in items for row in asked(plan, item)}
    for row in plan.methods:
        if row not in possible:
            raise BadInput(f"no row {row!r}; --methods; {nearest(row, every(plan, items))}")
    for item in items:
        own_plan = replace(plan, item=item, methods=asked(plan, item))
        for seed in plan.seeds:
            rows = Rows(own_plan.folder, seed, plan.patience)
            for row in script(item).names(own_plan):
                if rows.missing(parts(own_plan, row)):
                    key = TOGETHER.get(item, item), seed, row
                    waiting[key] = (*waiting.get(key, ()), item)
    return sorted((Job(items, seed, row) for (_, seed, row), items in waiting.items()), key=lambda job: job.turn)


class Sent(Rows):
    """The rows of a worker. They are sent to the main process, the only one that writes files."""

    pipe: Connection
    item: str

    def add(self, method: str, values: Values) -> None:
        new = [Row(self.seed, method, k, measure, float(value)) for k, measure, value in values]
        self.rows = [row for row in self.rows if row.method != method] + new
        self.pipe.send(("rows", self.item, self.seed, method, [(r.k, r.measure, r.value) for r in new]))

    def pictures(self, **arrays: np.ndarray) -> None:
        self.pipe.send(("pictures", self.item, self.seed, arrays))


def work(pipe: Connection, plan: Plan) -> None:
    """Run one job after the other, until there is none left. If a job fails, its error is sent back and the next job
    starts."""
    import torch

    torch.set_num_threads(1)
    while (job := pipe.recv()) is not None:
        try:
            for item in job.items:
                own_plan = replace(plan, item=item, methods=(job.row,))
                rows = Sent(own_plan.folder, job.seed, plan.patience)
                rows.pipe, rows.item = pipe, item
                one_seed(own_plan, job.seed, rows)
            pipe.send(("done",))
        except Exception:
            pipe.send(("broke", job, traceback.format_exc(limit=-4)))


@dataclass
class Office:
    """Hands out jobs to workers and stores the rows they send back."""

    plan: Plan
    todo: list[Job]
    say: Callable[[str], None]
    busy: dict[Connection, Job] = field(default_factory=dict)
    broken: int = 0

    def give(self, pipe: Connection) -> None:
        """Send this worker its next job, one with the lowest `turn`. Among those it prefers the network the worker
        already has; otherwise the network with the most waiting jobs per worker."""
        before = self.busy.pop(pipe, None)
        if not self.todo:
            pipe.send(None)
            return
        turn = min(job.turn for job in self.todo)
        now = [job for job in self.todo if job.turn == turn]
        waiting, working = Counter(job.network for job in now), Counter(job.network for job in self.busy.values())
        if before is None or before.network not in waiting:
            network = max(waiting, key=lambda n: (waiting[n] / (working[n] + 1), n))
        else:
            network = before.network
        job = next(job for job in now if job.network == network)
        self.todo.remove(job)
        self.busy[pipe] = job
        pipe.send(job)

    def hear(self, pipe: Connection) -> None:
        """Read one message of a worker. A worker that is done, or whose job failed, gets its next job."""
        try:
            kind, *content = pipe.recv()
        except EOFError:
            self.lost(self.busy.pop(pipe, None), "its process ended")
            return
        if kind == "rows":
            item, seed, method, values = content
            rows = self.rows(item, seed)
            if rows.missing([method]):
                rows.add(method, values)
        elif kind == "pictures":
            item, seed, arrays = content
            self.rows(item, seed).pictures(**arrays)
        else:
            if kind == "broke":
                self.lost(*content)
            self.give(pipe)

    def rows(self, item: str, seed: int) -> Rows:
        return Rows(replace(self.plan, item=item).folder, seed, self.plan.patience)

    def lost(self, job: Job | None, why: str) -> None:
        self.broken += 1
        self.say(f"broken: {job}: {why}")


def run(plan: Plan, items: tuple[str, ...], workers: int, limit: float) -> int:
    """Run all jobs, or as many as fit into `limit` seconds. Returns how many are left."""
    start = time.monotonic()
    os.environ |= {"OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    office = Office(plan, jobs(plan, items), lambda text: print(text, file=sys.stderr, flush=True))
    office.say(f"{len(office.todo)} jobs, {workers} workers, {limit:.0f} seconds")
    context = multiprocessing.get_context("spawn")
    pipes: dict[Connection, Any] = {}
    for _ in range(min(workers, len(office.todo))):
        our_end, their_end = context.Pipe()
        process = context.Process(target=work, args=(their_end, plan), daemon=True)
        process.start()
        their_end.close()
        pipes[our_end] = process
        office.give(our_end)
    while office.busy and (left := limit - (time.monotonic() - start)) > 0:
        for pipe in wait(list(office.busy), timeout=min(left, 60)):
            office.hear(pipe)  # pyright: ignore[reportArgumentType]
    remaining = len(office.todo) + len(office.busy) + office.broken
    for process in pipes.values():
        process.terminate()
    office.say(f"{remaining} jobs left after {time.monotonic() - start:.0f} seconds")
    return remaining


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.all", description="All experiments in one call.")
    parser.add_argument("--data", help="folder with mnist.npz, or cifar10_train_part1..5.npz and cifar10_test.npz")
    parser.add_argument("--on", choices=list(SETS), default="mnist")
    parser.add_argument("-o", "--out", type=Path, default=Path("reproduced"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    items = [item for item in ITEMS if item != "speed"]
    parser.add_argument(
        "--items", nargs="+", choices=items, metavar="ITEM", default=items, help="all but speed, or these"
    )
    parser.add_argument("--methods", nargs="*", default=[], help="rows; all for every method that ranks")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of causes to remove")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--patience", type=int, default=120, help="seconds a method may take with a large network")
    parser.add_argument("--device", help="cuda where there is one, unless told otherwise")
    options = parser.parse_args(args)
    plan = Plan("causes", options.on, options.data, options.out,
                tuple(options.seeds), tuple(options.methods), tuple(options.sizes))  # fmt: skip
    plan = replace(plan, device=options.device or plan.device, patience=options.patience)
    try:
        left = run(plan, tuple(options.items), options.workers, options.limit)
        for item in options.items:
            own_plan = replace(plan, item=item)
            if any(own_plan.folder.glob("seed_*.csv")):
                print(*drawn(own_plan), sep="\n")
    except AmendsError as error:
        sys.exit(f"error: {error}")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
