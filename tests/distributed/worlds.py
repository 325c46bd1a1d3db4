"""What the processes of a group compute in a test. Every function here is called in each of them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import amends
from amends.algorithm.curve import Curve
from amends.config.read import Config
from amends.curvature import EKFAC, GGN, Dense, Diagonal, Kronecker, Sampled
from amends.data.formats import pieces
from amends.distributed.group import alone, broadcast, by_first, dealt, rank, spread, world
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.evidence.prepare import prepare
from amends.models.loaded import Loaded
from amends.workflow.job import read_set
from tests.distributed.processes import sha256
from tests.worlds import planted_digits, turned_corner

BATCH = 7  # 157 examples: 23 batches, the last of 3; 6 shards, the last of 3 batches


def corner():
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(157, 4)
    return net, (x, torch.randint(0, 3, (157,)))


def factor() -> Factor:
    net, train = corner()
    return prepare(net, None, None, BATCH, train=train)["train"]


def sums() -> dict[str, str]:
    """A hash of everything that is summed over D, and of everything that is a row of it."""
    data = factor()
    theta = data.network.params
    value, grad = data.value_and_grad(theta)
    with torch.no_grad():
        found = {
            "gradient": sha256(value, flatten(grad)),
            "Fisher": sha256(flatten(Diagonal(GGN())(data, theta).data)),
            "Fisher, sampled": sha256(flatten(Diagonal(Sampled(2, seed=3))(data, theta).data)),
            "Kronecker": sha256(Kronecker(GGN())(data, theta).dense()),
            "EKFAC": sha256(EKFAC(GGN())(data, theta).dense()),
            "dense": sha256(Dense(GGN())(data, theta).dense()),
            "Hessian": sha256(data.hessian(theta)),
            "rows": sha256(data.per_example(theta), data.outputs(theta)),
        }
    return found


def one_fit() -> tuple[str, int]:
    """A hash of a fine-tuned model, and how many batches were computed here; a step is 64 examples, a batch 7."""
    net, train = corner()
    whole, seen = Network.log_prob, [0]

    def counted(*args):
        seen[0] += 1
        return whole(*args)

    Network.log_prob = counted
    try:
        method = amends.methods.fine_tune(batch=64, epochs=3)
        treated = amends.treat(net, train, [0, 3, 5], method=method, batch_size=BATCH)
    finally:
        Network.log_prob = whole
    return sha256(flatten(dict(treated.named_parameters())).detach()), seen[0]


def spread_fit(wide: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Fine-tuned weights and scores of an edit where steps are spread, and how many examples the fit computed here; a
    step is 64 examples, less than one batch."""
    net, (x, y) = corner()
    net, x = (net.double(), x.double()) if wide else (net, x)
    whole, seen = Network.log_prob, [0]

    def counted(network, theta, x, y):
        seen[0] += len(y)
        return whole(network, theta, x, y)

    Network.log_prob = counted
    try:
        with spread():
            method = amends.methods.fine_tune(batch=64, epochs=3)
            treated = amends.treat(net, (x, y), [0, 3, 5], method=method)
            steps = seen[0]
            failures = (x[:40], (y[:40] + 1) % 3)
            edited = amends.identify(net, (x, y), failures, (x[40:], y[40:]), method=amends.methods.functional())
    finally:
        Network.log_prob = whole
    return flatten(dict(treated.named_parameters())).detach().numpy(), edited.scores, steps


def identified() -> dict[str, str]:
    """A hash of the scores of several methods."""
    net, train, failures, remaining = turned_corner()[:4]
    chosen = {
        "ewc": amends.methods.ewc(),
        "functional": amends.methods.functional(),
        "grad_dot": amends.methods.grad_dot(),
    }
    return {
        name: sha256(amends.identify(net, train, failures, remaining, method=method, batch_size=BATCH).scores)
        for name, method in chosen.items()
    }


def everything() -> dict[str, str]:
    return sums() | identified()


def whole_repair() -> dict[str, str]:
    """A hash of the Fisher, the scores, the causes, the metrics and the weights of a repair of 97 examples."""
    net, (x, y), failures, remaining = turned_corner()[:4]
    train, ewc, tune = (x[:97], y[:97]), amends.methods.ewc(), amends.methods.fine_tune(rate=1e-2)
    data = prepare(net, None, None, BATCH, train=train)["train"]
    with torch.no_grad():
        fisher = Diagonal(GGN())(data, data.network.params).data
    ask = {"identify_with": ewc, "treat_with": tune, "remove": 20, "learn": False, "batch_size": BATCH}
    result = amends.repair(net, train, failures, remaining, **ask)
    return {"Fisher": sha256(flatten(fisher)), "verdict": result.verdict, **_marks(result)}


def _marks(result: amends.Repair) -> dict[str, str]:
    return {
        "scores": sha256(result.influence.scores),
        "causes": sha256(result.causes.to_csv()),
        "metrics": sha256(result.metrics),
        "weights": sha256(flatten(result.after)),
    }


def two_shards() -> str:
    data = factor()[: 4 * BATCH + 1]
    with torch.no_grad():
        rows = data.per_example(data.network.params)
    return sha256(flatten(data.value_and_grad(data.network.params)[1]), rows)


def spread_pair() -> list[float]:
    """A sum over two examples: one process has none of them."""
    data = factor()[:2]
    with spread():
        value, grad = data.value_and_grad(data.network.params)
    return [round(float(value), 5), *(round(v, 4) for v in flatten(grad).tolist())]


def left_alone() -> str:
    """Rank 1 goes without a word; rank 0 waits for it."""
    data = factor()
    if rank():
        return ""
    try:
        data.value_and_grad(data.network.params)
        return "nobody was lost"
    except amends.errors.WorkerLost as e:
        return str(e)


def repaired() -> dict[str, str]:
    """A hash of the scores, the causes, the metrics and the weights of a repair with every choice left to amends."""
    model, train, failures, remaining, _ = planted_digits()
    result = amends.repair(model, train, failures, remaining, budget="quick", batch_size=16)
    return {"verdict": result.verdict, **_marks(result)}


def shares() -> tuple[int, int, int]:
    """How many batches this process computed in one pass over D, of how many in all; and its rank."""
    data, seen = factor(), []
    data.rows(lambda at, x, y: seen.append(at) or y)
    with torch.no_grad():
        data.rows(lambda at, x, y: seen.append(at) or y)
    return len(seen), sum(1 for _ in data.tiles()), rank()


def led(folder: str) -> tuple:
    """What happens once happens in one process, alone, and all of them hear of it."""

    @by_first
    def write() -> tuple[int, int]:
        with open(os.path.join(folder, "log"), "a") as log:
            log.write("once\n")
        return world(), rank()

    @by_first
    def fail() -> None:
        raise amends.errors.BadInput("no; here; do it")

    try:
        fail()
        said = ""
    except amends.errors.BadInput as e:
        said = str(e)
    with alone():
        single = world()
    return write(), said, broadcast(f"from {rank()}"), single


def shared_fits() -> tuple:
    """Who did which work, what all of them hear of it, and of the first that failed."""
    done: list[int] = []

    def work(i: int) -> dict:
        done.append(i)
        assert world() == 1
        if i == 4:
            raise amends.errors.NonFinite(f"work {i}")
        return {"i": i, "theta": torch.full((2,), float(i))}

    found = dealt([partial(work, i) for i in range(4)])
    try:
        dealt([partial(work, i) for i in (4, 3)])
        said = ""
    except amends.errors.NonFinite as e:
        said = str(e)
    return done, [row["i"] for row in found], torch.stack([row["theta"] for row in found]).tolist(), said


def refitted() -> tuple:
    """A repair whose chosen size and control are fitted three times: its hash, and how many fits were made here."""
    model, train, failures, remaining, _ = planted_digits()
    made: list[int] = []
    fit = Curve.fit
    Curve.fit = lambda self, *given: made.append(1) or fit(self, *given)
    try:
        ask = {"remove": 30, "treat_with": amends.methods.fine_tune(epochs=2), "learn": False}
        identify = amends.methods.functional()
        result = amends.repair(model, train, failures, remaining, identify_with=identify, batch_size=16, **ask)
    finally:
        Curve.fit = fit
    return sha256(result.metrics, flatten(result.after)), len(made)


def read_together(path: str, another: int) -> tuple:
    """A table that is read in pieces: a hash of it, how many temporary files were made here, and what is said of a row
    far down. Rank `another` finds that the file it opens is not the one it was broadcast of."""
    pieces.PIECE = pieces.WHOLE = 4000
    made, whole = [], pieces.tempfile.TemporaryFile
    pieces.tempfile.TemporaryFile = lambda: made.append(1) or whole()
    if rank() == another:
        pieces._which = lambda _: (0, 0)
    config = Config(
        {"train": {"path": path, "mean": [0.0]}, "failures": {"path": path, "classes": ["cat"]}}, Path(), ""
    )
    loaded = Loaded(model=nn.Linear(3, 2), write=lambda *_: None)
    data = read_set(config, "train", loaded)
    files = len(made)
    try:
        read_set(config, "failures", loaded)
        said = ""
    except amends.errors.BadInput as e:
        said = str(e)
    assert data.stored is not None
    return sha256(np.array(data.stored), data.y, data.columns["id"].tolist()), files, said


def other_weights() -> object:
    """Each process brings a model of its own."""
    net, train = corner()
    torch.manual_seed(rank())
    net[0].reset_parameters()
    return amends.identify(net, train, (train[0][:9], (train[1][:9] + 1) % 3), method=amends.methods.grad_dot())


def more_data() -> object:
    """Rank 1 has one example less."""
    net, (x, y) = corner()
    train = (x[rank() :], y[rank() :])
    return amends.identify(net, train, (x[:9], (y[:9] + 1) % 3), method=amends.methods.grad_dot())


def summed_by_hand() -> np.ndarray:
    """The gradient as a shard after a shard gives it, in float64: what any number of processes must give."""
    data = factor()
    theta = data.network.params
    total = torch.zeros_like(flatten(theta), dtype=torch.float64)
    for start in range(0, 157, 4 * BATCH):
        part = data[start : start + 4 * BATCH]
        total += flatten(part.value_and_grad(theta)[1]).double()
    return total.float().numpy()
