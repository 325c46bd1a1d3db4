"""Bounded deletion: it starts like deletion, and has an optimum."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from amends.editors import Mode, follow
from amends.editors.climb import LBFGS
from amends.evidence.factor import Bounded
from amends.evidence.params import flatten
from tests.conftest import factor


def test_bounded_deletion_starts_like_deletion(fitted):
    """Same gradient at the start, zero once forgotten."""
    data, q = fitted
    causes = data[:20]
    plain = (-causes).value_and_grad(q.mean)[1]
    bounded = Bounded.at(-causes, q.mean).value_and_grad(q.mean)[1]
    assert_close(flatten(bounded), flatten(plain), atol=1e-12, rtol=1e-12)
    far = {k: -30 * v for k, v in q.mean.items()}
    assert flatten(Bounded.at(-causes, q.mean).value_and_grad(far)[1]).norm() < flatten(plain).norm()


def test_bounded_deletion_has_an_optimum_that_lbfgs_finds(fitted):
    data, q = fitted
    ends = [follow(Mode(LBFGS(steps, tolerance=1e-7), bounded=True)(q, -data[:20])).mean for steps in (200, 400)]
    assert_close(ends[0], ends[1], atol=1e-4, rtol=0)
    terms = [*q.times(-data[:20])[:1], Bounded.at(-data[:20], q.mean)]
    grad = sum(flatten(t.value_and_grad(ends[1])[1]) for t in terms)
    start = sum(flatten(t.value_and_grad(q.mean)[1]) for t in terms)
    assert grad.norm() < 1e-4 * start.norm()


def test_mixed_evidence_is_bounded_only_where_it_deletes(fitted):
    data, q = fitted
    mixed = (-data[:10]) + factor(data.network, *data.examples.fetch(10, 15), "failures")
    end = follow(Mode(bounded=True)(q, mixed))
    assert not torch.equal(end.mean["weight"], q.mean["weight"])
    assert Mode(bounded=True).open_ended(q, mixed)
    assert not Mode(bounded=True).unbounded(q.times(mixed))
    assert Mode().unbounded(q.times(mixed))
