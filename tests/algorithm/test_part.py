"""The default in parts: each scores its rows of D, and together they are the decision of one process."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import amends
from amends.algorithm.part import identified_part, identified_together
from amends.errors import RunMismatch
from amends.evidence.prepare import prepare
from amends.methods import Default
from amends.progress import Progress
from amends.settings import DEFAULT
from tests.distributed.processes import sha256
from tests.worlds import turned_corner

BATCH = 16  # 100 examples: 7 batches, the last of 4


def ours(**trials) -> Default:
    usual = DEFAULT.identifying
    edits = replace(usual.edits, members=("grad_dot", "functional", "learned loss"), steps_held=5)
    chosen = replace(usual, edits=edits, trials=replace(usual.trials, **trials))
    return Default(settings=replace(DEFAULT, identifying=chosen))


def kept(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As a file gives them back."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def mark(found) -> str:
    return sha256(found.scores, found.raw, found.before, found.unseen, found.members, *found.edited.values())


@pytest.fixture(scope="module")
def world():
    net, train, failures, remaining, _ = turned_corner()
    given = prepare(net.float(), None, None, BATCH, train=_single(train), failures=_single(failures),
                    remaining=_single(remaining))  # fmt: skip
    return net, given


def _single(pair):
    return pair[0].float(), pair[1]


@pytest.mark.parametrize(("trials", "counts"), [({"sample": 60}, (1, 2, 3)), ({"whole": True}, (2,))])
def test_any_number_of_shards_gives_the_same_bits(trials, counts, world):
    """Members are weighed on a sample of D, or on all of it, with an edit that is shown all failures."""
    _, given = world
    sets, method = (given["failures"], given["remaining"]), ours(**trials)
    with torch.no_grad():
        whole = amends.algorithm.identify.identified(given["train"], *sets, method, 0, Progress()).identified
        for count in counts:
            ends = [min(100, BATCH * (7 * k // count)) for k in range(count + 1)]
            parts = [kept(identified_part(given["train"], *sets, method, 0, Progress(), slice(a, b))[0])
                     for a, b in pairwise(ends)]  # fmt: skip
            assert [len(p["scores_0_0"]) for p in parts] == np.diff(ends).tolist()
            assert mark(identified_together(parts, given["train"], *sets, method, 0, Progress())) == mark(whole)


def test_shards_whose_trials_ended_otherwise_are_refused(world):
    _, given = world
    sets = (given["failures"], given["remaining"])
    with torch.no_grad():
        a, b = (identified_part(given["train"], *sets, ours(), seed, Progress(), part)[0]
                for seed, part in ((0, slice(0, 48)), (1, slice(48, 100))))  # fmt: skip
        with pytest.raises(RunMismatch, match="gave different results in two shards; run all shards"):
            identified_together([a, b], given["train"], *sets, ours(), 0, Progress())
        with pytest.raises(RunMismatch, match="gives other results here than on the machines of"):
            identified_together([{**a, "mark": b["mark"]}, b], given["train"], *sets, ours(), 0, Progress())
