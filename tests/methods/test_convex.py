"""Every method against retraining, where retraining is exact. `python benchmarks/convex.py` prints it all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import convex

# Least rank correlation with leaving one out, and with leaving ten out: what is measured, less a
# margin for another machine's rounding. The first group has the right curvature and must be near 1.
RANKS = {
    "linear, dense": (0.99, 0.95), "linear, cg": (0.99, 0.95), "linear, gd": (0.99, 0.95), "linear, sa": (0.98, 0.95),
    "mode, dense": (0.95, 0.92), "functional on D, 1": (0.93, 0.92), "laplace_mc, dense": (0.92, 0.9),
    "linear, ekfac": (0.75, 0.6), "linear, kronecker": (0.7, 0.6), "kfac_ewc": (0.75, 0.6),
    "ewc_as_printed": (0.5, 0.6), "kfac_ewc_as_printed": (0.5, 0.6), "default": (0.5, 0.4),
    "linear, diagonal": (0.4, 0.6), "ewc": (0.5, 0.6), "online_ewc": (0.5, 0.6), "si": (0.5, 0.6), "vcl": (0.5, 0.6),
    "laplace_mc, diagonal": (0.5, 0.6), "ensemble of ewc, samples": (0.5, 0.6), "ogd": (0.0, 0.2),
    "functional on remaining, .1": (0.7, 0.6), "sgd_influence": (0.6, 0.7), "sgd_influence, as published": (0.4, 0.5),
    "tracin": (0.4, 0.5), "grad_dot": (0.4, 0.5), "fisher_kernel": (0.4, 0.5), "relatif": (0.7, 0.7),
    "sufficiency": (0.7, 0.7), "shapley": (0.65, 0.5),
}  # fmt: skip
BLIND = ("self_confidence", "loss", "random")  # they do not look at the failures, and predict nothing of them
UNMEASURED = (0.3, 0.3)  # what a method without a row must exceed: more than blind ones reach


def test_rows_are_those_of_the_benchmark():
    assert {*RANKS, *BLIND} <= set(convex.IDENTIFY)
    assert set(LEFT) <= set(convex.TREAT)


@pytest.mark.parametrize("name", [name for name in convex.IDENTIFY if name not in BLIND])
def test_the_order_of_leaving_out(name):
    found = convex.compared(name)
    one, ten = RANKS.get(name, UNMEASURED)
    assert found["rank, one"] > one
    assert found["rank, ten"] > ten


@pytest.mark.parametrize("name", BLIND)
def test_what_is_blind_to_the_failures_does_not_predict_them(name):
    assert convex.compared(name)["rank, one"] < 0.3


@pytest.mark.parametrize("name", ["linear, dense", "linear, cg", "linear, gd", "linear, sa"])
def test_the_size_of_leaving_one_out(name):
    """First order: at 100 examples and 15 parameters one example has a leverage of a sixth and more."""
    assert convex.compared(name)["error, one"] < 0.4


def test_solvers_agree():
    dense = convex.scores("linear, dense")
    for name, tolerance in (("linear, cg", 1e-4), ("linear, gd", 5e-3), ("linear, sa", 0.1)):
        assert abs(convex.scores(name) - dense).max() < tolerance * abs(dense).max(), name


# What is left of the way to the optimum of D∖C, at most, after deleting 1, 10 and 40 of the 100.
LEFT = {
    "retrain": (0.1, 0.05, 0.1), "fine_tune": (0.1, 0.1, 0.1), "newton, dense": (0.25, 0.6, 0.7),
    "newton, cg": (0.25, 0.6, 0.7), "newton, sa": (0.25, 0.6, 0.7), "newton, ekfac": (0.8, 0.65, 0.75),
    "newton, kronecker": (0.85, 0.7, 0.8), "newton, diagonal": (2.0, 0.6, 0.8), "mode, dense": (0.25, 0.7, 1.0),
    "ewc": (2.2, 0.9, 1.0), "kfac_ewc": (0.9, 0.9, 0.85), "online_ewc, decay 1": (2.2, 0.9, 1.0),
    "si": (3.2, 0.95, 1.0), "vcl": (3.0, 1.0, 1.0), "ogd": (7.0, 0.9, 0.9),
    "ewc_as_printed": (1.3, 0.9, 1.0), "kfac_ewc_as_printed": (0.7, 0.9, 0.95), "default": (1.0, 1.0, 1.0),
    "functional on D, 1": (1.0, 1.0, 1.0), "ensemble of newton, samples": (0.25, 0.6, 0.7),
}  # fmt: skip
NEARER = (float("inf"), 1.0, 1.0)  # for a treatment without a row: one example may be overshot, more may not


@pytest.mark.parametrize("name", convex.TREAT)
def test_the_way_to_the_optimum_without_the_causes(name):
    """Curvature that sees how coordinates go together goes most of the way; a diagonal may overshoot."""
    for size, most in zip((1, 10, 40), LEFT.get(name, NEARER), strict=True):
        left = convex.left_to_go(name, size)
        assert left < most, size
        assert left != 1.0, f"did not move for {size}"
