"""Setups that are sound, though a check might stumble over them: weak, noisy, lopsided, memorised, of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import amends
from tests.faults.kinds import World, evaluated, pictures, table, texts
from tests.worlds import clean_digits

Data = tuple[Tensor, Tensor]


class Sound(NamedTuple):
    """What a repair is asked with."""

    model: nn.Module
    train: Any
    failures: Any
    remaining: Any
    likelihood: Any = None


def of(net: nn.Module, train: Data, held: Data) -> Sound:
    return Sound(*evaluated(net, train, held))


def world(made: Callable[[], World], change: Callable[[nn.Module], nn.Module] = deepcopy) -> Sound:
    net, train, held = made().given()
    arguments = evaluated(net, train, held)
    return Sound(change(net), *arguments[1:])


def fit(
    net: nn.Module, train: Data, epochs: int, loss: Callable[..., Tensor] | None = None, **adam: float
) -> nn.Module:
    """In steps on all of train."""
    optimiser = torch.optim.Adam(net.parameters(), **{"lr": 5e-3, **adam})
    for _ in range(epochs):
        optimiser.zero_grad()
        (loss or nn.functional.cross_entropy)(net(train[0]), train[1]).backward()
        optimiser.step()
    return net.eval()


def blobs(classes: int, per: int, apart: float, inputs: int = 20) -> tuple[Data, Data]:
    """Classes around random centres, `per` examples of each to learn from and as many held out."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(classes).repeat(2 * per)
    x = apart * torch.randn(classes, inputs, generator=g)[y] + torch.randn(len(y), inputs, generator=g)
    half = classes * per
    return (x[:half], y[:half]), (x[half:], y[half:])


def mlp(inputs: int, hidden: int, outputs: int, *more: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), *more, nn.Linear(hidden, outputs))


def trained(classes: int, per: int, apart: float, hidden: int = 32, epochs: int = 60, **how: Any) -> Sound:
    train, held = blobs(classes, per, apart)
    return of(fit(mlp(20, hidden, classes), train, epochs, **how), train, held)


def of_net(net: nn.Module, epochs: int) -> Sound:
    train, held = blobs(5, 100, 0.8)
    return of(fit(net, train, epochs), train, held)


def noisy(share: float, learned: bool) -> Sound:
    """Labels of train that are wrong at random; the model was trained with them, or with the right ones."""
    (x, y), held = blobs(5, 120, 0.8)
    g = torch.Generator().manual_seed(1)
    turned = torch.rand(len(y), generator=g) < share
    given = torch.where(turned, torch.randint(0, 5, y.shape, generator=g), y)
    return of(fit(mlp(20, 32, 5), (x, given if learned else y), 40), (x, given), held)


def lopsided(weight: float) -> Sound:
    """One class of two is rare; it counts so much more in training."""
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(1200, generator=g) < 0.08).long()
    x = 0.5 * y[:, None] + torch.randn(1200, 6, generator=g)
    torch.manual_seed(0)
    train = (x[:600], y[:600])
    by = torch.tensor([1.0, weight])
    net = fit(nn.Linear(6, 2), train, 100, lambda o, t: nn.functional.cross_entropy(o, t, weight=by), lr=0.05)
    return of(net, train, (x[600:], y[600:]))


def one_sided() -> Sound:
    """Half of one class of two was called the other, which the model then says of all."""
    g = torch.Generator().manual_seed(1)
    y = (torch.rand(800, generator=g) < 0.45).long()
    x = 1.2 * y[:, None] * torch.tensor([1.0, 1, 1, 0, 0, 0]) + torch.randn(800, 6, generator=g)
    given = torch.where(torch.rand(800, generator=g) < 0.5, 0, y)
    train = (x[:400], given[:400])
    return of(fit(mlp(6, 32, 2), train, 16), train, (x[400:], y[400:]))


def some_classes() -> Sound:
    """A head for fifty classes, of which train has five."""
    train, held = blobs(5, 80, 0.8)
    return of(fit(mlp(20, 32, 50), train, 60), train, held)


def only_the_head() -> Sound:
    """Random features that nobody trained, and a head that was."""
    (x, y), held = blobs(4, 100, 0.9)
    net = mlp(20, 64, 4)
    net[0].requires_grad_(False)
    return of(fit(net, (x, y), 100), (x, y), held)


def blurred() -> Sound:
    """An evaluation set that is harder than train."""
    train, (x, y) = blobs(4, 100, 1.0)
    g = torch.Generator().manual_seed(3)
    return of(fit(mlp(20, 32, 4), train, 80), train, (x + 0.7 * torch.randn(x.shape, generator=g), y))


def numbers() -> Sound:
    """A regression; what is off by more than two standard deviations of the noise is a failure."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5, generator=g)
    y = (x @ torch.randn(5, generator=g))[:, None] + 0.5 * torch.randn(400, 1, generator=g)
    net = fit(mlp(5, 16, 1), (x[:200], y[:200]), 200, nn.functional.mse_loss)
    likelihood = amends.likelihoods.Gaussian(sigma=0.4)
    wrong = torch.tensor(amends.failing(net, (x[200:], y[200:]), likelihood=likelihood))
    return Sound(
        net, (x[:200], y[:200]), (x[200:][wrong], y[200:][wrong]), (x[200:][~wrong], y[200:][~wrong]), likelihood
    )


def several_labels() -> Sound:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(600, 6, generator=g)
    y = ((x @ torch.randn(6, 3, generator=g) + torch.randn(600, 3, generator=g)) > 0).float()
    net = fit(mlp(6, 16, 3), (x[:300], y[:300]), 100, nn.functional.binary_cross_entropy_with_logits)
    likelihood = amends.likelihoods.Bernoulli()
    wrong = torch.tensor(amends.failing(net, (x[300:], y[300:]), likelihood=likelihood))
    return Sound(
        net, (x[:300], y[:300]), (x[300:][wrong], y[300:][wrong]), (x[300:][~wrong], y[300:][~wrong]), likelihood
    )


def mixed(outputs: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, y, label_smoothing=0.2)


SOUND: dict[str, Callable[[], Sound]] = {
    "pictures": lambda: world(pictures),
    "texts": lambda: world(texts),
    "a table": lambda: world(table),
    "ten digits": lambda: (lambda n, t, f, r: Sound(n, t, f, r))(*clean_digits()),
    "two classes, hardly told apart": lambda: trained(2, 300, 0.08, hidden=4, epochs=30),
    "77 classes": lambda: trained(77, 12, 0.9, hidden=64),
    "77 classes, barely fitted": lambda: trained(77, 12, 0.9, hidden=64, epochs=25),
    "a rare class at any price": lambda: lopsided(15.0),
    "a rare class that is never told": lambda: lopsided(1.0),
    "a class made rare by wrong labels, and never told": one_sided,
    "a third of the labels wrong, and not learned": lambda: noisy(0.33, learned=False),
    "40 % of the labels wrong, and learned": lambda: noisy(0.4, learned=True),
    "memorised": lambda: trained(3, 40, 0.3, hidden=128, epochs=300),
    "few examples": lambda: trained(4, 8, 1.0),
    "stopped early": lambda: trained(5, 100, 0.8, epochs=12),
    "held back by weight decay": lambda: trained(5, 100, 0.8, epochs=300, weight_decay=0.1),
    "smoothed labels": lambda: trained(5, 100, 0.8, loss=mixed),
    "log-probabilities, which are logits": lambda: world(pictures, lambda net: nn.Sequential(*net, nn.LogSoftmax(1))),
    "fifty outputs, five classes": some_classes,
    "only the head was trained": only_the_head,
    "an evaluation set that is harder": blurred,
    "weights in bfloat16": lambda: world(table, lambda net: deepcopy(net).bfloat16()),
    "a linear model": lambda: of_net(nn.Linear(20, 5), 200),
    "dropout, off as it should be": lambda: of_net(mlp(20, 64, 5, nn.Dropout(0.5)), 150),
    "a regression": numbers,
    "several labels": several_labels,
}  # fmt: skip
