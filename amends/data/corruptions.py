"""Known damage to a data set: the damaged data, and a mask of what was changed in it.

Inputs are arrays with one example a row, labels one whole number each. What is passed stays as it is, and the same
seed damages the same examples in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as nnf

from amends.errors import BadInput, at_least

Limits = tuple[float, float] | None  # the lowest and the highest value an input may have


def flip_labels(y: np.ndarray, confusion: Mapping[tuple[int, int], float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels where, for every (a, b), a share of class a is called b, and a mask of those changed."""
    for source in {a for a, _ in confusion}:
        shares = [share for (a, _), share in confusion.items() if a == source]
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise BadInput(
                f"the shares of class {source} are {shares}; confusion; give shares that add up to 1 at most"
            )
    rng = np.random.default_rng(seed)
    flipped, draw = np.array(y), rng.random(len(y))
    for source in sorted({a for a, _ in confusion}):
        low = np.zeros(len(y))
        for (a, b), share in confusion.items():
            if a == source:
                flipped[(y == a) & (draw >= low) & (draw < low + share)] = b
                low = low + share
    return flipped, flipped != y


def salt_and_pepper(
    x: np.ndarray,
    y: np.ndarray,
    classes: Iterable[int],
    share: float,
    seed: int,
    pixels: float = 0.2,
    limits: tuple[float, float] = (0, 255),
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs where, in a share of each class named, a share of the values (`pixels`) is either limit, and a mask of
    these inputs."""
    _share("pixels", pixels)
    rng = np.random.default_rng(seed)
    at = _chosen(x, y, classes, share, rng)
    noisy, (low, high) = np.array(x), limits
    part = noisy[at]
    hit, salt = rng.random(part.shape) < pixels, rng.random(part.shape) < 0.5
    noisy[at] = np.where(hit, np.where(salt, high, low), part)
    return noisy, at


def gaussian_noise(
    x: np.ndarray,
    y: np.ndarray,
    classes: Iterable[int],
    share: float,
    seed: int,
    deviation: float,
    limits: Limits = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs where a share of each class named has Gaussian noise added to every value, cut off at the limits (whole
    numbers stay whole, and have the limits of their kind), and a mask of these inputs."""
    at_least("gaussian_noise", deviation=(deviation, 0.0))
    rng = np.random.default_rng(seed)
    at = _chosen(x, y, classes, share, rng)
    noisy, whole = np.array(x), np.issubdtype(np.asarray(x).dtype, np.integer)
    if whole and limits is None:
        limits = (np.iinfo(noisy.dtype).min, np.iinfo(noisy.dtype).max)
    part = noisy[at] + deviation * rng.standard_normal(noisy[at].shape)
    noisy[at] = _within(np.rint(part) if whole else part, limits)
    return noisy, at


def poison(
    x: np.ndarray,
    y: np.ndarray,
    classes: Iterable[int],
    share: float,
    seed: int,
    victims: Sequence[nn.Module],
    epsilon: float,
    limits: Limits = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels and a mask: a share of each class named is attacked by the fast gradient sign method (Goodfellow
    et al. 2015), x + ε·sign ∇ₓ(−log p(y|x)), and then called what the victim takes it for.

    `victims` are models of the clean data, other than the one to be trained; each attacked example has one of them,
    drawn at random. They stay as they are.
    """
    at_least("poison", epsilon=(epsilon, 0.0))
    if not len(victims):
        raise BadInput("victims is empty; poison; pass at least one model trained on the clean data")
    if not np.issubdtype(np.asarray(x).dtype, np.floating):
        raise BadInput(f"x is {np.asarray(x).dtype}; poison; pass the inputs as the victims take them, as floats")
    rng = np.random.default_rng(seed)
    at = _chosen(x, y, classes, share, rng)
    attacked, called = np.array(x), np.array(y)
    places = rng.permutation(np.flatnonzero(at))
    for victim, own in zip(victims, np.array_split(places, len(victims)), strict=True):
        for part in np.array_split(own, -(-len(own) // 256)) if len(own) else ():
            attacked[part], called[part] = _attack(victim, attacked[part], called[part], epsilon, limits)
    return attacked, called, at


def _attack(
    victim: nn.Module, x: np.ndarray, y: np.ndarray, epsilon: float, limits: Limits
) -> tuple[np.ndarray, np.ndarray]:
    """One step of length ε along the sign of the gradient, and what the victim says of its end."""
    training, weight = victim.training, next(victim.parameters())
    victim.eval()
    inputs = torch.as_tensor(x).to(weight.device, weight.dtype).requires_grad_()
    targets = torch.as_tensor(y).to(weight.device, torch.long)
    with torch.enable_grad():
        loss = nnf.cross_entropy(victim(inputs), targets, reduction="sum")
        (slope,) = torch.autograd.grad(loss, inputs)
    moved = _within(x + epsilon * slope.sign().cpu().numpy().astype(x.dtype), limits).astype(x.dtype)
    with torch.no_grad():
        called = victim(torch.as_tensor(moved).to(weight.device, weight.dtype)).argmax(1).cpu().numpy()
    victim.train(training)
    return moved, called


def _chosen(x: np.ndarray, y: np.ndarray, classes: Iterable[int], share: float, rng: np.random.Generator) -> np.ndarray:
    """A mask of so large a share of each class, drawn at random, rounded to whole examples."""
    _share("share", share)
    if len(x) != len(y):
        raise BadInput(f"{len(x)} inputs but {len(y)} labels; x and y; pass one label for each input")
    mask = np.zeros(len(y), dtype=bool)
    for one in classes:
        own = np.flatnonzero(np.asarray(y) == one)
        if not len(own):
            raise BadInput(f"no example has the label {one}; classes; name classes that are in y")
        mask[rng.permutation(own)[: round(share * len(own))]] = True
    return mask


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise BadInput(f"{name} is {value}; corruptions; give a share from 0 to 1")


def _within(x: np.ndarray, limits: Limits) -> np.ndarray:
    return x if limits is None else np.clip(x, *limits)
