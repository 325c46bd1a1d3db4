"""How a layer's per-example weight gradients follow from its input a and output gradient g.

Each rule returns gradients [batch, *shape] by the layer's own parameter names. `squared` sums their
squares over the batch, without forming them where it can; `unfolded` turns a convolution into a
matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

Grads = dict[str, Tensor]
Rule = Callable[[Any, Tensor, Tensor], Grads]

HELD = 2**26  # numbers in the per-example gradients of one layer held at once
CHUNK = 2**20  # elements of unfolded input held at once: fits into the cache and bounds the memory


def linear(layer: nn.Linear, a: Tensor, g: Tensor) -> Grads:
    a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
    return {"weight": torch.einsum("bto,bti->boi", g, a), "bias": g.sum(1)}


def turned_linear(layer: Any, a: Tensor, g: Tensor) -> Grads:
    """A linear layer whose weight is [in, out]."""
    grads = linear(layer, a, g)
    return {"weight": grads["weight"].mT, "bias": grads["bias"]}


def rms_norm(layer: Any, a: Tensor, g: Tensor) -> Grads:
    eps = getattr(layer, "variance_epsilon", getattr(layer, "eps", None))
    width = layer.weight.shape
    normal = nnf.rms_norm(a, width, eps=torch.finfo(a.dtype).eps if eps is None else eps)
    return {"weight": (g * normal).reshape(len(a), -1, *width).sum(1)}


def embedding(layer: nn.Embedding, a: Tensor, g: Tensor) -> Grads:
    grad = g.new_zeros(len(a), *layer.weight.shape)
    index = a.reshape(len(a), -1)
    grad.scatter_add_(1, index[..., None].expand(-1, -1, g.shape[-1]), g.reshape(len(a), -1, g.shape[-1]))
    if layer.padding_idx is not None:
        grad[:, layer.padding_idx] = 0
    return {"weight": grad}


def layer_norm(layer: nn.LayerNorm, a: Tensor, g: Tensor) -> Grads:
    normal = nnf.layer_norm(a, layer.normalized_shape, eps=layer.eps)
    shape = (len(a), -1, *layer.normalized_shape)
    return {"weight": (g * normal).reshape(shape).sum(1), "bias": g.reshape(shape).sum(1)}


def group_norm(layer: nn.GroupNorm, a: Tensor, g: Tensor) -> Grads:
    return _per_channel(nnf.group_norm(a, layer.num_groups, eps=layer.eps), g)


def batch_norm(layer: nn.BatchNorm2d, a: Tensor, g: Tensor) -> Grads:
    normal = nnf.batch_norm(a, layer.running_mean, layer.running_var, training=False, eps=layer.eps)
    return _per_channel(normal, g)


def _per_channel(normal: Tensor, g: Tensor) -> Grads:
    shape = (len(g), g.shape[1], -1)
    return {"weight": (g * normal).reshape(shape).sum(2), "bias": g.reshape(shape).sum(2)}


def unfolded(layer: nn.Conv1d | nn.Conv2d, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Input patches [batch, groups, in·k, places] and output gradients [batch, groups, out, places]."""
    places = g.shape[2:]
    a = padded(layer, a)
    for d, (k, stride, dilation, out) in enumerate(
        zip(layer.kernel_size, layer.stride, layer.dilation, places, strict=True)
    ):
        a = _windows(a, 2 + d, out, k, stride, dilation)
    d = len(places)  # now [batch, channels, *places, *kernel]
    a = a.permute(0, 1, *range(2 + d, 2 + 2 * d), *range(2, 2 + d))
    groups = layer.groups
    return a.reshape(len(a), groups, -1, places.numel()), g.reshape(len(g), groups, -1, places.numel())


def padded(layer: nn.Conv1d | nn.Conv2d, a: Tensor) -> Tensor:
    sides = layer._reversed_padding_repeated_twice
    if not any(sides):
        return a
    return nnf.pad(a, sides, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def _windows(a: Tensor, dim: int, out: int, k: int, stride: int, dilation: int) -> Tensor:
    """A view with `dim` turned into places and, as the last dimension, the k taps seen from each place."""
    shape, strides = list(a.shape), list(a.stride())
    step = strides[dim]
    shape[dim], strides[dim] = out, step * stride
    return a.as_strided([*shape, k], [*strides, step * dilation], a.storage_offset())


def conv(layer: nn.Conv1d | nn.Conv2d, a: Tensor, g: Tensor) -> Grads:
    patches, go = unfolded(layer, a, g)
    weight = torch.einsum("bgot,bgkt->bgok", go, patches)
    return {"weight": weight.reshape(len(a), *layer.weight.shape), "bias": g.flatten(2).sum(2)}


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: conv,
    nn.Conv2d: conv,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
    nn.RMSNorm: rms_norm,
}
BY_NAME: dict[str, Rule] = {"RMSNorm": rms_norm, "Conv1D": turned_linear}


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a layer, or of a subclass with the same forward.

    Layers of transformers are recognised by their names. That is a guess; like every rule, it is trusted
    only where it agrees with autograd.
    """
    for kind, rule in RULES.items():
        if isinstance(module, kind) and type(module).forward is kind.forward:
            return None if rule is batch_norm and module.running_mean is None else rule
    return next((rule for ending, rule in BY_NAME.items() if type(module).__name__.endswith(ending)), None)


# --- Σ over the batch of the squares ---------------------------------------------------------


def squared(module: nn.Module, rule: Rule, a: Tensor, g: Tensor) -> Grads:
    if rule is linear and a.ndim == 2:
        return {"weight": (g**2).T @ a**2, "bias": (g**2).sum(0)}
    if rule is embedding:
        return {"weight": _squared_embedding(module, a, g)}
    if rule is conv:
        return _squared_conv(module, a, g)
    step = max(1, HELD // sum(p.numel() for p in module.parameters(recurse=False)))
    total: Grads = {}
    for ai, gi in zip(a.split(step), g.split(step), strict=True):
        for k, v in rule(module, ai, gi).items():
            total[k] = total.get(k, 0) + (v**2).sum(0)
    return total


def _squared_embedding(layer: Any, a: Tensor, g: Tensor) -> Tensor:
    """Sums the uses of a row within an example before squaring, without a [batch, rows, dim] tensor."""
    rows, dim = layer.weight.shape
    example = torch.arange(len(a), device=a.device)[:, None].expand(len(a), a[0].numel())
    pair, back = (example * rows + a.reshape(len(a), -1)).reshape(-1).unique(return_inverse=True)
    sums = g.new_zeros(len(pair), dim).index_add_(0, back, g.reshape(-1, dim))
    total = g.new_zeros(rows, dim).index_add_(0, pair % rows, sums**2)
    if layer.padding_idx is not None:
        total[layer.padding_idx] = 0
    return total


def _squared_conv(layer: Any, a: Tensor, g: Tensor) -> Grads:
    """Works on pieces of the batch, so that unfolded inputs fit into the cache and memory is bounded."""
    by_row = layer.stride[0] == 1 and g.ndim == 4
    taps = layer.kernel_size[-1] if by_row else layer.weight[0, 0].numel()
    each = a.shape[1] * taps * g[0, 0].numel()
    step = max(1, HELD // max(each, layer.weight.numel()) if a.is_cuda else CHUNK // each)
    add = _add_by_row if by_row else _add_unfolded
    weight = torch.zeros_like(layer.weight)
    for start in range(0, len(a), step):
        add(layer, a[start : start + step], g[start : start + step], weight)
    return {"weight": weight, "bias": g.flatten(2).sum(2).pow_(2).sum(0)}


def _add_unfolded(layer: Any, a: Tensor, g: Tensor, weight: Tensor) -> None:
    patches, go = unfolded(layer, a, g)
    weight += (go @ patches.transpose(-1, -2)).pow_(2).sum(0).view_as(weight)


def _add_by_row(layer: Any, a: Tensor, g: Tensor, weight: Tensor) -> None:
    """At vertical stride 1 only columns are unfolded: row i of the kernel then sees the same matrix shifted
    by whole rows, which is a view. That is a third of the copying for a 3x3 kernel. The output gradient
    is transposed once, since the product is twice as fast that way."""
    batch, groups, (height, width) = len(a), layer.groups, g.shape[2:]
    a = padded(layer, a)
    columns = _windows(a, 3, width, layer.kernel_size[1], layer.stride[1], layer.dilation[1])
    flat = columns.permute(0, 1, 4, 2, 3).reshape(batch * groups, -1, a.shape[2] * width)
    go = g.reshape(batch * groups, -1, height * width).transpose(1, 2).contiguous()
    for i in range(layer.kernel_size[0]):
        offset = i * layer.dilation[0] * width
        grad = torch.bmm(flat[..., offset : offset + height * width], go)
        square = grad.view(batch, -1).pow_(2).sum(0).view(groups, *grad.shape[1:]).transpose(1, 2)
        row = weight[:, :, i]
        row += square.reshape(row.shape)
