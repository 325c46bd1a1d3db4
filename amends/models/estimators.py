"""The module inside what a caller passes as a model, and the way back to an object of the same kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amends.errors import BadInput, kind_of
from amends.likelihoods import Categorical, Custom, Gaussian
from amends.models.loaded import Loaded
from amends.models.sharded import refuse_sharded

REASONS = {  # by the first part of a class's module
    "sklearn": ("a scikit-learn estimator has no gradients to follow", "wrap a torch network in skorch"),
    "xgboost": ("trees have no gradients to follow", "use a torch network"),
    "lightgbm": ("trees have no gradients to follow", "use a torch network"),
    "catboost": ("trees have no gradients to follow", "use a torch network"),
    "keras": ("a Keras model cannot be trained by torch", "rebuild the network in torch"),
    "tensorflow": ("a TensorFlow model cannot be trained by torch", "rebuild the network in torch"),
    "jax": ("a JAX model cannot be trained by torch", "rebuild the network in torch"),
    "flax": ("a JAX model cannot be trained by torch", "rebuild the network in torch"),
    "onnx": ("an ONNX graph is fixed and has no backward pass", "pass the network it was exported from"),
    "onnxruntime": ("an ONNX graph is fixed and has no backward pass", "pass the network it was exported from"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Opened:
    """The module to work on, the likelihood of its outputs (None: the caller's), and `back`, which makes an object of
    the caller's kind from a repaired module."""

    module: nn.Module
    likelihood: Any
    back: Callable[[nn.Module], Any]

    @property
    def innermost(self) -> nn.Module:
        """The module whose forward names the inputs, without wrappers and adapters."""
        inner = _inner(self.module)
        base = getattr(inner, "get_base_model", None)  # of an adapter
        return inner if base is None else base()


def module_of(model: Any, likelihood: Any = None) -> Opened:
    """Opens a module, a Loaded or a skorch net; a net's likelihood is that of its criterion unless one is given.

    Anything else is refused, with the reason."""
    if isinstance(model, Loaded):
        return Opened(model.model, model.likelihood if likelihood is None else likelihood, _same)
    if isinstance(model, nn.Module):
        _refuse_frozen(model)
        return Opened(model, likelihood, _same)
    if is_skorch(model):
        return _skorch(model, likelihood)
    raise _no_model(model)


def is_skorch(model: Any) -> bool:
    """Does not import skorch: a caller with such a net has imported it."""
    skorch = sys.modules.get("skorch")
    return skorch is not None and isinstance(model, skorch.NeuralNet)


def _same(module: nn.Module) -> nn.Module:
    return module


def _no_model(model: Any) -> BadInput:
    kind = type(model)
    name, home = kind.__name__, kind.__module__.partition(".")[0]
    if isinstance(model, type) and issubclass(model, nn.Module):
        return BadInput(f"model is the class {model.__name__}; pass a trained instance of it")
    if isinstance(model, str | Path):
        return BadInput(f"model is {str(model)!r}; load the model first, with amends.models.load(...)")
    if name == "ExportedProgram":
        return BadInput(
            "model is a torch.export program, a fixed graph whose weights cannot be edited; pass the network it was "
            "exported from"
        )
    if home in ("transformers", "lightning", "pytorch_lightning", "trl") and hasattr(model, "model"):
        return BadInput(f"model is a {name}, which wraps the module; pass its .model")
    if home in REASONS:
        why, instead = REASONS[home]
        return BadInput(f"model is a {name}: {why}; {instead}")
    return BadInput(f"model is {kind_of(model)}, expected a torch.nn.Module; pass the module")


def _refuse_frozen(model: nn.Module) -> None:
    """BadInput for modules that torch.func cannot call with other weights, or whose weights are too coarse to edit."""
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise BadInput(f"model is a TorchScript module ({name}), a fixed graph; pass the network it was made from")
    if name == "OptimizedModule":
        raise BadInput("model is compiled; pass the module inside, model._orig_mod, and compile the result")
    if name in ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"):
        raise BadInput(f"model is wrapped in {name}; pass the module inside, model.module")
    refuse_sharded(model)
    for part, module in model.named_modules():
        home = type(module).__module__
        whole = any(not (p.is_floating_point() or p.is_complex()) for p in module.parameters(recurse=False))
        if whole or ".quantized" in home or home.startswith(("bitsandbytes", "torchao")):
            raise BadInput(
                f"{part or 'model'} is quantised ({type(module).__name__}), too coarse for a small edit; "
                "pass the model before quantisation"
            )


class Around(nn.Module):
    """A module whose outputs are turned into what a likelihood takes."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner


def _inner(module: nn.Module) -> nn.Module:
    return module.inner if isinstance(module, Around) else module


class Logarithm(Around):
    """log p, for a module that ends in a softmax, with the small number skorch adds."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        p = self.inner(*args, **kwargs)
        return (p + torch.finfo(p.dtype).eps).log()


class TwoClasses(Around):
    """The logits (0, f) of a module that returns one logit f: their softmax is σ(f)."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        f = self.inner(*args, **kwargs)
        f = f.reshape(len(f))
        return torch.stack([torch.zeros_like(f), f], 1)


def _skorch(net: Any, likelihood: Any) -> Opened:
    import skorch

    if not getattr(net, "initialized_", False):
        raise BadInput(f"the {type(net).__name__} is not fitted; call fit, or initialize and load_params")
    module, criterion = net.module_, net.criterion_
    _refuse_frozen(module)
    if likelihood is None:
        module, likelihood = _outputs(net, module, criterion, isinstance(net, skorch.NeuralNetClassifier))

    def back(repaired: nn.Module) -> Any:
        """A copy of the net with the repaired weights, and with its optimiser and history."""
        copied = deepcopy(net)
        copied.module_.load_state_dict(_inner(repaired).state_dict())
        return copied

    return Opened(module, likelihood, back)


def _outputs(net: Any, module: nn.Module, criterion: Any, classifier: bool) -> tuple[nn.Module, Any]:
    """The module, wrapped to return logits or means, and their likelihood."""
    weight = getattr(criterion, "weight", None)
    if isinstance(criterion, nn.NLLLoss):
        return (Logarithm(module) if classifier else module), _weighted(weight, 0.0)
    if isinstance(criterion, nn.CrossEntropyLoss):
        return module, _weighted(weight, criterion.label_smoothing)
    if isinstance(criterion, nn.BCEWithLogitsLoss) and type(net).__name__ == "NeuralNetBinaryClassifier":
        more = criterion.pos_weight
        return TwoClasses(module), _weighted(None if more is None else torch.cat([more.new_ones(1), more.view(1)]), 0.0)
    if isinstance(criterion, nn.MSELoss):
        return module, Gaussian()
    raise BadInput(
        f"the likelihood of {type(criterion).__name__} is not known; pass likelihood=, a function of (outputs, "
        "targets) that returns one log-likelihood per example"
    )


def _weighted(weight: Tensor | None, smoothing: float) -> Any:
    """Categorical, with the class weights and label smoothing of the criterion."""
    if weight is None and not smoothing:
        return Categorical()

    def log_prob(outputs: Tensor, targets: Tensor) -> Tensor:
        scale = None if weight is None else weight.to(outputs)
        return -nn.functional.cross_entropy(outputs, targets, scale, label_smoothing=smoothing, reduction="none")

    return Custom(log_prob)
