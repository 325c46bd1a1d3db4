"""One forward and backward pass that passes on each layer's input and output gradient.

Hooks see only what a module is called with, so they are first checked against plain autograd on two
examples. That finds a parameter that is also used outside its module, a module that is bypassed, or
an input that is changed in place; these go the slow, general way instead.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap

from amends.curvature.kinds import Probe, by_row
from amends.curvature.rules import Rule, rule_for
from amends.data.examples import Inputs, each, leaves
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.network import Network, hooked, transformable
from amends.evidence.params import Params
from amends.evidence.refusing import named

PROBE = 2


@dataclass(frozen=True, eq=False)
class Owned:
    """A layer with a rule, and the names of its parameters in θ."""

    module: nn.Module
    rule: Rule
    names: dict[str, str]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer in the forward pass; `intact` unless its input was changed in place since."""

    owned: Owned
    input: Tensor
    version: int

    @property
    def intact(self) -> bool:
        return self.input._version == self.version


@dataclass(eq=False)
class Pass:
    """The outputs of one batch, and a way to send vectors back through the network, several times."""

    outputs: Tensor
    calls: list[Call]
    _start: Tensor
    _receiver: list[Callable[[Call, Tensor], None]] = field(default_factory=list)

    def back(self, vector: Tensor, receive: Callable[[Call, Tensor], None]) -> None:
        """receive(call, output gradient) for each call, last layer first."""
        if not self.outputs.requires_grad:  # no hook saw a call
            return
        self._receiver[:] = [receive]
        torch.autograd.grad(self.outputs, self._start, vector, retain_graph=True, allow_unused=True)

    @property
    def uses(self) -> Counter[str]:
        return Counter(name for call in self.calls for name in call.owned.names.values())


def forward(network: Network, theta: Params, x: Inputs, layers: Iterable[Owned]) -> Pass:
    """Runs the network with hooks on these layers. Parameters are not in the graph, so they get no gradients."""
    calls: list[Call] = []
    receiver: list[Callable[[Call, Tensor], None]] = []
    start = torch.zeros((), dtype=network.dtype, device=network.device, requires_grad=True)
    batch = len(leaves(x)[0])

    def hook(owned: Owned) -> Callable[..., Tensor | None]:
        def seen(module: nn.Module, args: tuple, output: Tensor) -> Tensor | None:
            if len(args) != 1 or not isinstance(args[0], Tensor) or not isinstance(output, Tensor):
                return None
            given = args[0]
            if isinstance(module, nn.Embedding) and len(given) == 1 < batch:  # positions, looked up once for the batch
                given, output = given.expand(batch, *given.shape[1:]), output.expand(batch, *output.shape[1:])
            call = Call(owned, given.detach(), given._version)
            calls.append(call)
            output = output if output.requires_grad else output + start
            output.register_hook(lambda g: receiver[0](call, g.detach()))
            return output

        return seen

    with hooked({owned.module: hook(owned) for owned in layers}), torch.enable_grad():
        outputs = network.outputs({k: v.detach() for k, v in theta.items()}, x)
    return Pass(outputs, calls, start, receiver)


def passes(
    factor: Factor, theta: Params, probe: Probe, layers: Iterable[Owned]
) -> Iterator[tuple[Inputs, Pass, Tensor, Iterator[Tensor]]]:
    """Batch by batch: the inputs, the forward pass, the weights w, and the vectors to send back, times √|w|."""
    for at, x, y, w in factor.tiles():
        run, root = forward(factor.network, theta, x, layers), w.abs().sqrt()
        vectors = probe(run.outputs.detach(), y, at)
        yield x, run, w, map(by_row, vectors, repeat(root))


@dataclass(frozen=True, eq=False)
class Plan:
    """The layers whose gradients a rule computes, and the parameters that go through vmap."""

    layers: tuple[Owned, ...]
    general: tuple[str, ...]


def plan(factor: Factor, theta: Params) -> Plan:
    """Every trainable parameter is either in a layer with a rule or among the general ones."""
    network = factor.network
    names = {id(p): k for k, p in network.module.named_parameters() if k in theta}
    layers = []
    for module in network.module.modules():
        owned = {k: names[id(p)] for k, p in module._parameters.items() if p is not None and id(p) in names}
        rule = rule_for(module)
        if owned and rule is not None:
            layers.append(Owned(module, rule, owned))
    x, _ = factor.examples.fetch(0, min(PROBE, len(factor)))
    with _unrounded(network.device), named(factor):
        trusted = _agreeing(network, theta, x, layers)
    # A tied parameter is trusted in all of its layers or in none, and a layer with all of its parameters or none.
    while True:
        kept = [o for o in layers if all(name in trusted for name in o.names.values())]
        lost = {n for o in layers if o not in kept for n in o.names.values()} & trusted
        if not lost:
            return Plan(tuple(kept), tuple(k for k in theta if k not in trusted))
        trusted -= lost


@contextmanager
def _unrounded(device: torch.device) -> Iterator[None]:
    """Inside, no TensorFloat-32 and no autocast: their rounding would look like a layer that disagrees."""
    if device.type != "cuda":
        with torch.autocast(device.type, enabled=False):
            yield
        return
    places: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = False
        with torch.autocast("cuda", enabled=False):
            yield
    finally:
        for place, allowed in zip(places, before, strict=True):
            place.allow_tf32 = allowed


def _agreeing(network: Network, theta: Params, x: Inputs, layers: list[Owned]) -> set[str]:
    """Names of the parameters whose per-example gradients by rule equal autograd's, for a random output vector."""
    summed: dict[str, Tensor] = {}
    broken: set[str] = set()

    def receive(call: Call, g: Tensor) -> None:
        names = call.owned.names
        if not call.intact:
            broken.update(names.values())
            return
        if len(call.input) != len(vector):  # one call for the whole batch: no gradient per example
            broken.update(names.values())
            return
        for own, grad in call.owned.rule(call.owned.module, call.input, g).items():
            if own in names:
                summed[names[own]] = summed.get(names[own], 0) + grad

    run = forward(network, theta, x, layers)
    noise = torch.Generator().manual_seed(0)
    vector = torch.randn(run.outputs.shape, generator=noise, dtype=torch.float64).to(run.outputs)
    if layers:
        run.back(vector, receive)
    with torch.enable_grad():
        live = {k: v.detach().requires_grad_() for k, v in theta.items()}
        for i in range(len(vector)):
            try:
                one = network.outputs(live, each(x, lambda t, i=i: t[i : i + 1]))
            except ValueError:  # batch norm over a batch of one
                one = torch.full_like(run.outputs[:1], torch.nan)
            if not torch.allclose(one[0], run.outputs[i], rtol=1e-3, atol=1e-4):
                raise BadInput(
                    "the model's output for an example depends on the others in its batch, or changes with each call; "
                    "give its batch norm running statistics (track_running_stats=True), and switch off what is random"
                )
            grads = torch.autograd.grad(one, list(live.values()), vector[i : i + 1], materialize_grads=True)
            rounding = 100 * torch.finfo(one.dtype).eps * max(map(_size, grads))  # where gradients cancel to zero
            for k, true in zip(live, grads, strict=True):
                if k in summed and not torch.allclose(
                    summed[k][i], true, rtol=1e-3, atol=1e-4 * _size(true) + rounding
                ):
                    broken.add(k)
    return set(summed) - broken


def _size(t: Tensor) -> float:
    return float(t.abs().max()) if t.numel() else 0.0


def general_grads(network: Network, theta: Params, x: Inputs, vector: Tensor, names: tuple[str, ...]) -> Params:
    """Per-example gradients of the named parameters [batch, *shape], by vmap, or else one by one."""
    some = {k: theta[k] for k in names}

    def one(xi: Inputs, vi: Tensor) -> Params:
        def outputs(p: Params) -> Tensor:
            return network.outputs({**theta, **p}, each(xi, lambda t: t[None]))

        return vjp(outputs, some)[1](vi[None])[0]

    try:
        with transformable(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # slow, but still exact
            return vmap(one, chunk_size=max(1, 2**24 // max(1, sum(v.numel() for v in some.values()))))(x, vector)
    except RuntimeError:  # an operation that torch.func does not support
        return _one_by_one(network, theta, x, vector, names)


def _one_by_one(network: Network, theta: Params, x: Inputs, vector: Tensor, names: tuple[str, ...]) -> Params:
    live = {k: theta[k].detach().requires_grad_() for k in names}
    rows = []
    with torch.enable_grad():
        for i in range(len(vector)):
            out = network.outputs({**theta, **live}, each(x, lambda t, i=i: t[i : i + 1]))
            rows.append(torch.autograd.grad(out, list(live.values()), vector[i : i + 1], materialize_grads=True))
    return {k: torch.stack([r[j] for r in rows]) for j, k in enumerate(names)}
