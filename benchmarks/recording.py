"""The cost of recording a training run: seconds per step, and bytes per step on disk.

    python benchmarks/recording.py

Trains one network by SGD with and without `amends.trace.Recorder` writing to a folder, in turn. Both are measured in
processor time, so that other work on the machine matters little. The callbacks for Hugging Face's Trainer and for
Lightning cost what the Recorder costs, plus a small constant. Needs torch, numpy and safetensors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from amends.trace import Recorder


def trained(width: int, steps: int, batch: int, folder: Path | None) -> float:
    """Processor seconds per step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(4096, 256), torch.randint(0, 10, (4096,))
    recorder = None if folder is None else Recorder(model, folder)
    start = time.process_time()
    for step in range(steps):
        at = torch.arange(step * batch, (step + 1) * batch) % len(x)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[at]), y[at]).backward()
        if recorder is not None:
            recorder(at, 0.01)
        optimiser.step()
    return (time.process_time() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="*", default=[64, 512, 1024])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for width in args.widths:
        plain, kept, size = [], [], 0
        for _ in range(args.rounds):
            plain.append(trained(width, args.steps, args.batch, None))
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder) / "trace"
                kept.append(trained(width, args.steps, args.batch, home))
                size = sum(f.stat().st_size for f in home.iterdir())
        parameters = 256 * width + width * width + 10 * width + 2 * width + 10
        print(json.dumps({
            "parameters": parameters, "plain step, ms": 1e3 * float(np.median(plain)),
            "recorded step, ms": 1e3 * float(np.median(kept)), "ratio": float(np.median(kept) / np.median(plain)),
            "bytes a step": size // args.steps, "bytes a parameter": size / args.steps / parameters,
        }))  # fmt: skip


if __name__ == "__main__":
    main()
