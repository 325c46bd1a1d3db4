"""Synaptic intelligence: a quadratic from the path of training (Zenke et al. 2017)."""

from __future__ import annotations

from amends.editors import Climber
from amends.methods.base import Method
from amends.methods.library.ewc import quadratic
from amends.remember import PathIntegral
from amends.trace import Trace


def si(
    trace: Trace | None = None,
    strength: float = 1.0,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """Synaptic intelligence: a parameter matters by how much of the likelihood it gained in training.

    `trace` is a recorded run (`amends.trace.Recorder`); without one, a short replay from around θ̂."""
    return quadratic(PathIntegral(trace, strength), climb, unlearn, bounded)
