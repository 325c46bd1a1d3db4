"""SISA (Bourtoule et al. 2021): several networks, each trained on a part of D, so that forgetting retrains only a few.

D is split into shards. One network is trained on each, and their probabilities are averaged. To forget C, the shards
that contain some of C are trained anew without it, which is exact. SISA needs networks trained this way from the start
and cannot treat the one that failed: it is a row to compare with. Slices inside a shard only save time and are left
out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from amends.evidence.averaged import Averaged
from experiments.protocol import Case, trained
from experiments.running import GivenUp

SHARDS = 5


def dealt(n: int, shards: int, seed: int) -> np.ndarray:
    """The shard of each example. Shards differ in size by at most one example."""
    return np.random.default_rng([seed, 7]).permutation(n) % shards


def without(case: Case, causes: np.ndarray, shards: int = SHARDS) -> nn.Module:
    """The averaged networks of all shards once the causes are forgotten."""
    if case.about.large:
        raise GivenUp(f"{shards} large networks would be trained")
    data, seed = case.data, case.data.start.seed
    shard_of, kept = dealt(len(case.wrong), shards, seed), np.ones(len(case.wrong), bool)
    kept[causes] = False
    networks = []
    for shard in range(shards):
        own = kept & (shard_of == shard)
        part = replace(data, train=(data.train[0][own], data.train[1][own]), mask=data.mask[own], true=data.true[own])
        networks.append(trained(part, seed + 5000 * (shard + 1))[0])
    return Averaged(networks, classes=True).eval()
