"""How fast `functional` ranks a training set on one GPU: images from a memory-mapped file, and rows of tokens.

    python benchmarks/gpu_rate.py --out rates.json

Needs torch and numpy alone. First a ResNet-50 with random weights, 224x224 images of random bytes and 1,000 failures;
then language models of the size of GPT-2 and of a billion parameters, with rows of 1,024 random tokens. The pass over
the rows is timed by itself: the edit before it does not grow with the rows, but may take more or fewer evaluations. It
is compared with a plain forward pass over the same rows, in the same batches and precision.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from networks import Block
from resnet import ResNet
from torch import Tensor, nn
from torch.nn import functional as nnf

import amends
from amends.editors import LBFGS, Ascent

CLASSES, SIDE = 1000, 224


class Photos(ResNet):
    """ResNet-50 for photographs, given as bytes: a 7x7 convolution and pooling in front."""

    def __init__(self, width: int = 64) -> None:
        super().__init__(width=width, classes=CLASSES)
        self.stem = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = (x.to(self.out.weight.dtype) / 127.5 - 1).contiguous(memory_format=torch.channels_last)
        x = nnf.max_pool2d(nnf.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.out(self.blocks(x).mean((2, 3)))


class Language(nn.Module):
    """A causal transformer in the shape of GPT-2."""

    def __init__(self, width: int, depth: int, heads: int, words: int = 50257, length: int = 1024) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(depth)), nn.LayerNorm(width)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def seconds(work: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def plain(model: nn.Module, x: Tensor, batch: int, device: str) -> None:
    """A forward pass over all rows; each batch is read and sent when it is needed."""
    with torch.inference_mode():
        for start in range(0, len(x), batch):
            model(x[start : start + batch].to(device))


@contextmanager
def watched(device: str) -> Iterator[dict[str, float]]:
    """A context that measures the seconds of the pass over the rows, and the peak memory on the device."""
    module: Any = importlib.import_module("amends.algorithm.identify")
    measured: dict[str, float] = {}
    original = module.in_one_reading

    def timed(*args: Any) -> Any:
        results = []
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        measured["seconds"] = seconds(lambda: results.append(original(*args)), device)
        measured["peak"] = torch.cuda.max_memory_allocated() if device == "cuda" else 0
        return results[0]

    module.in_one_reading = timed
    try:
        yield measured
    finally:
        module.in_one_reading = original


def ranked(model: nn.Module, sets: tuple, rows: tuple[int, int], batch: int, options: dict[str, Any]) -> dict:
    """Seconds for a few rows (the warm-up) and for all; those of the pass alone; and a plain forward pass for
    comparison."""
    (x, y), failures, remaining = sets
    device = options["device"]
    reading = seconds(lambda: [x[i : i + batch].clone() for i in range(0, rows[1], batch)], "cpu")
    total, passes = {}, {}
    for n in rows:
        with watched(device) as passes[n]:
            total[n] = seconds(
                lambda n=n: amends.identify(model, (x[:n], y[:n]), failures, remaining, batch_size=batch, **options),
                device,
            )
    few, whole = (passes[n] for n in rows)
    on_device = x[: min(len(x), 16 * batch)].to(device)
    plain(model, on_device, batch, device)
    figures = {
        "rows": rows[1], "seconds": total[rows[1]], "seconds, the pass": whole["seconds"],
        "seconds, all before it": total[rows[1]] - whole["seconds"], "rows a second": rows[1] / whole["seconds"],
        "few rows": rows[0], "seconds, few rows": total[rows[0]], "seconds, the pass, few rows": few["seconds"],
        "reading alone, rows a second": rows[1] / reading,
        "plain forward, rows a second": rows[1] / seconds(lambda: plain(model, x[: rows[1]], batch, device), device),
        "plain forward, rows on the device":
            len(on_device) / seconds(lambda: plain(model, on_device, batch, device), device),
        "bytes on the device, of a row": (whole["peak"] - few["peak"]) / (rows[1] - rows[0]),
        "peak bytes of the process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip
    print(json.dumps(figures), flush=True)
    return figures


def written(folder: Path, images: int, side: int) -> Tensor:
    """Images of random bytes, stored in a file. The rate does not depend on what they show."""
    shape = (images, 3, side, side)
    drawn = np.random.default_rng(0).integers(0, 256, (min(1000, images), *shape[1:]), dtype=np.uint8)
    with (folder / "x.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for start in range(0, images, len(drawn)):
            drawn[: images - start].tofile(file)
    return torch.from_numpy(np.load(folder / "x.npy", mmap_mode="r+"))


def images(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Images from a file that is larger than what amends keeps on the device."""
    rng, x = np.random.default_rng(1), written(folder, args.images, args.side)
    torch.manual_seed(0)
    model = Photos(args.width).to(args.device).eval()
    labels = torch.as_tensor(rng.integers(0, CLASSES, args.images))
    held_out = torch.as_tensor(
        rng.integers(0, 256, (args.failures + args.remaining, 3, args.side, args.side), np.uint8)
    )
    with torch.inference_mode():
        predicted = torch.cat([model(part.to(args.device)).argmax(1).cpu() for part in held_out.split(250)])
    failures = (held_out[: args.failures], (predicted[: args.failures] + 1) % CLASSES)
    remaining = (held_out[args.failures :], predicted[args.failures :])
    method = amends.methods.functional(climb=LBFGS(steps=args.steps))
    return ranked(model, ((x, labels), failures, remaining), (args.images // 3, args.images), args.batch,
                  {"method": method, "device": args.device})  # fmt: skip


def language(args: argparse.Namespace, width: int, depth: int, heads: int, rows: int, batch: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = Language(width, depth, heads, args.words, args.length).to(args.device).eval()
    tokens = torch.randint(0, args.words, (rows + 16, args.length))
    sets = tuple((t, t) for t in tokens.split([rows, 8, 8]))
    options = {"method": amends.methods.functional(climb=Ascent(steps=1)), "device": args.device,
           "likelihood": amends.likelihoods.Tokens()}  # fmt: skip
    figures = ranked(model, sets, (rows // 8, rows), batch, options)
    scale = {k.replace("rows a", "tokens a"): v * args.length for k, v in figures.items() if "rows a second" in k}
    return {"parameters": sum(p.numel() for p in model.parameters()), **figures, **scale}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--side", type=int, default=SIDE)
    parser.add_argument("--width", type=int, default=64, help="64 is ResNet-50")
    parser.add_argument("--failures", type=int, default=1000)
    parser.add_argument("--remaining", type=int, default=500)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--words", type=int, default=50257)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=1024, help="rows of tokens for the smaller model")
    parser.add_argument("--small", action="store_true", help="tiny models, to see that the script runs")
    parser.add_argument("--only", nargs="*", default=["images", "gpt2", "1b"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    device = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    results: dict[str, Any] = {"device": device, "torch": torch.__version__, "precision": "float32, TensorFloat-32"}
    shapes = {"gpt2": (64, 2, 2), "1b": (64, 3, 2)} if args.small else {"gpt2": (768, 12, 12), "1b": (1792, 24, 14)}
    for name in args.only:
        print(name, flush=True)
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            if name == "images":
                results[name] = images(args, Path(folder))
                results[name]["1.28 million, seconds"] = (
                    1_281_167 / results[name]["rows a second"] + results[name]["seconds, all before it"]
                )
            else:
                rows = args.rows if name == "gpt2" else args.rows // 4
                results[name] = language(args, *shapes[name], rows, 8 if name == "gpt2" else 4)
        if args.out is not None:
            args.out.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
