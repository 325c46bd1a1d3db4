"""A set with what the model says of it as it came: computed once, for every edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.evidence.factor import Factor
from amends.methods import Method
from amends.methods.ratio import label_part
from amends.posteriors import Posterior

KEPT = 2**26  # numbers that the outputs of one set may be; those of sequences can be more, and are computed each time


@dataclass(frozen=True, eq=False)
class Known:
    """`outputs` of the model handed in, or None where they would take too much memory."""

    data: Factor
    outputs: Tensor | None

    @classmethod
    def of(cls, data: Factor) -> Known:
        theta = data.network.params
        each = data[:1].outputs(theta).numel() if len(data) else 0
        return cls(data, data.outputs(theta) if each * len(data) <= KEPT else None)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, positions: np.ndarray) -> Known:
        at = torch.as_tensor(positions)
        return Known(self.data[positions], None if self.outputs is None else self.outputs[at.to(self.outputs.device)])

    def each(self, f: Callable[[Tensor, Tensor], Tensor]) -> np.ndarray:
        """f(outputs, y) of every example, as float64."""
        network = self.data.network
        if self.outputs is None:
            return self.data.map(lambda x, y: f(network.outputs(network.params, x), y)).double().cpu().numpy()
        found = [f(self.outputs[at], y) for at, y in self.data.targets()]
        return torch.cat(found).double().cpu().numpy() if found else np.zeros(0)

    def scores(self, method: Method, q: Posterior, after: Posterior) -> Tensor:
        """What each example lost between the two posteriors."""
        if method.score is label_part:
            return label_part(q, after, self.data, self.outputs)
        return method.score(q, after, self.data)

    def moves(self, q: Posterior, after: Posterior) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Targets, outputs and how far the edit moves them, one batch after the other."""
        network = self.data.network

        def said(posterior: Posterior, x: Any) -> Tensor:
            return posterior.rows(lambda theta: network.outputs(theta, x)).mean(0)

        for at, x, y, _ in self.data.tiles():
            start = said(q, x) if self.outputs is None else self.outputs[at]
            yield y, start, said(after, x) - start
