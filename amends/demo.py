"""A repair from end to end on real digits: what `amends demo` runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends.data import digits, flip_labels
from amends.errors import BadInput
from amends.methods import Default, Method, Scorer, fine_tune
from amends.models.loaded import write_weights
from amends.remember import Data
from amends.report.pictures import curve_picture, image_grid
from amends.runs.disk import on_disk, writable
from amends.runs.manifest import strangers, write_run
from amends.workflow.repair import Repair, repair
from amends.workflow.store import Origin, write_repair

CONFUSION = {(1, 7): 0.35, (9, 4): 0.35, (3, 5): 0.35, (6, 0): 0.35}
TRAIN = 3000


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything the demo shows."""

    repair: Repair
    model: nn.Module  # as it failed
    images: np.ndarray  # of train
    given: np.ndarray
    true: np.ndarray
    accuracy: float
    pairs: list[tuple[str, int]]  # failures by (true → predicted), most first
    trains: bool  # whether the treatment goes on training


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def trained(x: Tensor, y: Tensor, seed: int, epochs: int = 8) -> nn.Module:
    """Without touching the caller's random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = small_cnn()
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(64):
                optimiser.zero_grad()
                nnf.cross_entropy(net(x[batch]), y[batch]).backward()
                optimiser.step()
    return net.eval()


def run(
    seed: int, method: Method | Scorer | Default, treatment: Method | Default, progress: bool | None = None
) -> Demo:
    images, labels = digits()
    order = np.random.default_rng(seed).permutation(len(images))
    train, test = order[:TRAIN], order[TRAIN:]
    true = labels.astype(np.int64)
    given, _ = flip_labels(true[train], CONFUSION, seed)
    pixels = images / 255.0
    x = torch.tensor(pixels - pixels[train].mean(), dtype=torch.float32)[:, None]
    y = torch.tensor(true)

    model = trained(x[train], torch.tensor(given), seed)
    chosen = fine_tune(epochs=5) if isinstance(treatment, Default) else treatment
    with torch.no_grad():
        predicted = model(x[test]).argmax(1).numpy()
    wrong = predicted != true[test]
    failures, remaining = test[wrong], test[~wrong]
    result = repair(
        model, (x[train], given), (x[failures], y[failures]), (x[remaining], y[remaining]),
        identify_with=method, treat_with=chosen,
        seed=seed, progress=progress,
    )  # fmt: skip
    names, counts = np.unique(
        [f"{t}→{p}" for t, p in zip(true[failures], predicted[wrong], strict=True)], return_counts=True
    )
    pairs = sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda p: -p[1])
    return Demo(
        result, model, images[train], given, true[train], float((~wrong).mean()), pairs,
        isinstance(chosen.remember, Data),
    )  # fmt: skip


def check_out(out: Path) -> None:
    """Only an earlier demo may be replaced; anything else in the way is the user's. Found before anything is computed:
    nothing can be written there."""
    with on_disk(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    writable(out.parent)
    if not out.exists():
        return
    if not out.is_dir():
        raise BadInput(f"this is a file, not a folder; {out}; choose another with --out")
    if not any(out.iterdir()):
        return
    if not (out / "strongest.png").exists():
        what = "a run that is" if (out / "run.toml").exists() else f"{min(p.name for p in out.iterdir())}, which is"
        raise BadInput(f"the folder holds {what} not a demo; {out}; choose another with --out")
    strange = strangers(out)
    if strange:
        raise BadInput(f"the folder holds {strange[0]}, which amends did not write; {out}; choose another with --out")


def save(demo: Demo, out: Path) -> None:
    scores = demo.repair.influence.scores
    strongest, least = np.argsort(-scores, kind="stable")[:16], np.argsort(scores, kind="stable")[:16]

    def fill(folder: Path) -> None:
        write_repair(demo.repair, Origin(out.name, demo.repair.metrics["seed"]), folder)
        for name, chosen, title in (
            ("strongest.png", strongest, "The 16 strongest causes"),
            ("least_harmful.png", least, "The 16 least harmful examples"),
        ):
            notes = [f"given {demo.given[i]}, true {demo.true[i]}" for i in chosen]
            image_grid(folder / name, demo.images[chosen], notes, title, demo.given[chosen] != demo.true[chosen])
        (folder / "failing").mkdir()
        write_weights(demo.model, folder / "failing")
        curve_picture(folder / "curve.png", demo.repair.metrics["curve"], demo.repair.metrics["removed"])

    write_run(out, fill, replace=True)
