"""SISA (Bourtoule et al. 2021): networks that each learned a part of D, so that little is trained again to forget.

D is dealt into shards, a network learns each, and their probabilities are averaged. To forget C, the shards that hold
some of it are trained anew without it, which is exact. It asks for networks trained so from the start, and cannot treat
the one that failed: a row to compare with. Slices inside a shard only save time, and are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from amends.evidence.network import Averaged
from experiments.protocol import Case, trained
from experiments.running import GivenUp

SHARDS = 5


def dealt(n: int, shards: int, seed: int) -> np.ndarray:
    """The shard of each example; all are of the same size, but for one example."""
    return np.random.default_rng([seed, 7]).permutation(n) % shards


def without(case: Case, causes: np.ndarray, shards: int = SHARDS) -> nn.Module:
    """What the networks of all shards say together once the causes are forgotten."""
    if case.about.large:
        raise GivenUp(f"{shards} large networks would be trained")
    data, seed = case.data, case.data.start.seed
    home, kept = dealt(len(case.wrong), shards, seed), np.ones(len(case.wrong), bool)
    kept[causes] = False
    networks = []
    for shard in range(shards):
        at = kept & (home == shard)
        part = replace(data, train=(data.train[0][at], data.train[1][at]), mask=data.mask[at], true=data.true[at])
        networks.append(trained(part, seed + 5000 * (shard + 1))[0])
    return Averaged(networks, classes=True).eval()
