"""MNIST as in the paper: are the causes found, and does forgetting them repair the model?

3,000 training images, the paper's CNN and optimiser, labels flipped along a confusion matrix at
30 %. Failures are the misclassified of the 10,000 test images, half of them query, half holdout.

    python experiments/setting_a.py --data mnist.npz --seeds 5 --out docs/results/setting_a

Runs on torch and numpy alone, on a GPU if there is one. Reads top to bottom.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as nnf

from amends import methods
from amends.curvature import CG, Empirical
from amends.data import flip_labels
from amends.errors import NotConverged
from amends.evaluation import average_precision, precision_at, ranking_area
from amends.influence import identify
from amends.treatment import treat

FLIPS = {
    "one-way": {(1, 7): 0.3, (9, 4): 0.3, (3, 5): 0.3, (6, 0): 0.3},
    "symmetric": {(1, 7): 0.3, (7, 1): 0.3, (6, 9): 0.3, (9, 6): 0.3},
}

IDENTIFY = {
    "random": methods.random(),
    "loss, blind to the failures": methods.loss(),
    "gradient dot product": methods.grad_dot(),
    "linear influence, CG, damping 100": methods.linear(CG(damping=100.0)),
    "linear influence, CG, damping 1000": methods.linear(CG(damping=1000.0)),
    "ewc as printed (Adam, early stop)": methods.ewc_as_printed(),
    "ewc, empirical Fisher": methods.ewc(kind=Empirical()),
    "ewc": methods.ewc(),
    "kfac_ewc": methods.kfac_ewc(),
    "functional on D, .1": methods.functional(0.1, on_train=True, on_remaining=False),
    "functional on remaining, .01": methods.functional(0.01),
    "functional on both, .03": methods.functional(0.03, on_train=True),
    "ewc + functional on remaining, .01": methods.functional(0.01, with_ewc=True),
    "default": methods.default(),
}

SHARE = 0.15  # of D, taken as causes


def paper_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def trained(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
    """Adam 1e-3, batches of 64, at most 100 epochs, stopped after 5 without progress on a tenth."""
    torch.manual_seed(seed)
    net = paper_cnn().to(x.device)
    order = torch.randperm(len(x), device=x.device)
    held, used = order[: len(x) // 10], order[len(x) // 10 :]
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    best, waited, kept = float("inf"), 0, {k: v.clone() for k, v in net.state_dict().items()}
    for _ in range(100):
        for batch in used[torch.randperm(len(used), device=x.device)].split(64):
            optimiser.zero_grad()
            nnf.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            loss = float(nnf.cross_entropy(net(x[held]), y[held]))
        if loss < best:
            best, waited, kept = loss, 0, {k: v.clone() for k, v in net.state_dict().items()}
        else:
            waited += 1
        if waited == 5:
            break
    net.load_state_dict(kept)
    return net.eval()


def one_seed(data: dict[str, np.ndarray], flips: dict, seed: int, device: str) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data["x_train"]))[:3000]
    images, true = data["x_train"][chosen] / 255.0, data["y_train"][chosen].astype(np.int64)
    given, wrong = flip_labels(true, flips, seed)
    mean = images.mean()
    x = torch.tensor(images - mean, dtype=torch.float32, device=device)[:, None]
    y = torch.tensor(given, device=device)
    xt = torch.tensor(data["x_test"] / 255.0 - mean, dtype=torch.float32, device=device)[:, None]
    yt = torch.tensor(data["y_test"].astype(np.int64), device=device)

    net = trained(x, y, seed)
    with torch.no_grad():
        ok = (net(xt).argmax(1) == yt).cpu().numpy()
    failures, rest = rng.permutation(np.flatnonzero(~ok)), rng.permutation(np.flatnonzero(ok))
    sets = {
        "query": failures[::2],
        "holdout": failures[1::2],
        "guard": rest[::2],  # given to the methods as `remaining`
        "remaining": rest[1::2],  # judged with, never given
    }

    def part(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.tensor(sets[name], device=device)
        return xt[at], yt[at]

    def accuracies(model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            return {n: float((model(part(n)[0]).argmax(1) == part(n)[1]).double().mean()) for n in
                    ("query", "holdout", "remaining")}  # fmt: skip

    rows: dict[str, dict[str, float]] = {"base": {"accuracy": float(ok.mean()), "failures": len(failures),
                                                  "wrong labels": int(wrong.sum())}}  # fmt: skip
    scores: dict[str, np.ndarray] = {"oracle": wrong.astype(float)}
    for name, method in IDENTIFY.items():
        start = time.perf_counter()
        try:
            found = identify(net, (x, y), part("query"), remaining=part("guard"), method=method, batch_size=1024)
        except NotConverged as e:
            print(f"seed {seed}, {name}: {e}", flush=True)
            rows[f"identify: {name}"] = {}
            continue
        row = {"seconds": time.perf_counter() - start}
        if found.edited is not None and "linear" not in name and "gradient" not in name:
            row |= accuracies(found.train.network.module_with(found.edited.mean, net))
        for label, s in ((name, found.scores), (f"{name}, times loss", found.raw * -found.before)):
            scores[label] = s
            rows[f"identify: {label}"] = {
                **row, "AP": average_precision(s, wrong), "AUC": ranking_area(s, wrong),
                "P@100": precision_at(100, s, wrong),
            }  # fmt: skip

    k = round(SHARE * len(x))
    best = np.argsort(-scores["functional on remaining, .01, times loss"])[:k]
    causes = {
        "nothing": np.zeros(0, dtype=int), "random": rng.permutation(len(x))[:k], "oracle": np.flatnonzero(wrong),
        **{name: np.argsort(-scores[name])[:k] for name in (
            "loss, blind to the failures", "gradient dot product", "ewc", "ewc, times loss",
            "functional on remaining, .01", "functional on remaining, .01, times loss")},
    }  # fmt: skip
    plan = {f"fine-tune on D∖C, C: {name}": (c, methods.fine_tune()) for name, c in causes.items()}
    plan |= {
        "fine-tune on D∖C and the query": (best, methods.fine_tune(learn=True)),
        "newton, CG, damping 100": (best, methods.newton(CG(damping=100.0))),
        "newton, CG, damping 100, gamma 3/N": (best, methods.newton(CG(damping=100.0), gamma=3 / len(x))),
        "ewc, guarded": (best, methods.ewc()),
        "ewc, bounded deletion": (best, methods.ewc(bounded=True)),
        "functional on D, .1, guarded": (best, methods.functional(0.1, on_train=True, on_remaining=False)),
        "functional on both, .1, bounded": (best, methods.functional(0.1, on_train=True, bounded=True)),
    }
    for name, (c, method) in plan.items():
        start = time.perf_counter()
        model = treat(net, (x, y), c, failures=part("query"), remaining=part("guard"), method=method, batch_size=1024)
        rows[f"treat: {name}"] = {"seconds": time.perf_counter() - start, **accuracies(model)}
    return rows


def table(results: list[dict[str, dict[str, float]]], prefix: str, columns: list[str]) -> str:
    """Mean ± standard deviation over the seeds, as markdown."""
    lines = [f"| {prefix[:-2]} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in (n for n in results[0] if n.startswith(prefix)):
        cells = []
        for column in columns:
            values = [r[name][column] for r in results if column in r[name]]
            digits = 1 if column == "seconds" else 3
            cells.append(f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}" if values else "-")
        lines.append(f"| {name[len(prefix) :]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="npz with x_train, y_train, x_test, y_test")
    ask.add_argument("--seeds", type=int, default=5)
    ask.add_argument("--flips", choices=list(FLIPS), default="one-way")
    ask.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ask.add_argument("--out", help="write OUT.md and OUT.json")
    args = ask.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    data = dict(np.load(args.data))
    results = []
    for seed in range(args.seeds):
        results.append(one_seed(data, FLIPS[args.flips], seed, args.device))
        print(f"seed {seed}: {results[-1]['base']}", flush=True)
    base = [r["base"] for r in results]
    text = "\n\n".join([
        f"{args.seeds} seeds; base accuracy {np.mean([b['accuracy'] for b in base]):.3f} ± "
        f"{np.std([b['accuracy'] for b in base]):.3f}; {np.mean([b['failures'] for b in base]):.0f} failures; "
        f"{np.mean([b['wrong labels'] for b in base]):.0f} wrong labels of 3,000.",
        table(results, "identify: ", ["AP", "AUC", "P@100", "query", "holdout", "remaining", "seconds"]),
        table(results, "treat: ", ["query", "holdout", "remaining", "seconds"]),
    ])  # fmt: skip
    print(text)
    if args.out:
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{args.out}.md").write_text(text + "\n")
        Path(f"{args.out}.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
