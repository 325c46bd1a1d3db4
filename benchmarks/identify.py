"""The cost of identification, relative to the passes it cannot do without.

    python benchmarks/identify.py

The floor is one forward and backward pass and one forward pass over D, plus a forward and backward pass for each
evaluation of the edit, all in plain torch with the same batches. Evaluations are counted in the run that is timed.
Identification and its floor are timed in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter

import torch
from networks import paper_cnn
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends import identify, methods
from amends.curvature import Empirical
from amends.evidence.factor import Factor

METHODS = {
    "ewc, empirical Fisher": methods.ewc(kind=Empirical()),
    "ewc": methods.ewc(),
    "functional": methods.functional(),
    "grad_dot": methods.grad_dot(),
}


def plain(net: nn.Module, x: Tensor, y: Tensor, batch: int, backward: bool) -> None:
    for start in range(0, len(x), batch):
        part = slice(start, start + batch)
        with torch.set_grad_enabled(backward):
            loss = nnf.cross_entropy(net(x[part]), y[part], reduction="sum")
        if backward:
            torch.autograd.grad(loss, list(net.parameters()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=1500)
    parser.add_argument("--failures", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    net = paper_cnn()
    sizes = {"train": args.train, "failures": args.failures, "remaining": args.failures}
    sets = {n: (torch.randn(k, 1, 28, 28), torch.randint(0, 10, (k,))) for n, k in sizes.items()}

    evaluations: Counter[str] = Counter()
    original = Factor.value_and_grad

    def counted(self: Factor, theta):
        evaluations[self.examples.name] += 1
        return original(self, theta)

    Factor.value_and_grad = counted
    print(f"D {args.train}, F {args.failures}, {args.threads} threads, torch {torch.__version__}")
    for name, method in METHODS.items():
        ratios = []
        for _ in range(args.rounds):
            evaluations.clear()
            start = time.perf_counter()
            identify(net, sets["train"], sets["failures"], remaining=sets["remaining"], method=method,
                     batch_size=args.batch)  # fmt: skip
            middle = time.perf_counter()
            plain(net, *sets["train"], args.batch, backward=True)
            plain(net, *sets["train"], args.batch, backward=False)
            for which, times in evaluations.items():
                for _ in range(times):
                    plain(net, *sets[which], args.batch, backward=True)
            ratios.append((middle - start) / (time.perf_counter() - middle))
        edit = ", ".join(f"{times} on {which}" for which, times in evaluations.items())
        print(
            f"{name:<24} {statistics.median(ratios):.2f} times its floor  (evaluations of the edit: {edit})", flush=True
        )


if __name__ == "__main__":
    main()
