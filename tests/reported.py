"""Small repairs of pictures, texts and rows, saved as run folders: what a report is made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import amends
from amends.data import flip_labels
from amends.data.records import Records
from tests.worlds import planted_digits

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NASTY = "<script>alert(\"boo\")</script> & <b>bold</b> 'quoted'"


def fitted(net, x, y, epochs=30):
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def repaired(net, train, failures, remaining, wrong, **options):
    """Scores that know most of the wrong labels, so that only treating takes time; without the warning of them."""
    scores = 20 * wrong + 5 * np.random.default_rng(0).random(len(wrong))
    made = amends.repair(
        net, train, failures, remaining, identify_with=scores, remove=int(wrong.sum()), learn=False,
        treat_with=amends.methods.fine_tune(epochs=10), **options,
    )  # fmt: skip
    made.metrics["warnings"] = [w for w in made.metrics["warnings"] if not w.startswith("the scores were made")]
    return made


def pictures() -> amends.Repair:
    """Digits with a pair of copies among the causes, a set to keep, and failures that look doubtful."""
    torch.set_num_threads(1)
    net, (x, y), failures, remaining, wrong = planted_digits()
    twice = np.flatnonzero(wrong)[:2]
    x = x.clone()
    x[twice[1]] = x[twice[0]]

    def square(part):
        return Records(part[0].view(-1, 1, 8, 8), part[1], classes=DIGITS)

    kept = (remaining[0][:50].view(-1, 1, 8, 8), remaining[1][:50])
    result = repaired(
        nn.Sequential(nn.Flatten(), *net), square((x, y)), square(failures), square(remaining), wrong,
        keep={"old customers": kept},
    )  # fmt: skip
    result.metrics["suspects"] = result.query_positions[:3].tolist()
    return result


def texts() -> amends.Repair:
    """Reviews of a few words, one of them with markup in it."""
    rng = np.random.default_rng(0)
    said = {1: ["warm", "funny", "clever", "moving", "bright"], 0: ["dull", "flat", "loud", "empty", "tired"]}
    common = ["film", "plot", "actor", "scene", "music", "story", "ending", "camera"]
    vocabulary = [*said[0], *said[1], *common]
    y = rng.integers(0, 2, 320)
    chosen = [[*rng.choice(said[k], 2), *rng.choice(common, 4)] for k in y]
    x = torch.tensor([[float(w in line) for w in vocabulary] for line in chosen])
    text = np.array([" ".join(line) for line in chosen], dtype=object)
    given, wrong = flip_labels(y[:160], {(1, 0): 0.6}, 0)
    text[np.flatnonzero(wrong)] = [f"{NASTY} {t}" for t in text[np.flatnonzero(wrong)]]
    net = fitted(
        nn.Sequential(nn.Linear(len(vocabulary), 16), nn.ReLU(), nn.Linear(16, 2)), x[:160], torch.tensor(given)
    )
    return _of(net, x, y, given, wrong, {"text": text}, ("<i>poor</i>", "good"))


def rows() -> amends.Repair:
    """Tumours by their measurements."""
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))
    raw, y = data.data[order], data.target[order].astype(np.int64)
    x = torch.tensor((raw - raw.mean(0)) / raw.std(0), dtype=torch.float32)
    given, wrong = flip_labels(y[:250], {(0, 1): 0.45}, 0)
    net = fitted(nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2)), x[:250], torch.tensor(given))
    names, features = (tuple(map(str, values)) for values in (data.target_names, data.feature_names))
    return _of(net, x, y, given, wrong, {"id": np.array([f"P{i:03d}" for i in order])}, names, features)


def _of(net, x, y, given, wrong, columns, classes, features=()):
    n = len(given)
    with torch.no_grad():
        right = net(x[n:]).argmax(1).numpy() == y[n:]
    sets = [Records(x[:n], torch.tensor(given), {k: v[:n] for k, v in columns.items()}, classes, features)]
    pool = Records(x[n:], torch.tensor(y[n:]), {k: v[n:] for k, v in columns.items()}, classes, features)
    return repaired(net, *sets, pool[np.flatnonzero(~right)], pool[np.flatnonzero(right)], wrong)


def saved(result: amends.Repair, folder: Path) -> Path:
    result.save(folder)
    return folder
