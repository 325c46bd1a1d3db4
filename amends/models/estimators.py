"""What a caller passes as a model, opened: the module inside it, and the way back to what it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amends.errors import BadInput
from amends.likelihoods import Categorical, Custom, Gaussian
from amends.models.loaded import Loaded

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
    """The module to work on, the likelihood its outputs imply (None: whatever the caller says), and how a
    repaired copy of the module becomes the kind of thing that was given."""

    module: nn.Module
    likelihood: Any
    back: Callable[[nn.Module], Any]

    @property
    def innermost(self) -> nn.Module:
        """The module whose forward names its inputs: not what stands around it."""
        inner = _inner(self.module)
        base = getattr(inner, "get_base_model", None)  # of an adapter
        return inner if base is None else base()


def module_of(model: Any, likelihood: Any = None) -> Opened:
    """A module as it is; of a skorch net its module, with the likelihood of its criterion unless the caller
    gives one; a Loaded. What cannot work is refused with the reason."""
    if isinstance(model, Loaded):
        return Opened(model.model, model.likelihood if likelihood is None else likelihood, _same)
    if isinstance(model, nn.Module):
        _refuse_frozen(model)
        return Opened(model, likelihood, _same)
    if is_skorch(model):
        return _skorch(model, likelihood)
    raise _no_model(model)


def is_skorch(model: Any) -> bool:
    """Whoever has such a net has imported skorch."""
    skorch = sys.modules.get("skorch")
    return skorch is not None and isinstance(model, skorch.NeuralNet)


def _same(module: nn.Module) -> nn.Module:
    return module


def _no_model(model: Any) -> BadInput:
    kind = type(model)
    name, home = kind.__name__, kind.__module__.partition(".")[0]
    if isinstance(model, type) and issubclass(model, nn.Module):
        return BadInput(f"model is the class {model.__name__}; model; pass a trained object of it")
    if isinstance(model, str | Path):
        return BadInput(f"model is a name, {str(model)!r}; model; load it first: amends.models.load(...)")
    if name == "ExportedProgram":
        return BadInput(
            "model is a torch.export program, a fixed graph whose weights cannot be edited; model; pass the network "
            "it was exported from"
        )
    if home in ("transformers", "lightning", "pytorch_lightning", "trl") and hasattr(model, "model"):
        return BadInput(f"model is a {name} around a module; model; pass its .model")
    if home in REASONS:
        why, instead = REASONS[home]
        return BadInput(f"model is a {name}: {why}; model; {instead}")
    return BadInput(f"model is a {name}, expected a torch.nn.Module; model; pass the module")


def _refuse_frozen(model: nn.Module) -> None:
    """Modules that torch.func cannot call with other weights, or whose weights take no small step."""
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise BadInput(
            f"model is a TorchScript module ({name}), a fixed graph; model; pass the network it was made from"
        )
    if name == "OptimizedModule":
        raise BadInput("model is compiled; model; pass the module inside it, model._orig_mod, and compile the result")
    if name in ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"):
        raise BadInput(f"model is wrapped in {name}; model; pass the module inside it, model.module")
    for part, module in model.named_modules():
        home = type(module).__module__
        whole = any(not (p.is_floating_point() or p.is_complex()) for p in module.parameters(recurse=False))
        if whole or ".quantized" in home or home.startswith(("bitsandbytes", "torchao")):
            raise BadInput(
                f"{part or 'model'} is quantised ({type(module).__name__}), too coarse for a small edit; model; "
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
    """The logits (0, f) of a module that gives one logit f: softmax of them is σ(f)."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        f = self.inner(*args, **kwargs)
        f = f.reshape(len(f))
        return torch.stack([torch.zeros_like(f), f], 1)


def _skorch(net: Any, likelihood: Any) -> Opened:
    import skorch

    if not getattr(net, "initialized_", False):
        raise BadInput(f"the {type(net).__name__} is not fitted; model; call fit, or initialize and load_params")
    module, criterion = net.module_, net.criterion_
    _refuse_frozen(module)
    if likelihood is None:
        module, likelihood = _outputs(net, module, criterion, isinstance(net, skorch.NeuralNetClassifier))

    def back(repaired: nn.Module) -> Any:
        """A copy of the net with the repaired weights; its optimiser and history come along."""
        copied = deepcopy(net)
        copied.module_.load_state_dict(_inner(repaired).state_dict())
        return copied

    return Opened(module, likelihood, back)


def _outputs(net: Any, module: nn.Module, criterion: Any, classifier: bool) -> tuple[nn.Module, Any]:
    """The module as giving logits or means, and their likelihood."""
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
        f"the likelihood of {type(criterion).__name__} is not known; model; pass likelihood=, a function of (outputs, "
        "targets) that gives one log-likelihood an example"
    )


def _weighted(weight: Tensor | None, smoothing: float) -> Any:
    """Categorical; with class weights or smoothing as the criterion had them."""
    if weight is None and not smoothing:
        return Categorical()

    def log_prob(outputs: Tensor, targets: Tensor) -> Tensor:
        scale = None if weight is None else weight.to(outputs)
        return -nn.functional.cross_entropy(outputs, targets, scale, label_smoothing=smoothing, reduction="none")

    return Custom(log_prob)
