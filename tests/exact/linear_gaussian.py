"""Bayesian linear regression with known noise, in closed form."""

from __future__ import annotations

import math

import torch


def posterior(x, y, sigma, prior):
    """Mean and precision of w given y = xw + σε and w ~ N(0, 1/prior)."""
    precision = x.T @ x / sigma**2 + prior * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(precision, x.T @ y.reshape(-1) / sigma**2), precision


def log_predictive(x, y, mean, precision, sigma):
    """log ∫ p(y|x,w) N(w; mean, precision⁻¹) dw, all of y together."""
    cov = x @ torch.linalg.solve(precision, x.T) + sigma**2 * torch.eye(len(x), dtype=x.dtype)
    return torch.distributions.MultivariateNormal(x @ mean, cov).log_prob(y.reshape(-1))


def log_mean_inverse_likelihood(x, y, mean, precision, sigma):
    """log E_{w ~ N(mean, precision⁻¹)}[1 / p(y|x,w)], finite while precision > xᵀx/σ²."""
    y = y.reshape(-1)
    left = precision - x.T @ x / sigma**2
    b = precision @ mean - x.T @ y / sigma**2
    quadratic = b @ torch.linalg.solve(left, b) - mean @ precision @ mean + y @ y / sigma**2
    determinants = torch.logdet(precision) - torch.logdet(left)
    return 0.5 * (determinants + quadratic) + len(y) * (math.log(sigma) + 0.5 * math.log(2 * math.pi))
