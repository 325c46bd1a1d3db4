"""Where the time goes for an image that is read from a file, sent to a GPU and ranked. Each part is timed by itself.

    python benchmarks/gpu_profile.py --trace kernels.txt

A ResNet-50 with random weights, on 224x224 images of random bytes. Needs torch and numpy alone. The pass over the rows
is the last part of `functional`: two forward passes of each row. --trace writes the report of torch's profiler on eight
batches.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gpu_rate import Photos, written
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from amends.evidence import prepare
from amends.evidence.factor import Factor
from amends.methods.ratio import in_one_reading
from amends.posteriors import Point


def timed(work: Callable[[], Any], device: str, times: int = 1) -> float:
    """Seconds of one call, after one to warm up."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    work()
    wait()
    start = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - start) / times


def parts(train: Factor, model: torch.nn.Module, x: Tensor, args: argparse.Namespace) -> dict[str, float]:
    """Images per second, for each part."""
    network, n = train.network, len(x)
    start, after = network.params, {k: 1.0001 * v for k, v in network.params.items()}
    spans = [(i, min(i + args.batch, n)) for i in range(0, n, args.batch)]
    on_device, y = x[: args.batch].to(args.device), train.examples.y[: args.batch].to(args.device)
    whole = {
        "read": lambda: [x[i:j].clone() for i, j in spans],
        "read and sent": lambda: [None for _ in train.examples.batches(spans, network.device)],
        "read, sent and run forward twice": lambda: in_one_reading(Point(start), Point(after), train),
    }
    batch = {
        "a batch run forward": lambda: model(on_device),
        "through amends": lambda: network.log_prob(start, on_device, y),
    }
    rates = {name: n / timed(work, args.device) for name, work in whole.items()}
    return rates | {name: len(on_device) / timed(work, args.device, 10) for name, work in batch.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--width", type=int, default=64, help="64 is ResNet-50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--trace", type=Path)
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    model = Photos(args.width).to(args.device).eval()
    prepare.RESIDENT = 0  # nothing is kept on the device, as if the set were large
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        x = written(Path(folder), args.images, args.side)
        train_set = (x, torch.randint(0, 1000, (args.images,)))
        train = prepare.prepare(model, None, args.device, args.batch, train=train_set)["train"]
        print(json.dumps(parts(train, model, x, args), indent=2))
        if args.trace is not None:
            kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if args.device == "cuda" else [])]
            q = Point(train.network.params)
            with profile(activities=kinds) as profiled:
                in_one_reading(q, Point(dict(q.mean)), train[: 8 * args.batch])
            order = f"self_{'cuda' if args.device == 'cuda' else 'cpu'}_time_total"
            args.trace.write_text(profiled.key_averages().table(sort_by=order, row_limit=20))


if __name__ == "__main__":
    main()
