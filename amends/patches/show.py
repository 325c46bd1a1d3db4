"""A patch, described for a person."""

from __future__ import annotations

from typing import Any

import numpy as np

from amends.patches.moves import LowRank
from amends.patches.patch import Layer, Patch


def described(patch: Patch) -> dict[str, Any]:
    """The size of a patch, the layers it moves and how far, and its verdict and figures."""
    about, judged = patch.about, patch.bases[0].judged
    whole = about.get("bytes")
    return {
        "bytes": patch.size,
        "share": patch.size / whole if whole else None,
        "exact": patch.exact,
        "layers": [
            {"name": name, "kind": layer.kind, "rank": _rank(layer), "shape": list(layer.shape),
             "weights": int(np.prod(layer.shape, dtype=np.int64)), "bytes": _bytes(patch, name),
             "changed": layer.changed, "moved": layer.moved}
            for name, layer in patch.layers.items()
        ],
        "judged": dict(judged),
        **({"why": about["exact"]} if "exact" in about else {}),
    }  # fmt: skip


def _rank(layer: Layer) -> int | None:
    return len(layer.move.exponents) if isinstance(layer.move, LowRank) else None


def _bytes(patch: Patch, name: str) -> int:
    """Bytes of the file that move this layer there and back."""
    move = patch.layers[name].move
    parts = [] if move is None else list(move.parts.values())
    return sum(map(len, [*parts, *(base.ways.get(name, b"") for base in patch.bases)]))
