"""Ways to break a setup: other inputs, other labels, another model than the one that was trained on them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tests.faults.kinds import WORDS, World, texts, tokens

Given = tuple[Any, Any, Any]  # model, train, evaluation set
Made = Callable[[World], Given]


class Read(nn.Module):
    """A model whose inputs or outputs are read in another way than it was trained with."""

    def __init__(self, net: nn.Module, before: Any = None, after: Any = None):
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x if self.before is None else self.before(x))
        return out if self.after is None else self.after(out)


class Shaky(Dataset):
    """Every reading adds noise of its own."""

    def __init__(self, pair: tuple[Tensor, Tensor]):
        self.pair = pair

    def __len__(self) -> int:
        return len(self.pair[1])

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        x = self.pair[0][i]
        return x + 0.1 * torch.randn(x.shape), self.pair[1][i]


def drawn(n: int, seed: int = 0) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def prepared(prepare: Callable[[Any], Tensor]) -> Made:
    """Both sets through another preparation."""
    return lambda w: (w.net, w.prepared(w.train, prepare), w.prepared(w.held, prepare))


def held(prepare: Callable[[Any], Tensor]) -> Made:
    """The evaluation set alone through another preparation."""
    return lambda w: (w.net, w.prepared(w.train), w.prepared(w.held, prepare))


def then(change: Callable[[Tensor], Tensor], alone: bool = False) -> Made:
    """Prepared as it should be, then changed; or only the evaluation set."""
    return lambda w: (held if alone else prepared)(lambda raw: change(w.prepare(raw)))(w)


def labels(change: Callable[[Tensor], Tensor], of: str = "both") -> Made:
    def made(w: World) -> Given:
        net, (x, y), (hx, hy) = w.given()
        return net, (x, y if of == "evaluation" else change(y)), (hx, hy if of == "train" else change(hy))

    return made


def model(change: Callable[[Any], nn.Module]) -> Made:
    return lambda w: (change(deepcopy(w.net)), *w.given()[1:])


def outputs(change: Callable[[Tensor], Any]) -> Made:
    return model(lambda net: Read(net, after=change).eval())


def sets(change: Callable[[Any, Any], tuple[Any, Any]]) -> Made:
    return lambda w: (w.net, *change(*w.given()[1:]))


def alphabet(names: tuple[str, ...]) -> Callable[[Tensor], Tensor]:
    """Labels numbered by the alphabet instead of by the model."""
    place = torch.tensor([sorted(names).index(name) for name in names])
    return lambda y: place[y]


def shuffled(y: Tensor) -> Tensor:
    return y[drawn(len(y))]


def anew(*layers: int) -> Callable[[Any], nn.Module]:
    """Some layers of the model with the weights of no training."""

    def change(net: Any) -> nn.Module:
        torch.manual_seed(1)
        for i in layers:
            net[i].reset_parameters()
        return net

    return change


def forgotten(layer: str) -> Callable[[Any], nn.Module]:
    def change(net: Any) -> nn.Module:
        torch.manual_seed(1)
        getattr(net, layer).reset_parameters()
        return net

    return change


def reset_statistics(net: Any) -> nn.Module:
    net[1].reset_running_stats()
    return net


def overflown(net: Any) -> nn.Module:
    net[0].weight.data[0, 0] = torch.inf
    return net


def leaked(train: Any, _: Any) -> tuple[Any, Any]:
    """An evaluation set of training examples: those the model gets wrong, and others."""
    return train, tuple(v[:300] for v in train)


def other_words(seed: int) -> tuple[str, ...]:
    return tuple(WORDS[i] for i in drawn(len(WORDS), seed).tolist())


def with_other_words() -> tuple[Tensor, Tensor]:
    """The texts as a model with another vocabulary saw them."""
    said, y = texts().train
    return tokens(said, other_words(2)), y


def nonsense(train: Any, evaluation: Any) -> tuple[Any, Any]:
    """Words drawn at random in the place of train."""
    said = [" ".join(WORDS[i] for i in drawn(len(WORDS), k)[:9].tolist()) for k in range(300)]
    return (tokens(said), train[1][:300]), evaluation


def column_times(factor: float) -> Callable[[Tensor], Tensor]:
    """The first column in other units."""
    return lambda x: torch.cat([x[:, :1] * factor, x[:, 1:]], 1)


def by_row(x: Tensor) -> Tensor:
    return ((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)).float()
