"""Which failures a training example pulls against, pair by pair.

The negative dot product of gradients of the last linear layer: −(a_z·a_f + 1)(g_z·g_f), with a the
layer's input and g the gradient of log p at its output; for a sequence, summed over its places, up to a
random projection. It is positive when learning z lowers log p(f). It is there to show a person examples
side by side; scores come from the edit.
"""

from __future__ import annotations

from amends.curvature.last import last_gradients
from amends.evidence.factor import Factor
from amends.evidence.params import Params

CHUNK = 2**24  # pairs compared at once


def conflicts(train: Factor, failures: Factor, theta: Params, most: int = 5) -> list[list[int]]:
    """For each training example the positions of the failures it conflicts with, strongest first."""
    if not len(train) or not len(failures):
        return [[] for _ in range(len(train))]
    (az, gz), (af, gf) = last_gradients(train, theta), last_gradients(failures, theta)
    strongest: list[list[int]] = []
    step = max(1, CHUNK // len(failures))
    for start in range(0, len(train), step):
        part = slice(start, start + step)
        against = -(az[part] @ af.T) * (gz[part] @ gf.T)
        value, place = against.topk(min(most, len(failures)), dim=1)
        pairs = zip(value.cpu().numpy(), place.cpu().numpy(), strict=True)
        strongest += [[int(j) for v, j in zip(vs, js, strict=True) if v > 0] for vs, js in pairs]
    return strongest
