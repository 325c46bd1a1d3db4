"""The cost of the exact diagonal Fisher, relative to a plain forward and backward pass of the same batch.

    python benchmarks/fisher.py

The paper's CNN, empirical Fisher. Both are timed in turn in one run, so that a noisy machine is noisy for both. The
result is the median of the ratios. Memory is what each adds at its peak.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from networks import paper_cnn

from amends.curvature import Empirical
from amends.curvature.backprop import plan
from amends.curvature.diagonal import diagonal
from amends.data import examples
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.likelihoods import Categorical


def added(work: Callable[[], object]) -> int:
    """The resident memory in bytes that a call adds at its peak, sampled every half millisecond."""
    gc.collect()
    start, highest, done = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.is_set():
            highest = max(highest, resident())
            time.sleep(0.0005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return highest - start


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def added_in_a_fresh_process(what: str, args: argparse.Namespace) -> int:
    """The same in a new process, where memory freed by the other call cannot be reused."""
    command = [
        sys.executable,
        __file__,
        "--memory-of",
        what,
        "--batch",
        str(args.batch),
        "--threads",
        str(args.threads),
    ]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", choices=["plain", "fisher"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    network = Network.of(paper_cnn(), Categorical())
    x, y = torch.randn(args.batch, 1, 28, 28), torch.randint(0, 10, (args.batch,))
    data = Factor.of(network, examples((x, y), "train"), args.batch)
    theta = network.params
    layout = plan(data, theta)  # made once for a data set, whatever its number of batches

    def plain() -> object:
        return data.value_and_grad(theta)

    def fisher() -> object:
        return diagonal(data, theta, Empirical(), layout)

    if args.memory_of:
        print(added(plain if args.memory_of == "plain" else fisher))
        return
    memory = {what: added_in_a_fresh_process(what, args) for what in ("plain", "fisher")}
    for work in (plain, fisher):
        work()
    ratios, base = [], []
    for i in range(args.rounds):
        first, second = (plain, fisher) if i % 2 else (fisher, plain)
        times = {first: seconds(first), second: seconds(second)}
        ratios.append(times[fisher] / times[plain])
        base.append(times[plain])
    quarter = statistics.quantiles(ratios, n=4)
    print(f"batch {args.batch}, {args.threads} threads, {args.rounds} rounds, torch {torch.__version__}")
    print(f"time    fisher / plain  {statistics.median(ratios):.2f}  (quartiles {quarter[0]:.2f} to {quarter[2]:.2f})")
    print(f"memory  fisher / plain  {memory['fisher'] / memory['plain']:.2f}  "
          f"({memory['fisher'] / 2**20:.0f} MiB over {memory['plain'] / 2**20:.0f} MiB)")  # fmt: skip


if __name__ == "__main__":
    main()
