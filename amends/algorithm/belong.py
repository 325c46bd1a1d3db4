"""Whether model and data belong together. A model that was trained on its data does about as well as simple
alternatives: its classes in another order, a new last layer, its outputs at another scale. Where one of these does far
better, something in the setup is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from amends.data.inputs import leaves
from amends.data.splits import halves, some
from amends.errors import NonFinite
from amends.evaluation.agreement import (
    KNOWS,
    LEARNED,
    better_order,
    beyond_guessing,
    fitted_anew,
    knows_more,
    near_chance,
    other_scale,
    unknown,
)
from amends.evaluation.predictions import class_targets, given
from amends.evidence.factor import Factor
from amends.nearness.neighbours import features

LOOKED_AT = 1000  # examples of a set, drawn at random where it has more
MET = 256  # examples of train whose mean and spread are compared with the statistics of batch norm
FEW = 32  # examples that are held in float64 at once
LEAST = 30  # examples below which no test of a setup is worth making
NAMED = 6  # outputs, or columns, that a message names
REMEMBERED = 1 / 3  # how far inputs of batch norm may be from its running statistics
APART = 2.0  # how far apart evaluation and train may be in most channels or columns
COLUMN = 25.0  # and in any one column of a table


def some_of(data: Factor) -> Factor:
    return data[some(np.arange(len(data)), LOOKED_AT, 0)]


def right_share(data: Factor, outputs: np.ndarray | None = None) -> float:
    """The share of the examples that the model gets right; NonFinite where its output for one is NaN or infinite. Its
    `outputs` are not computed again where they are given."""
    network = data.network

    def right_and_finite(out: Tensor, y: Tensor) -> Tensor:
        return torch.stack([network.likelihood.right(out, y).bool(), out.isfinite().flatten(1).all(1)], 1)

    if outputs is None:
        found = data.map(lambda x, y: right_and_finite(network.outputs(network.params, x), y))
    else:
        found = right_and_finite(torch.as_tensor(outputs), data.examples.y.cpu())
    right, finite = found.cpu().numpy().astype(bool).T
    if not finite.all():
        at = int(data.examples.rows[int(np.flatnonzero(~finite)[0])])
        what = f"the model's output is NaN or infinite; {data.examples.name}[{at}]"
        raise NonFinite(f"{what}; drop the example or check the model")
    return float(right.mean())


def logits(data: Factor) -> np.ndarray | None:
    """The outputs of each example, in float64; None where targets are no classes."""
    if not class_targets(data):
        return None
    return data.outputs(data.network.params).double().cpu().numpy()


def of_train(train: Factor, outputs: np.ndarray | None) -> Iterator[str]:
    """The first alarm about train, if there is one: several would have one cause."""
    if outputs is None or len(train) < LEAST:
        return
    y, predicted = given(train), outputs.argmax(1)
    found = list(_order(train, y, predicted, "train"))
    yield from found
    if found:
        return
    anew = fitted_anew(features(train, train.network.params).cpu().numpy(), y, halves(y, 0))
    if knows_more(y, predicted, anew):
        norm = "what its batch norm remembers, " if _remembering(train) else ""
        yield (
            f"the model is right on {(predicted == y).mean():.1%} of train, but a new last layer on the same features "
            f"would be right on {(anew == y).mean():.1%}: the model does not seem to be trained on this data; model; "
            f"check its weights, {norm}how inputs are prepared (mean, std, size) and the order of classes"
        )
    elif unknown(y, outputs, LEARNED):
        yield _guessing(y, predicted, "train")


def of_evaluation(held: Mapping[str, Factor], many: Mapping[str, int]) -> Iterator[str]:
    """The same for the evaluation set, with failures and right examples in the proportion they have."""
    share = min(len(data) / many[name] for name, data in held.items())
    parts = [data[some(np.arange(len(data)), max(1, round(share * many[name])), 0)] for name, data in held.items()]
    outputs = [found for data in parts if (found := logits(data)) is not None]
    if len(outputs) < len(parts) or sum(map(len, outputs)) < LEAST:
        return
    y, every = np.concatenate([given(data) for data in parts]), np.concatenate(outputs)
    predicted = every.argmax(1)
    found = list(_order(parts[0], y, predicted, "evaluation"))
    yield from found
    if not found and (near_chance(y, predicted) or unknown(y, every, KNOWS)):
        yield _guessing(y, predicted, "evaluation")


def _order(data: Factor, y: np.ndarray, predicted: np.ndarray, name: str) -> Iterator[str]:
    order = better_order(y, predicted, halves(y, 0))
    if order is None:
        return
    names = data.examples.classes
    called = [str(k) if not names else names[k] if k < len(names) else "none of them" for k in range(len(order))]
    moved = [f"output {k} as {called[c]}" for k, c in enumerate(order) if k != c]
    what = "classes seem to be" if not 0 < len(names) < len(order) else (
        f"there are {len(names)} names of classes for {len(order)} outputs, and they seem to be"
    )  # fmt: skip
    more = f" and {len(moved) - NAMED} more" if len(moved) > NAMED else ""
    yield (
        f"{what} in another order than the outputs of the model: it is right on "
        f"{(predicted == y).mean():.1%} of {name}, and would be right on {(order[predicted] == y).mean():.1%} with "
        f"{', '.join(moved[:NAMED])}{more}; classes; list them in the order of the outputs"
    )


def _guessing(y: np.ndarray, predicted: np.ndarray, name: str) -> str:
    blind = beyond_guessing(y, predicted)[2]
    return (
        f"the model knows next to nothing about {name}: it is right on {(predicted == y).mean():.1%}, and guessing "
        f"would be right on {blind:.1%}; {name}; "
        "check that weights, inputs and labels belong together"
    )


def readings(train: Factor, outputs: np.ndarray | None) -> Iterator[str]:
    """Signs that a sound model may show too, and that a person should know of."""
    if len(train) < LEAST:
        return
    if outputs is not None:
        found = other_scale(given(train), outputs)
        if found is not None and found[0] > 1:
            yield (
                f"the outputs are small: multiplied by {found[0]:.3g} they would fit the labels of train far better; "
                "are they logits, or did training end early?"
            )
        elif found is not None:
            yield (
                f"the outputs are large: multiplied by {found[0]:.3g} they would fit the labels of train far better; "
                "are inputs prepared (mean, std, size) and labels given as in training?"
            )
    distance = _from_memory(train)
    if distance is not None and distance > REMEMBERED:
        yield (
            "the inputs of the first batch norm have another mean or spread here than in training; are its running "
            "statistics loaded, and inputs prepared (mean, std) as in training?"
        )


def _from_memory(train: Factor) -> float | None:
    """How far the inputs of the first batch norm are from its running statistics; None without batch norm."""
    if not (norms := _remembering(train)):
        return None
    first = norms[0]
    met: list[tuple[int, Tensor, Tensor]] = []
    handle = first.register_forward_pre_hook(
        lambda _, args: met.append((len(args[0]), *_of_channels(args[0].detach())))
    )
    try:
        train[:MET].outputs(train.network.params)
    finally:
        handle.remove()
    assert first.running_mean is not None
    assert first.running_var is not None
    if not met:
        return None
    return float(_distances(*_joined(met), first.running_mean.double(), first.running_var.double()).median())


def _remembering(train: Factor) -> list[nn.modules.batchnorm._BatchNorm]:
    """Batch norms with running statistics."""
    norms = [m for m in train.network.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    return [m for m in norms if m.running_mean is not None and m.running_var is not None]


def differently_prepared(train: Factor, held: Mapping[str, Factor]) -> Iterator[str]:
    """Whether what is held out has inputs of another mean or spread than train, in most channels or in one column."""
    if len(train) < LEAST or sum(map(len, held.values())) < LEAST:
        return
    shapes = {_shape(data) for data in (train, *held.values())}
    shape = shapes.pop()
    if shape is None or shapes:
        return
    apart = _distances(*_of_inputs([train]), *_of_inputs(list(held.values())))
    if float(apart.median()) > APART:
        yield (
            "inputs of train and of the held-out sets differ widely in mean or spread; are both prepared (mean, std, "
            "size) in the same way?"
        )
    elif len(shape) == 1 and bool((apart > COLUMN).any()):
        names, far = train.examples.features, torch.nonzero(apart > COLUMN).flatten().tolist()
        columns = ", ".join(str(names[i]) if i < len(names) else str(i) for i in far[:NAMED])
        more = f" and {len(far) - NAMED} more" if len(far) > NAMED else ""
        yield (
            f"columns of train and of the held-out sets differ widely in mean or spread: {columns}{more}; are they in "
            "the same units?"
        )


def _shape(data: Factor) -> tuple[int, ...] | None:
    """Of one input, where inputs are one tensor of numbers."""
    x = data.examples.x
    usable = isinstance(x, Tensor) and x.is_floating_point() and x.layout == torch.strided and x.ndim > 1
    return tuple(x.shape[1:]) if usable and isinstance(x, Tensor) else None


def _of_inputs(sets: list[Factor]) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, or of each column, over the examples of all these sets."""
    parts = ((f, i, min(i + FEW, len(f))) for f in sets for i in range(0, len(f), FEW))
    found = [(stop - start, *_moments(leaves(f.examples.fetch(start, stop)[0])[0])) for f, start, stop in parts]
    return _joined([(n, mean.cpu(), var.cpu()) for n, mean, var in found])  # sets may be on two devices


def _joined(parts: list[tuple[int, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Mean and variance of all, from the size, mean and variance of each part."""
    sizes, means, spreads = (list(own) for own in zip(*parts, strict=True))
    means, spreads = torch.stack(means), torch.stack(spreads)
    weight = torch.tensor(sizes).to(means)[:, None] / sum(sizes)
    mean = (weight * means).sum(0)
    return mean, (weight * (spreads + (means - mean) ** 2)).sum(0)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of inputs [N, C, ...], or of sequences [N, T, C]."""
    return _of_channels(x if x.ndim != 3 else x.transpose(1, 2))


def _of_channels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of [N, C, ...], which a batch norm always meets."""
    rows = x.transpose(0, 1).flatten(1).double()
    return rows.mean(1), rows.var(1, unbiased=False)


def _distances(mean: Tensor, var: Tensor, other: Tensor, spread: Tensor) -> Tensor:
    """Of normal distributions with these moments, the mean of both Kullback-Leibler divergences; 0 where one of them
    does not vary."""
    both = (var > 0) & (spread > 0)
    var, spread = (torch.where(both, v, 1.0) for v in (var, spread))
    shift = torch.where(both, (mean - other) ** 2, 0.0)
    return (var / spread + spread / var - 2 + shift / var + shift / spread) / 4
