"""The network: a private copy of the model in eval mode, called with parameters from outside."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import UninitializedParameter

from amends.data.examples import Examples, Inputs, each
from amends.distributed.group import alone
from amends.errors import LISTED, BadInput, first_line, kind_of
from amends.evidence.lengths import by_length
from amends.evidence.params import Params
from amends.evidence.room import Room, refused
from amends.likelihoods import Categorical, Custom, Likelihood, Tokens
from amends.likelihoods.base import of_family
from amends.models import Opened
from amends.models.sharded import copied, sharded


@contextmanager
def transformable() -> Iterator[None]:
    """Inside, attention is computed in a form that torch.func can differentiate and vectorise."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


HALF = (torch.float16, torch.bfloat16)  # too coarse for sums over data and for small steps


@contextmanager
def hooked(hooks: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Inside, each of these layers calls its hook after its forward pass."""
    handles = [layer.register_forward_hook(hook) for layer, hook in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def derivative(f: Callable[[Params], Tensor], theta: Params, along: Params) -> tuple[Tensor, Tensor]:
    """f(θ) and J·v, with J the Jacobian of f at θ and v = `along`.

    One forward pass. If an operation has no forward derivative (a recurrent layer), two backward passes and the memory
    of f's whole graph.
    """
    with transformable(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")  # torch's own, in the first of a process
        try:
            return cast("tuple[Tensor, Tensor]", jvp(f, (theta,), (along,)))
        except NotImplementedError:
            return _by_two_backward_passes(f, theta, along)


def derivative_of_few(f: Callable[[Params], Tensor], theta: Params, along: Params) -> tuple[Tensor, Tensor]:
    """The same for a few examples, by two backward passes. Before the first forward derivative of a process torch
    compiles what it may need, which takes longer than thousands of examples. If a layer has no second derivative, the
    forward derivative is used."""
    try:
        with transformable():
            return _by_two_backward_passes(f, theta, along)
    except (BadInput, RuntimeError):
        return derivative(f, theta, along)


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
            raise BadInput(
                f"a layer of the model has no second derivative in torch ({first_line(e)}); choose ewc or functional"
            ) from e


@dataclass(frozen=True, eq=False)
class Network:
    """θ, x → outputs. The caller's model is never changed.

    `module` is a copy in eval mode: batch norm uses its running statistics, dropout is off, and buffers stay. `params`
    are the trainable parameters, each once even if it is tied. A model in half precision is computed in float32 and
    returned in its own precision, `given`.
    """

    module: nn.Module
    params: Params
    likelihood: Likelihood
    device: torch.device
    dtype: torch.dtype
    opened: Opened | None = None  # what the caller passed
    given: torch.dtype | None = None  # the model's own dtype, if it is not `dtype`
    room: Room = field(default_factory=Room)
    sharded: bool = False  # whether some layers are split over several processes, which then compute in step

    @classmethod
    def of(cls, model: nn.Module, likelihood: Likelihood, device: str | torch.device | None = None) -> Network:
        trainable = _trainable(model)
        first = next(iter(trainable.values()))
        if str(device) == "meta":
            raise BadInput("the device is meta, which computes nothing; device; choose cpu or cuda")
        try:
            place = first.device if device is None else torch.device(device)
            module = copied(model).to(place).eval()
        except (RuntimeError, AssertionError, TypeError, ValueError) as e:
            to = "" if device is None else f" to device {device}"
            raise BadInput(f"the model cannot be copied{to} ({first_line(e)}); check the model and the device") from e
        half, is_sharded = any(p.dtype in HALF for p in trainable.values()), bool(sharded(model))
        if not is_sharded:
            _without_checkpoints(module)
        if half and is_sharded:
            raise BadInput("the adapter is in half precision above sharded layers; model; give it in float32")
        module = module.float() if half else module
        params = {k: p.detach().clone() for k, p in module.named_parameters() if k in trainable}
        for p in module.parameters():
            p.requires_grad_(False)
            p.grad = None
        dtype, given = (torch.float32, first.dtype) if half else (first.dtype, None)
        return cls(module, params, likelihood, place, dtype, given=given, sharded=is_sharded)

    def in_step(self) -> AbstractContextManager[Any]:
        """Inside, every process computes everything if layers are sharded over them."""
        return alone() if self.sharded else nullcontext()

    @property
    def notes(self) -> list[str]:
        """What a user should know about how the model is computed."""
        base = next((p.dtype for p in self.module.parameters() if p.dtype in HALF), None)
        if self.given is None and base is not None:
            name = str(base).removeprefix("torch.")
            return [f"the frozen weights are {name} and are computed in it, so scores have about 3 digits"]
        if self.given is None:
            return []
        name = str(self.given).removeprefix("torch.")
        return [f"the weights are {name}: they are computed in float32 and handed back in {name}"]

    def outputs(self, theta: Params, x: Inputs) -> Tensor:
        x = each(x, self._placed)
        args, kwargs = ((), x) if isinstance(x, dict) else (x if isinstance(x, tuple) else (x,), {})
        with self._differentiable():
            out = functional_call(self.module, theta, args, kwargs, tie_weights=self.tied)
        out = getattr(out, "logits", out)
        if not isinstance(out, Tensor):
            raise BadInput(f"the model returns {kind_of(out)}; return a tensor, or an object with .logits")
        return out.to(self.dtype) if out.dtype in HALF else out

    def _placed(self, t: Tensor) -> Tensor:
        t = t.to(self.device, self.dtype if t.is_floating_point() else None)
        images = self.room.channels_last and t.ndim == 4 and not is_functorch_wrapped_tensor(t)  # vmap adds a dimension
        return t.to(memory_format=torch.channels_last) if images else t

    @cached_property
    def tied(self) -> bool:
        """Whether a parameter or buffer has two names. Only then are they looked up at every call."""
        named = (self.module.named_parameters, self.module.named_buffers)
        each, every = (sum(len(list(f(remove_duplicate=once))) for f in named) for once in (True, False))
        return each < every

    def _differentiable(self) -> AbstractContextManager[Any]:
        """A context without cuDNN for recurrent layers: it cannot differentiate them in eval mode, nor twice."""
        recurrent = self.device.type == "cuda" and any(isinstance(m, nn.RNNBase) for m in self.module.modules())
        return torch.backends.cudnn.flags(enabled=False) if recurrent else nullcontext()

    def log_prob(self, theta: Params, x: Inputs, y: Tensor) -> Tensor:
        y = y.to(self.device, self.dtype if y.is_floating_point() else None)
        groups = by_length(x, y) if type(self.likelihood) is Tokens else []
        if not groups:
            return self.likelihood(self.outputs(theta, x), y)
        parts = [self.likelihood(self.outputs(theta, short), asked) for _, short, asked in groups]
        return torch.cat(parts)[torch.cat([rows for rows, _, _ in groups]).argsort()]

    def of_family(self, data: Examples) -> Network:
        """The network, with the family of a user's own likelihood function chosen by these outputs and labels."""
        if not isinstance(self.likelihood, Custom):
            return self
        x, _ = data.fetch(0, min(2, len(data)))
        try:
            with torch.no_grad():
                out = self.outputs(self.params, x)
        except Exception:  # `check` says why
            return self
        return replace(self, likelihood=of_family(self.likelihood, out, data.y))

    def check(self, data: Examples) -> None:
        """Runs one small batch. BadInput if the model, the inputs and the labels do not fit together."""
        x, y = data.fetch(0, min(2, len(data)))
        try:
            with torch.no_grad():
                out = self.outputs(self.params, x)
        except BadInput:
            raise
        except Exception as e:
            if refused(e):
                raise
            what = f"the model cannot take the inputs of {data.name}"
            raise BadInput(f"{what} ({first_line(e)}); check their shape and dtype") from e
        if out.ndim == 0 or len(out) != len(y):
            raise BadInput(
                f"the model returns {list(out.shape)} for {len(y)} examples of {data.name}, expected [batch, classes]; "
                "return one row per example"
            )
        if isinstance(self.likelihood.family, Categorical) and len(data.classes) > out.shape[-1] and data.y.ndim == 1:
            self._has_class(data, out.shape[-1])
        self.likelihood.check(out, data.y, data.name)

    @staticmethod
    def _has_class(data: Examples, outputs: int) -> None:
        """BadInput that names the first label without an output of the model, as the user wrote it."""
        unknown = (data.y >= outputs).nonzero()
        if len(unknown):
            i = int(unknown[0])
            classes = [str(name) for name in data.classes]
            listed = ", ".join(classes[:LISTED]) + (", ..." if len(classes) > LISTED else "")
            raise BadInput(
                f"{data.name}[{i}] has the label {classes[int(data.y[i])]!r}, one of {len(classes)} in the data "
                f"({listed}), but the model has {outputs} outputs; classes; name them in the order of the outputs, or "
                "correct the label that is none of them"
            )

    def weights(self, given: nn.Module | Mapping[str, Tensor], where: str) -> Params:
        """Copies of the trainable parameters of another module or state dict of the same architecture, on this
        device."""
        state = given.state_dict() if isinstance(given, nn.Module) else given
        self.check_weights(state, where)
        return {k: state[k].detach().to(p, copy=True) for k, p in self.params.items()}

    def check_weights(self, state: Mapping[str, Tensor], where: str) -> None:
        """BadInput unless every trainable parameter is present, with its shape."""
        if not isinstance(state, Mapping):
            raise BadInput(f"expected named parameters, got {kind_of(state)}; {where}; give a state dict")
        for name, p in self.params.items():
            if name not in state:
                raise BadInput(f"there is no parameter {name}; {where}; give weights of the model to repair")
            if not isinstance(state[name], Tensor):
                raise BadInput(f"{name} is {kind_of(state[name])}; {where}; give tensors")
            if state[name].shape != p.shape:
                raise BadInput(
                    f"{name} has shape {list(state[name].shape)}, expected {list(p.shape)}; {where}; "
                    "give weights of the model to repair"
                )

    def module_with(self, theta: Params, original: Any) -> Any:
        """A copy of the model as the caller passed it, in its mode and on its device, with the parameters θ."""
        model = copied(original if self.opened is None else self.opened.module)
        named = dict(model.named_parameters())
        with torch.no_grad():
            for k, value in theta.items():
                named[k].copy_(value)
        for p in model.parameters():
            p.grad = None
        return model if self.opened is None else self.opened.back(model)


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that may change. BadInput if there are none, or if a parameter has no values or holds NaN."""
    if not isinstance(model, nn.Module):
        raise BadInput(f"model is {kind_of(model)}, expected a torch.nn.Module; pass the module")
    trainable = {k: p for k, p in model.named_parameters() if p.requires_grad}
    if not trainable:
        raise BadInput("the model has no trainable parameters; set requires_grad on those that may change")
    for k, p in model.named_parameters():
        if isinstance(p, UninitializedParameter) or p.device.type == "meta":
            raise BadInput(f"the model parameter {k} has no values yet; call the model once, then load its weights")
        if not p.isfinite().all():
            raise BadInput(f"the model parameter {k} holds NaN or infinity; load the weights of a trained model")
    return trainable


def _without_checkpoints(module: nn.Module) -> None:
    """Switch off gradient checkpointing as a Trainer leaves it, and remove its hook on the first layer: torch.func can
    differentiate neither."""
    if callable(off := getattr(module, "gradient_checkpointing_disable", None)):
        off()
    for part in module.modules():
        hooks = part._forward_hooks
        for key in [k for k, hook in hooks.items() if getattr(hook, "__name__", "") == "make_inputs_require_grads"]:
            del hooks[key]
