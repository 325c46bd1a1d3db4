"""Softmax regression: gradients, Hessian and the optimum, by plain loops and Newton's method."""

from __future__ import annotations

import torch


def log_prob(w, x, y):
    """log p(y|x) of one example; w is [classes, features + 1] with the bias last."""
    logits = w[:, :-1] @ x + w[:, -1]
    return logits.log_softmax(0)[y]


def objective(w, x, y, ridge):
    return sum(log_prob(w, a, b) for a, b in zip(x, y, strict=True)) - 0.5 * ridge * (w**2).sum()


def optimum(x, y, classes, ridge, start=None):
    """arg max of the penalised log-likelihood, to machine precision."""
    w = torch.zeros(classes, x.shape[1] + 1, dtype=x.dtype) if start is None else start.clone()
    for _ in range(50):
        p = (torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1) @ w.T).softmax(1)
        ext = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
        grad = (torch.nn.functional.one_hot(y, classes).to(x) - p).T @ ext - ridge * w
        outer = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        hess = torch.einsum("nij,na,nb->iajb", outer, ext, ext).reshape(w.numel(), w.numel())
        move = torch.linalg.solve(hess + ridge * torch.eye(w.numel(), dtype=x.dtype), grad.reshape(-1)).view_as(w)
        w = w + move
        if move.norm() < 1e-13:
            break
    return w


def gradients(w, x, y):
    """∇ log p of each example, one row each."""
    rows = []
    for a, b in zip(x, y, strict=True):
        leaf = w.clone().requires_grad_()
        rows.append(torch.autograd.grad(log_prob(leaf, a, b), leaf)[0].reshape(-1))
    return torch.stack(rows)


def fisher_of_the_model(w, x):
    """Σ over examples and classes of p(class) ∇log p ∇log pᵀ: the GGN, label by label."""
    total = 0
    for a in x:
        p = (w[:, :-1] @ a + w[:, -1]).softmax(0)
        for c in range(len(p)):
            g = gradients(w, a[None], torch.tensor([c]))[0]
            total = total + p[c] * torch.outer(g, g)
    return total
