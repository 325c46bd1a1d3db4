"""Where a path ends: its last point, its best under a watch, or the last a guard allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from amends.editors import Guard, HeldOut, Mode, Right, follow, harmless
from amends.editors.climb import Adam
from amends.errors import NonFinite
from amends.evidence.params import scaled
from amends.posteriors import Point


def points(*values):
    return iter([Point({"x": torch.tensor([float(v)])}) for v in values])


def value(posterior):
    return float(posterior.mean["x"])


def test_follow_takes_the_last_without_a_watch():
    assert value(follow(points(0, 3, 1))) == 1


def test_follow_takes_the_best_and_the_latest_among_equals():
    assert value(follow(points(0, 3, 1), lambda p: value(p))) == 3
    assert value(follow(points(1, 2, 3), lambda p: 0.0)) == 3


def test_follow_can_refuse_every_step():
    assert value(follow(points(5, 1, 2), lambda p: value(p))) == 5
    assert value(follow(points(5, 7, 8), lambda p: None if value(p) > 5 else 0.0)) == 5


def test_follow_leaves_a_path_that_runs_away():
    seen = []

    def endless():
        i = 0
        while True:
            yield Point({"x": torch.tensor([float(-i)])})
            i += 1

    assert value(follow(endless(), lambda p: value(p), patience=4, progress=seen.append)) == 0
    assert seen == [0, 1, 2, 3]


RUNAWAY = Adam(rate=0.05, epochs=400, batch=100, every=1)


def test_deletion_has_no_optimum_and_the_guard_ends_it(fitted):
    data, q = fitted
    causes, kept = data[:20], data[20:]
    free = follow(Mode(unlearn=RUNAWAY)(q, -causes))
    guard = Guard.since(q, [kept], floor=0.05)
    held = follow(Mode(unlearn=RUNAWAY)(q, -causes), guard)
    right = Right(kept)
    assert right(free) < right(q) - 0.1, "unguarded, it breaks what worked"
    assert right(held) >= right(q) - 0.05
    before, after = (float(p.rows(causes.per_example).mean()) for p in (q, held))
    assert after < before, "and still it forgets"


def test_a_guard_prefers_what_fixes_more(fitted):
    """Of the first 60 points, the one the guard allows under which the wanted are most likely: not the start, and not
    the last that is allowed."""
    data, q = fitted
    wanted, kept = HeldOut(data[20:30]), Right(data[30:])
    path = list(Mode(unlearn=replace(RUNAWAY, rate=0.02, epochs=60))(q, -data[:4]))
    allowed = [i for i, p in enumerate(path) if kept(p) >= kept(q) - 0.2]
    best = max(allowed, key=lambda i: wanted(path[i]))
    assert 0 < best < allowed[-1]
    chosen = follow(iter(path), Guard.since(q, [data[30:]], 0.2, wanted), patience=60)
    assert chosen is path[best]


@pytest.mark.parametrize(("ends", "chosen", "tried"), [
    ([0.9, 0.5], 0, 1), ([0.1, 0.85, 0.9], 1, 2), ([0.1, 0.3, 0.2, 0.9], 1, 3), ([0.3, 0.2, 0.9], 0, 2),
    ([0.1, 0.3], 1, 2), ([None, 0.3, 0.2], 1, 3), ([0.3, None, 0.2], 0, 3), ([0.1], 0, 1),
])  # fmt: skip
def test_shorter_steps_as_long_as_they_help(fitted, ends, chosen, tried):
    """Ends are the trained weights, smaller: the smaller, the less is believed. Before, it was as much as with .8."""
    data, q = fitted
    made = []

    def way(size):
        made.append(size)
        if size is None:
            raise NonFinite("steps are too long")
        return Point(scaled(q.mean, size))

    log_p = Point(scaled(q.mean, 0.8)).rows(data.per_example).mean(0)
    after = harmless([lambda size=size: way(size) for size in ends], data, log_p)
    assert torch.equal(after.mean["weight"], scaled(q.mean, ends[chosen])["weight"])
    assert len(made) == tried


def test_no_steps_are_short_enough(fitted):
    data, _ = fitted

    def broken():
        raise NonFinite("steps are too long")

    with pytest.raises(NonFinite, match="too long"):
        harmless([broken, broken], data)
