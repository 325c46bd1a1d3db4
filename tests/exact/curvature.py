"""Curvature by loops over examples, outputs and layers with plain autograd."""

from __future__ import annotations

import torch
from torch.func import functional_call


def per_example_vectors(model, params, x, vectors):
    """Rows Jᵢᵀuᵢ, flattened in the order of params, one example at a time."""
    rows = []
    for i in range(len(vectors)):
        live = {k: v.detach().clone().requires_grad_() for k, v in params.items()}
        one = tuple(t[i : i + 1] for t in x) if isinstance(x, tuple) else x[i : i + 1]
        out = functional_call(model, live, one if isinstance(one, tuple) else (one,))
        grads = torch.autograd.grad(out, list(live.values()), vectors[i : i + 1], allow_unused=True)
        rows.append(
            torch.cat(
                [
                    (torch.zeros_like(p) if g is None else g).reshape(-1)
                    for g, p in zip(grads, live.values(), strict=True)
                ]
            )
        )
    return torch.stack(rows)


def scores(outputs, y):
    """∇ log softmax(outputs)[y] with respect to the outputs."""
    return torch.nn.functional.one_hot(y, outputs.shape[1]).to(outputs) - outputs.softmax(1)


def ggn_vectors(outputs):
    """One list entry per class c: √p_c (e_c − p) for every example."""
    p = outputs.softmax(1)
    eye = torch.eye(p.shape[1], dtype=p.dtype)
    return [p[:, c : c + 1].sqrt() * (eye[c] - p) for c in range(p.shape[1])]
