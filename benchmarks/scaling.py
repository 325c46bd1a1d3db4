"""The cost per row: identification of up to ten million rows from disk, in one process and in two.

    python benchmarks/scaling.py

A small network, rows of 32 numbers in a memory-mapped file, `functional` with 100 failures. Every size is measured in a
process of its own with one thread. Memory is what is private to the process, sampled every few milliseconds; its growth
between two sizes, divided by the number of rows, is the cost of a row. Then follow the same rows as a Dataset that
stays on disk, and, under torchrun in two processes, with a larger network. With --tables the rows are read from a CSV
and a parquet file instead, and reading is included. Files are written to --folder and removed. --figure draws what was
written with --out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, CLASSES, FAILURES, BATCH = 32, 10, 100, 4096
SMALL, LARGE = 64, 1024  # hidden units: where memory counts, and where there is something to share
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
TABLES = ("csv", "parquet")


class Private:
    """The peak private memory of this process while it is watched, in bytes."""

    def __init__(self) -> None:
        self.most, self.over = 0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def now(self) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))

    def _look(self) -> None:
        while not self.over.wait(0.005):
            self.most = max(self.most, self.now())

    def __enter__(self) -> Private:
        self.start = self.now()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self.most = max(self.most, self.now())


def write(folder: Path, n: int) -> None:
    """Write rows with labels that follow from them, except for about one in fifty."""
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(WIDTH, CLASSES)).astype(np.float32)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, WIDTH))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int64, (n,))
    for start in range(0, n, 100_000):
        part = rng.standard_normal((min(100_000, n - start), WIDTH), dtype=np.float32)
        labels = (part @ plane).argmax(1)
        wrong = rng.random(len(labels)) < 0.02
        x[start : start + len(part)] = part
        y[start : start + len(part)] = np.where(wrong, rng.integers(0, CLASSES, len(labels)), labels)


def write_tables(folder: Path) -> None:
    """Write the same rows as tables, 100,000 at a time."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y"))
    parquet = None
    for start in range(0, len(x), 100_000):
        part = pd.DataFrame(np.array(x[start : start + 100_000]), columns=[f"f{i}" for i in range(WIDTH)])
        part = part.assign(label=np.array(y[start : start + 100_000]))
        part.to_csv(folder / "rows.csv", index=False, header=start == 0, mode="a")
        table = pa.Table.from_pandas(part)
        parquet = parquet or pq.ParquetWriter(folder / "rows.parquet", table.schema)
        parquet.write_table(table)
    assert parquet is not None
    parquet.close()


def identify(folder: Path, how: str, hidden: int) -> dict[str, Any]:
    """One identification with its time and memory, in a process of its own."""
    import torch
    from torch import nn
    from torch.utils.data import Dataset

    import amends

    torch.set_num_threads(1)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    x, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))
    held_out = torch.randn(2 * FAILURES, WIDTH, generator=torch.Generator().manual_seed(1))
    predicted = model(held_out).argmax(1)
    failures = held_out[:FAILURES], (predicted[:FAILURES] + 1) % CLASSES
    remaining = held_out[FAILURES:], predicted[FAILURES:]

    class Rows(Dataset):
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
            return np.array(x[i]), int(y[i])

    def train() -> Any:
        if how in TABLES:
            return amends.data.read(folder / f"rows.{how}")
        return (x, y) if how == "mapped" else amends.data.stored(Rows())

    small = tuple(torch.from_numpy(np.array(part[:BATCH])) for part in (x, y))

    def work(data: Any) -> Any:
        method = amends.methods.functional()
        return amends.identify(model, data, failures, remaining, method=method, batch_size=BATCH)

    work(small)  # warms up
    with Private() as memory:
        start, spent = time.perf_counter(), time.process_time()
        scores = work(train()).scores
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
    return {"rows": len(x), "how": how, "hidden": hidden, "seconds": seconds, "processor seconds": spent,
            "private": memory.most - memory.start, "sha256": hashlib.sha256(scores.tobytes()).hexdigest()}  # fmt: skip


def measured(folder: Path, how: str, hidden: int = SMALL, processes: int = 1) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(folder), how, str(hidden)]
    if processes > 1:
        run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        command = [*run, *command[1:]]
    out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert out.returncode == 0, out.stderr
    result = {**json.loads(out.stdout.splitlines()[-1]), "processes": processes}
    print(json.dumps(result), flush=True)
    return result


def drawn(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw the cost per row over the number of rows. It includes the edit, which costs the same for any number."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    names = {"mapped": "a memory-mapped file", "stored": "a Dataset, item by item"}
    measures = {"processor seconds": ("processor time, microseconds a row", 1e6), "private": ("private bytes a row", 1)}
    for ax, (key, (label, unit)) in zip(figure.subplots(1, 2), measures.items(), strict=True):
        for how, name in names.items():
            own = [r for r in rows if (r["how"], r["hidden"], r["processes"]) == (how, SMALL, 1)]
            sizes = [r["rows"] for r in own]
            ax.plot(sizes, [unit * r[key] / r["rows"] for r in own], marker="o", label=name)
        ax.set(xscale="log", xlabel="rows", ylabel=label, yscale="log")
    figure.axes[1].axhline(64, color="#7f7f7f", linestyle=":", label="64 bytes")
    figure.axes[1].legend(frameon=False)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        result = identify(Path(args.one[0]), args.one[1], int(args.one[2]))
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(result))
        return
    if args.figure is not None:
        drawn(json.loads(args.out.read_text()), args.figure)
        return
    rows = []
    for n in args.sizes:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            write(Path(folder), n)
            if args.tables:
                write_tables(Path(folder))
                rows += [measured(Path(folder), how) for how in TABLES]
                continue
            rows.append(measured(Path(folder), "mapped"))
            if n <= 1_000_000:  # slow: Python reads it item by item
                rows.append(measured(Path(folder), "stored"))
            if n == 1_000_000:
                rows += [measured(Path(folder), "mapped", LARGE, processes) for processes in (1, 2)]
        for hidden in (SMALL, LARGE):
            same = {row["sha256"] for row in rows if (row["rows"], row["hidden"]) == (n, hidden)}
            assert len(same) <= 1, "the scores are not the same"
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
