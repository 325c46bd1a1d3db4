"""Other tools that rank training examples, as installed from PyPI, compared with amends on the same models in one run.

    make bench

creates an environment with them in .venv-bench, and one for pyDVL, which needs an older numpy, in .venv-pydvl, and runs

    python benchmarks/peers.py --data .cache/data --settings "C, MLP" "C, CNN" --seeds 0 1 2

Each tool ranks all of D by how much each example conflicts with the failures a search is given. It runs in a process of
its own with one thread. Measured are processor seconds and private memory beyond the model and the data, imports not
counted, and the average precision of the wrong labels. A tool uses its own defaults where it has them. One that cannot
be run is listed with the reason.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

HERE = Path(__file__).parent
BATCH = 256


class Given(NamedTuple):
    """A model, its training set, which of its labels are wrong, the failures searched with, and right examples."""

    net: nn.Module
    train: tuple[Tensor, Tensor]
    wrong: Any
    query: tuple[Tensor, Tensor]
    guard: tuple[Tensor, Tensor]

    def loader(self, name: str) -> DataLoader[Any]:
        return DataLoader(TensorDataset(*getattr(self, name)), batch_size=BATCH)

    def few(self) -> Given:
        small = {name: tuple(t[:64] for t in getattr(self, name)) for name in ("train", "query", "guard")}
        return self._replace(net=deepcopy(self.net), **small)

    @property
    def last(self) -> nn.Linear:
        return [m for m in self.net.modules() if isinstance(m, nn.Linear)][-1]


def of_amends(name: str, solver: str | None = None) -> Callable[[Given, Path], Tensor]:
    def rank(given: Given, folder: Path) -> Tensor:
        import amends

        method = amends.methods.named(name, solver)
        influence = amends.identify(given.net, given.train, given.query, given.guard, method=method, batch_size=BATCH)
        return torch.as_tensor(influence.scores)

    return rank


def captum_tracin(given: Given, folder: Path) -> Tensor:
    """One checkpoint, the last layer: its tutorial calls this the fast variant."""
    influence: Any = importlib.import_module("captum.influence")
    torch.save(given.net.state_dict(), folder / "net.pt")
    tool = influence.TracInCPFast(
        given.net, given.last, TensorDataset(*given.train), [str(folder / "net.pt")], _loaded,
        nn.CrossEntropyLoss(reduction="sum"), BATCH,
    )  # fmt: skip
    return -tool.influence(given.query).sum(0)


def captum_arnoldi(given: Given, folder: Path) -> Tensor:
    arnoldi: Any = importlib.import_module("captum.influence._core.arnoldi_influence_function")
    torch.save(given.net.state_dict(), folder / "net.pt")
    tool = arnoldi.ArnoldiInfluenceFunction(
        given.net, TensorDataset(*given.train), str(folder / "net.pt"), _loaded,
        loss_fn=nn.CrossEntropyLoss(reduction="none"), batch_size=BATCH,
    )  # fmt: skip
    return -tool.influence(given.query).sum(0)


def _loaded(net: nn.Module, path: str) -> float:
    net.load_state_dict(torch.load(path, weights_only=True))
    return 1.0


def kronfluence_ekfac(given: Given, folder: Path) -> Tensor:
    analyzer: Any = importlib.import_module("kronfluence.analyzer")
    arguments: Any = importlib.import_module("kronfluence.arguments")
    base: Any = importlib.import_module("kronfluence.task").Task

    class Classes(base):
        def compute_train_loss(self, batch: Any, model: nn.Module, sample: bool = False) -> Tensor:
            logits, y = model(batch[0]), batch[1]
            if sample:
                with torch.no_grad():
                    y = torch.multinomial(logits.softmax(-1), 1).flatten()
            return nn.functional.cross_entropy(logits, y, reduction="sum")

        def compute_measurement(self, batch: Any, model: nn.Module) -> Tensor:
            return self.compute_train_loss(batch, model)

    task = Classes()
    tool = analyzer.Analyzer(
        "peers", analyzer.prepare_model(given.net, task), task, cpu=True, output_dir=str(folder), disable_tqdm=True
    )
    train, query = TensorDataset(*given.train), TensorDataset(*given.query)
    tool.fit_all_factors("f", train, per_device_batch_size=BATCH, factor_args=arguments.FactorArguments("ekfac"))
    tool.compute_pairwise_scores(
        "s", "f", query, train, per_device_query_batch_size=BATCH, per_device_train_batch_size=BATCH,
        score_args=arguments.ScoreArguments(aggregate_query_gradients=True),
    )  # fmt: skip
    return -tool.load_pairwise_scores("s")["all_modules"].sum(0)


def trak(given: Given, folder: Path) -> Tensor:
    """One model, and 2,048 projected dimensions, its default. With few examples there are fewer, since it inverts their
    second moment."""
    size = len(given.train[1])
    tool = importlib.import_module("trak").TRAKer(
        model=given.net, task="image_classification", train_set_size=size, save_dir=str(folder),
        device="cpu", proj_dim=min(2048, size // 250 * 100), use_half_precision=False, logging_level=40,
    )  # fmt: skip
    state = given.net.state_dict()
    tool.load_checkpoint(state, model_id=0)
    for batch in given.loader("train"):
        tool.featurize(batch=batch, num_samples=len(batch[1]))
    tool.finalize_features()
    tool.start_scoring_checkpoint("peers", state, model_id=0, num_targets=len(given.query[1]))
    for batch in given.loader("query"):
        tool.score(batch=batch, num_samples=len(batch[1]))
    return -torch.as_tensor(tool.finalize_scores("peers")).sum(1)


def dattri_with(name: str, **options: Any) -> Callable[[Given, Path], Tensor]:
    def rank(given: Given, folder: Path) -> Tensor:
        algorithm: Any = importlib.import_module("dattri.algorithm")

        def loss(params: Any, data: Any) -> Tensor:
            x, y = (
                t.unsqueeze(0) if t.ndim == n else t for t, n in zip(data, (given.train[0].ndim - 1, 0), strict=True)
            )
            return nn.functional.cross_entropy(torch.func.functional_call(given.net, params, (x,)), y)

        task = importlib.import_module("dattri.task").AttributionTask(loss, given.net, given.net.state_dict())
        tool = getattr(algorithm, name)(task, device="cpu", **options)
        train, query = given.loader("train"), given.loader("query")
        if hasattr(tool, "cache"):
            tool.cache(train)
        return -torch.as_tensor(tool.attribute(train, query)).detach().sum(1)

    return rank


def pydvl_with(name: str, takes_loss: bool, **options: Any) -> Callable[[Given, Path], Tensor]:
    def rank(given: Given, folder: Path) -> Tensor:
        kinds: Any = importlib.import_module("pydvl.influence.torch")
        loss = {"loss": nn.functional.cross_entropy} if takes_loss else {}
        tool = getattr(kinds, name)(given.net, **loss, **options).fit(given.loader("train"))
        return -tool.influences(*given.query, *given.train).detach().sum(0)

    return rank


TOOLS: dict[str, tuple[str, Callable[[Given, Path], Tensor]]] = {
    "amends, default": ("amends", of_amends("default")),
    "amends, functional": ("amends", of_amends("functional")),
    "amends, linear with EK-FAC": ("amends", of_amends("linear", solver="ekfac")),
    "amends, grad_dot": ("amends", of_amends("grad_dot")),
    "captum, TracInCPFast": ("captum", captum_tracin),
    "captum, Arnoldi": ("captum", captum_arnoldi),
    "kronfluence, EK-FAC": ("kronfluence", kronfluence_ekfac),
    "TRAK": ("traker", trak),
    "dattri, CG": ("dattri", dattri_with("IFAttributorCG", regularization=1e-2)),
    "dattri, EK-FAC": ("dattri", dattri_with("IFAttributorEKFAC", damping=1e-3)),
    "pyDVL, EK-FAC": ("pydvl", pydvl_with("EkfacInfluence", False, update_diagonal=True, hessian_regularization=1e-3)),
    "pyDVL, Arnoldi": ("pydvl", pydvl_with("ArnoldiInfluence", True, regularization=1e-2)),
}
ASKED = ("captum", "kronfluence", "traker", "dattri", "pydvl")
OLDER = HERE.parent / ".venv-pydvl/bin/python"  # the environment for tools that need an older numpy


def one(file: Path, name: str) -> dict[str, Any]:
    """Run one tool on one model and measure it. Called in a process of its own."""
    from amends.evaluation.rankings import average_precision
    from benchmarks.scaling import Private

    torch.set_num_threads(1)
    given: Given = Given(*torch.load(file, weights_only=False))
    package, rank = TOOLS[name]
    importlib.import_module({"traker": "trak"}.get(package, package))
    with tempfile.TemporaryDirectory() as folder, suppress(Exception):  # a warm-up: what is loaded on first use
        rank(given.few(), Path(folder))
    with tempfile.TemporaryDirectory() as folder, Private() as memory:
        torch.manual_seed(0)
        start = time.process_time()
        scores = rank(given, Path(folder))
        spent = time.process_time() - start
    assert scores.isfinite().all(), "its scores are no numbers"
    return {"processor seconds": spent, "private": memory.most - memory.start,
            "AP": average_precision(scores.detach().cpu().double().numpy(), given.wrong)}  # fmt: skip


def measured(file: Path, name: str) -> dict[str, Any]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE}"}
    command = [str(python_for(TOOLS[name][0])), __file__, "--one", str(file), name]
    out = subprocess.run(command, capture_output=True, text=True, env=env)
    if out.returncode:
        return {"failed": (out.stderr.strip().splitlines() or ["no word"])[-1]}
    return json.loads(out.stdout.splitlines()[-1])


def python_for(package: str) -> Path:
    return OLDER if package == "pydvl" and OLDER.exists() else Path(sys.executable)


def versions() -> None:
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    for package in ASKED:
        process = subprocess.run([python_for(package), "-c", code, package], capture_output=True, text=True)
        print(f"{package} {process.stdout.strip() or 'is not installed'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".cache/data"))
    parser.add_argument("--settings", nargs="+", default=["C, MLP", "C, CNN"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=list(TOOLS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(Path(args.one[0]), args.one[1])))
        return
    sys.path.insert(0, str(HERE))
    from settings import SETTINGS
    from sources import Data

    versions()
    torch.set_num_threads(1)
    for setting in args.settings:
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in args.only}
        for seed in args.seeds:
            world = SETTINGS[setting](Data(str(args.data)), seed, "cpu")
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "world.pt"
                torch.save((world.net, world.train, world.wrong, world.sets["query"], world.sets["guard"]), file)
                for name in args.only:
                    rows[name].append({"setting": setting, "seed": seed, "tool": name, **measured(file, name)})
                    print(json.dumps(rows[name][-1]), flush=True)
        show(setting, rows)


def show(setting: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    print(f"\n{setting}\n| tool | average precision | processor seconds | private memory, MB |\n|---|---|---|---|")
    for name, results in rows.items():
        if any("failed" in row for row in results):
            print(f"| {name} | not run: {next(row['failed'] for row in results if 'failed' in row)} | | |")
            continue
        values = [[row[key] for row in results] for key in ("AP", "processor seconds", "private")]
        spread = statistics.stdev(values[0]) if len(results) > 1 else 0.0
        means = [statistics.mean(v) for v in values]
        print(f"| {name} | {means[0]:.3f} ± {spread:.3f} | {means[1]:.2f} | {means[2] / 1e6:.0f} |")


if __name__ == "__main__":
    main()
