"""What the last linear layer sees and sends back, per example."""

from __future__ import annotations

import torch
from torch import Tensor

from amends.curvature import rules
from amends.curvature.backprop import Call, forward, plan
from amends.curvature.kinds import Empirical
from amends.factor import Factor
from amends.params import Params


def last_layer(data: Factor, theta: Params) -> tuple[Tensor, Tensor]:
    """Inputs (with a 1 for the bias) and output gradients of the last linear layer, per example.

    A model without one is compared by its outputs alone.
    """
    layers = [o for o in plan(data, theta).layers if o.rule is rules.linear]
    probe = Empirical().probe(data)
    inputs, grads = [], []
    for at, x, y, _ in data.tiles():
        run = forward(data.network, theta, x, layers)
        (vector,) = probe(run.outputs.detach(), y, at)
        one = torch.ones(len(vector), 1, dtype=vector.dtype, device=vector.device)
        seen: list[tuple[Tensor, Tensor]] = []
        if run.calls:

            def receive(call: Call, g: Tensor, seen=seen, last=run.calls[-1]) -> None:
                if call is last:
                    seen.append((call.input, g))

            run.back(vector, receive)
        if seen and seen[0][0].ndim == 2:
            inputs.append(torch.cat([seen[0][0], one], 1))
            grads.append(seen[0][1])
        else:
            inputs.append(one)
            grads.append(vector.flatten(1))
    return torch.cat(inputs), torch.cat(grads)
