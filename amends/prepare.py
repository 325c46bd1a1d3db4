"""From what a caller passes to evidence under a private copy of the model; everything is checked here."""

from __future__ import annotations

from typing import Any

from torch import nn

from amends.data.examples import Examples, examples, leaves
from amends.errors import BadInput
from amends.factor import Factor
from amends.likelihoods import as_likelihood
from amends.network import Network

RESIDENT = 4 * 2**30  # bytes of data kept on an accelerator; more is sent batch by batch


def prepare(model: nn.Module, likelihood: Any, device: Any, batch_size: int, **sets: Any) -> dict[str, Factor]:
    """A factor for each set that is not None, by name."""
    if not isinstance(batch_size, int) or batch_size < 1:
        raise BadInput(f"batch_size is {batch_size!r}; batch_size; give a whole number of 1 or more")
    network = Network.of(model, as_likelihood(likelihood), device)
    given = {name: examples(data, name) for name, data in sets.items() if data is not None}
    for data in given.values():
        network.check(data)
    resident = network.device.type != "cpu" and sum(map(_bytes, given.values())) <= RESIDENT
    return {
        name: Factor.of(network, data.to(network.device) if resident else data, batch_size)
        for name, data in given.items()
    }


def _bytes(data: Examples) -> int:
    return sum(leaf.element_size() * leaf.numel() for leaf in leaves(data.x))
