"""The predictions of a model on a set, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from amends.evaluation.predictions import class_targets, right
from amends.evidence.factor import Factor
from amends.evidence.params import Params

KEPT = 2**20  # numbers: larger outputs of a set are not kept but computed again


@dataclass(frozen=True, eq=False)
class Predicted:
    """The model with weights θ on a set; θ may be on another device than the network."""

    data: Factor
    theta: Params

    @property
    def here(self) -> Params:
        """θ on the device of the network; the weights of a large model are kept on the CPU."""
        return {k: v.to(self.data.network.device) for k, v in self.theta.items()}

    @cached_property
    def _once(self) -> tuple[np.ndarray, Tensor | None]:
        """What is right; and of classes the outputs, if they are few enough to be kept."""
        if not len(self.data) or not class_targets(self.data):
            return right(self.data, self.here), None
        outputs = self.data.outputs(self.here)
        found = self.data.network.likelihood.right(outputs, self.data.examples.y.to(outputs.device))
        return found.bool().cpu().numpy(), outputs if outputs.numel() <= KEPT else None

    @property
    def right(self) -> np.ndarray:
        """Whether each example is predicted right, in order."""
        return self._once[0]

    @property
    def outputs(self) -> Tensor:
        kept = self._once[1]
        return self.data.outputs(self.here) if kept is None else kept

    @property
    def classes(self) -> np.ndarray:
        """The class that is predicted for each example, where targets are classes."""
        return self.data.network.likelihood.decide(self.outputs).cpu().numpy()
