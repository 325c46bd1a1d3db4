"""A set with the outputs of the model, as given and after an edit; each is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from amends.data.examples import Inputs
from amends.editors.tangent import Linearised
from amends.evaluation.predictions import class_targets, groups
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import Params
from amends.likelihoods import Categorical, Tokens
from amends.methods import Method
from amends.methods.ratio import as_it_came, label_part, to_blame
from amends.posteriors import Posterior

KEPT = 2**26  # numbers: larger outputs of a set, such as those of sequences, are not kept but computed each time


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A set, and the `outputs` of the given model on it; None where they would take too much memory."""

    data: Factor
    outputs: Tensor | None

    @classmethod
    def of(cls, data: Factor | Evaluated) -> Evaluated:
        """The set with its outputs; a set that has them already is returned unchanged."""
        if isinstance(data, Evaluated):
            return data
        theta = data.network.params
        each = data[:1].outputs(theta).numel() if len(data) else 0
        return cls(data, data.outputs(theta) if each * len(data) <= KEPT else None)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, positions: np.ndarray) -> Evaluated:
        at = torch.as_tensor(positions)
        outputs = None if self.outputs is None else self.outputs[at.to(self.outputs.device)]
        return Evaluated(self.data[positions], outputs)

    def each(self, f: Callable[[Tensor, Tensor], Tensor]) -> np.ndarray:
        """f(outputs, y) of every example, as float64."""
        network = self.data.network
        if self.outputs is None:
            return self.data.map(lambda x, y: f(network.outputs(network.params, x), y)).double().cpu().numpy()
        found = [f(self.outputs[at], y) for at, y in self.data.targets()]
        return torch.cat(found).double().cpu().numpy() if found else np.zeros(0)

    @cached_property
    def log_p(self) -> Tensor:
        """log p(z|θ̂) of every example."""
        likelihood = self.data.network.likelihood
        if self.outputs is None or type(likelihood) is Tokens or not len(self):  # sequences are read by their lengths
            return self.data.per_example(self.data.network.params)
        targets = ((at, y.to(self.outputs.dtype) if y.is_floating_point() else y) for at, y in self.data.targets())
        return torch.cat([likelihood(self.outputs[at], y) for at, y in targets])

    def lost(self, q: Posterior, after: Posterior) -> Tensor:
        """r̃ of every example, for an edit from `q` to `after`."""
        log_p = self.log_p if as_it_came(q, self.data.network.params) else q.rows(self.data.per_example).mean(0)
        return log_p - after.rows(self.data.per_example).mean(0)

    @cached_property
    def groups(self) -> np.ndarray:
        """The name of each example's group."""
        if self.outputs is None or not class_targets(self.data):
            return groups(self.data)
        return groups(self.data, self.predicted)

    @cached_property
    def predicted(self) -> np.ndarray:
        """The class the model predicts for each example."""
        return self.each(lambda outputs, _: self.data.network.likelihood.decide(outputs)).astype(np.int64)

    def other_class(self, theta: Params | None = None) -> np.ndarray | None:
        """The most likely class of each example except the written one, by the given model or by one with weights θ;
        None where there are fewer than three classes."""
        network = self.data.network
        if not isinstance(network.likelihood.family, Categorical) or not class_targets(self.data) or not len(self):
            return None
        shape = (self.data[:1].outputs(network.params) if self.outputs is None else self.outputs).shape
        if len(shape) != 2 or shape[1] < 3:
            return None

        def other(outputs: Tensor, y: Tensor) -> Tensor:
            return outputs.scatter(1, y[:, None], -torch.inf).argmax(1)

        if theta is None:
            return self.each(other).astype(np.int64)
        return self.data.map(lambda x, y: other(network.outputs(theta, x), y)).cpu().numpy()

    def edited(self, q: Posterior, after: Posterior) -> Edited:
        return Edited(self, q, after)


@dataclass(frozen=True, eq=False)
class Edited:
    """A set before and after an edit; the outputs of the edited model are computed once."""

    known: Evaluated
    q: Posterior
    after: Posterior

    @cached_property
    def outputs(self) -> Tensor | None:
        """Outputs of the edited model, one row for each draw; None where those of the given model are not kept."""
        network = self.known.data.network
        if self.known.outputs is None or not len(self.known):
            return None if self.known.outputs is None else self.known.outputs[None]
        if isinstance(self.after, Linearised):
            return self.after.outputs(self.known.data, self.known.outputs)[None]
        outputs = self.known.data.map(lambda x, _: _outputs(network, self.after, x).transpose(0, 1))
        return outputs.transpose(0, 1)

    def scores(self, method: Method) -> Tensor:
        """The score of each example by this method."""
        data, old = self.known.data, self.known.outputs
        new = self.outputs if method.score is label_part else None
        if old is None or new is None:
            return method.score(self.q, self.after, data)
        likelihood = data.network.likelihood
        parts = [to_blame(likelihood, old[at][None], new[:, at], y) for at, y in data.targets()]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=old.dtype, device=old.device)

    def moves(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Targets, outputs and how far the edit moves them, one batch after the other."""
        data, old, new = self.known.data, self.known.outputs, self.outputs
        if old is not None and new is not None:
            yield from ((y, old[at], new[:, at].mean(0) - old[at]) for at, y in data.targets())
            return
        for _, x, y, _ in data.tiles():
            start = _outputs(data.network, self.q, x).mean(0)
            yield y, start, _outputs(data.network, self.after, x).mean(0) - start


def _outputs(network: Network, posterior: Posterior, x: Inputs) -> Tensor:
    return posterior.rows(lambda theta: network.outputs(theta, x))
