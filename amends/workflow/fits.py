"""The fits of a round as files, each written as it is made: a repair that was stopped does not make them again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from amends.distributed.group import world
from amends.evidence.network import Network
from amends.evidence.params import Params
from amends.runs.manifest import add_to_run
from amends.workflow.checkpoint import read_weights_file, write_weights_file

FITS = "fits"
SHORT = 1.0  # seconds: a faster fit is not kept, it can be made again
LARGEST = 2**28  # bytes of the weights of one fit
MANY = 30  # fits of a round at most, nearly always
TABLES, ROW = 2**23, 400  # bytes of a run whatever its size, and of each training example


class KeptFits:
    """Called for each fit of a round in turn. A fit is recognised by its place, what it is made of, and the `recipe` of
    the repair; the order is always the same. If several processes share the fits, none is kept: each process makes
    only its own, and only the first has the run folder."""

    def __init__(self, run: Path, number: int, network: Network, recipe: str):
        self.run, self.number, self.network, self.recipe = run, number, network, recipe
        self.made = 0
        self.kept = world() == 1

    def __call__(self, of: bytes, fit: Callable[[], Params]) -> Params:
        digest = hashlib.sha256(self.recipe.encode() + b"\0" + of).hexdigest()[:16]
        name = Path(FITS) / f"{self.number + 1}-{self.made + 1:03d}-{digest}.safetensors"
        self.made += 1
        if self.kept and (self.run / name).exists():
            return read_weights_file(self.run / name, self.network)
        start = time.perf_counter()
        theta = fit()
        size = sum(v.numel() * v.element_size() for v in theta.values())
        if self.kept and time.perf_counter() - start >= SHORT and size <= LARGEST:
            add_to_run(self.run, lambda target: write_weights_file(theta, target / name))
        return theta


def needed(network: Network, examples: int, treated: bool) -> int:
    """Bytes that a run takes at most, by a rough guess: tables and report, edited weights, and if the model is treated
    the repaired weights and the fits on the way."""
    weights = sum(v.numel() * v.element_size() for v in network.module.state_dict().values())
    kept = MANY if weights <= LARGEST and treated else 0
    return TABLES + ROW * examples + (1 + treated + kept) * weights


def fit_files(run: Path) -> list[str]:
    """All fits of a run, to delete once the repair has ended."""
    return [path.relative_to(run).as_posix() for path in (run / FITS).glob("*.safetensors")]
