"""Layers that torch's `fully_shard` spreads over processes: they are frozen, and shared by all copies of a model.

Such a layer is gathered from all processes whenever it is called, so all of them must call it equally often: each
computes everything, in step with the others.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import Any

from torch import nn

from amends.errors import BadInput


def sharded(model: Any) -> dict[str, nn.Module]:
    """The sharded layers by name. There are none unless torch.distributed.fsdp was imported."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if kind is None or not isinstance(model, nn.Module):
        return {}
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, kind)}


def copied(model: nn.Module) -> nn.Module:
    """A copy of the model, in which the sharded layers are the same ones."""
    return deepcopy(model, {id(layer): layer for layer in sharded(model).values()})


def refuse_sharded(model: nn.Module) -> None:
    """BadInput if a sharded layer is trainable or in training mode."""
    for name, layer in sharded(model).items():
        where = name or "the model"
        if any(p.requires_grad for p in layer.parameters()):
            raise BadInput(
                f"{where} is sharded over processes and has weights that may change; model; "
                "shard frozen layers alone, each by itself, and leave the adapter whole"
            )
        if layer.training:
            raise BadInput(f"{where} is sharded over processes and in training mode; model; call model.eval() first")
