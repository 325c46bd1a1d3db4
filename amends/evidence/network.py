"""The nn.Module, kept at the edge: a private copy in eval mode, called with parameters from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from amends.data.examples import Examples, Inputs, each
from amends.errors import BadInput, first_line
from amends.evidence.params import Params
from amends.likelihoods import Likelihood
from amends.models import Opened


@contextmanager
def transformable() -> Iterator[None]:
    """Attention in the form torch.func can differentiate and vectorise."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def derivative(f: Callable[[Params], Tensor], theta: Params, along: Params) -> tuple[Tensor, Tensor]:
    """f(θ) and J·v, with J the Jacobian of f at θ and v = `along`.

    In one forward pass; a model with an operation that has no forward derivative (a recurrent
    layer) takes two backward passes, and the memory of f's whole graph.
    """
    with transformable():
        try:
            return cast("tuple[Tensor, Tensor]", jvp(f, (theta,), (along,)))
        except NotImplementedError:
            return _by_two_backward_passes(f, theta, along)


def _by_two_backward_passes(f: Callable[[Params], Tensor], theta: Params, along: Params) -> tuple[Tensor, Tensor]:
    """J·v as the derivative of u ↦ (Jᵀu)·v."""
    with torch.enable_grad():
        live = {k: v.detach().requires_grad_() for k, v in theta.items()}
        value = f(live)
        u = torch.zeros_like(value, requires_grad=True)
        back = torch.autograd.grad(value, list(live.values()), u, create_graph=True, materialize_grads=True)
        projected = torch.stack([(b * along[k]).sum() for k, b in zip(live, back, strict=True)]).sum()
        try:
            return value.detach(), torch.autograd.grad(projected, u, materialize_grads=True)[0]
        except NotImplementedError as e:
            raise BadInput(f"torch has no such derivative ({first_line(e)}); model; choose ewc or functional") from e


@dataclass(frozen=True, eq=False)
class Network:
    """θ, x → outputs, with the caller's model never touched.

    `module` is a copy in eval mode: batch norm uses its running statistics, dropout is off, and
    buffers stay. `params` are the trainable parameters, each once however often it is tied.
    """

    module: nn.Module
    params: Params
    likelihood: Likelihood
    device: torch.device
    dtype: torch.dtype
    opened: Opened | None = None  # where the caller gave something else than a module

    @classmethod
    def of(cls, model: nn.Module, likelihood: Likelihood, device: str | torch.device | None = None) -> Network:
        if not isinstance(model, nn.Module):
            raise BadInput(f"model is a {type(model).__name__}, expected a torch.nn.Module; model; pass the module")
        trainable = {k: p for k, p in model.named_parameters() if p.requires_grad}
        if not trainable:
            raise BadInput("the model has no trainable parameters; model; set requires_grad on what may change")
        for k, p in model.named_parameters():
            if not p.isfinite().all():
                raise BadInput(f"NaN or infinity in the weights; model parameter {k}; load a model that trained")
        first = next(iter(trainable.values()))
        try:
            where = first.device if device is None else torch.device(device)
            module = deepcopy(model).to(where).eval()
        except (RuntimeError, AssertionError) as e:
            what, where = ("device", device) if device is not None else ("model", type(model).__name__)
            raise BadInput(f"the model cannot be copied to work on ({first_line(e)}); {what} {where}; check it") from e
        params = {k: p.detach().clone() for k, p in module.named_parameters() if k in trainable}
        for p in module.parameters():
            p.requires_grad_(False)
            p.grad = None
        return cls(module, params, likelihood, where, first.dtype)

    def outputs(self, theta: Params, x: Inputs) -> Tensor:
        x = each(x, lambda t: t.to(self.device, self.dtype if t.is_floating_point() else None))
        args, kwargs = ((), x) if isinstance(x, dict) else (x if isinstance(x, tuple) else (x,), {})
        with self._differentiable():
            out = functional_call(self.module, theta, args, kwargs)
        out = getattr(out, "logits", out)
        if not isinstance(out, Tensor):
            raise BadInput(
                f"the model returns a {type(out).__name__}; model; return a tensor, or an object with .logits"
            )
        return out

    def _differentiable(self) -> AbstractContextManager[Any]:
        """cuDNN's recurrent layers cannot be differentiated in eval mode, nor twice."""
        recurrent = self.device.type == "cuda" and any(isinstance(m, nn.RNNBase) for m in self.module.modules())
        return torch.backends.cudnn.flags(enabled=False) if recurrent else nullcontext()

    def log_prob(self, theta: Params, x: Inputs, y: Tensor) -> Tensor:
        return self.likelihood(self.outputs(theta, x), y.to(self.device, self.dtype if y.is_floating_point() else None))

    def check(self, data: Examples) -> None:
        """One small batch forward; BadInput when the model, the inputs and the labels do not fit."""
        x, y = data.fetch(0, min(2, len(data)))
        try:
            with torch.no_grad():
                out = self.outputs(self.params, x)
        except BadInput:
            raise
        except Exception as e:
            reason = first_line(e)
            raise BadInput(f"the model cannot take these inputs ({reason}); {data.name}; check shape and dtype") from e
        if out.ndim == 0 or len(out) != len(y):
            raise BadInput(
                f"the model returns {list(out.shape)} for a batch of {len(y)}, expected [batch, classes]; "
                f"{data.name}; return one row per example"
            )
        self.likelihood.check(out, data.y, data.name)

    def weights(self, given: nn.Module | Mapping[str, Tensor], where: str) -> Params:
        """The trainable parameters in another module or state dict of the same architecture, as copies
        where this one computes."""
        state = given.state_dict() if isinstance(given, nn.Module) else given
        self.check_weights(state, where)
        return {k: state[k].detach().to(p, copy=True) for k, p in self.params.items()}

    def check_weights(self, state: Mapping[str, Tensor], where: str) -> None:
        """BadInput unless every trainable parameter is there in its shape."""
        if not isinstance(state, Mapping):
            raise BadInput(f"a {type(state).__name__} in place of named parameters; {where}; give a state dict")
        for name, p in self.params.items():
            if name not in state:
                raise BadInput(f"no parameter {name}; {where}; give one of the model that is repaired")
            if not isinstance(state[name], Tensor):
                raise BadInput(f"{name} is a {type(state[name]).__name__}; {where}; give tensors")
            if state[name].shape != p.shape:
                raise BadInput(
                    f"{name} is {list(state[name].shape)}, expected {list(p.shape)}; {where}; "
                    "give one of the model that is repaired"
                )

    def module_with(self, theta: Params, original: Any) -> Any:
        """A copy of the caller's model, in its mode and on its device, with the parameters θ; of another
        kind of thing than a module, a copy of that."""
        model = deepcopy(original if self.opened is None else self.opened.module)
        named = dict(model.named_parameters())
        with torch.no_grad():
            for k, value in theta.items():
                named[k].copy_(value)
        for p in model.parameters():
            p.grad = None
        return model if self.opened is None else self.opened.back(model)


class Averaged(nn.Module):
    """Several models as one: the mean of their probabilities for classes, of their outputs otherwise."""

    def __init__(self, models: list[nn.Module], classes: bool):
        super().__init__()
        self.members = nn.ModuleList(models)
        self.classes = classes

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        outputs = [model(*args, **kwargs) for model in self.members]
        outputs = torch.stack([getattr(out, "logits", out) for out in outputs])
        if not self.classes:
            return outputs.mean(0)
        return outputs.log_softmax(-1).logsumexp(0) - math.log(len(outputs))
