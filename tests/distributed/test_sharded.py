"""A frozen model whose layers lie in several processes (`fully_shard`), below an adapter that each of them has."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor, nn

import amends
from amends.distributed.group import alone
from amends.editors import LBFGS
from amends.evidence.params import flatten
from tests.distributed.processes import in_group, sha256


class Adapted(nn.Module):
    """A linear layer, and beside it a change of rank 2."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.down, self.up = (nn.Parameter(torch.randn(shape) / 4) for shape in ((2, inputs), (outputs, 2)))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T


class Reader(nn.Module):
    """One block of a transformer over words, and a class."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.out = nn.Embedding(20, 16), nn.LayerNorm(16), nn.Linear(16, 3)
        self.asked, self.joined = Adapted(16, 48), Adapted(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.words(x)
        parts = self.asked(self.norm(x)).chunk(3, -1)
        return self.out((x + self.joined(nn.functional.scaled_dot_product_attention(*parts))).mean(1))


def reader() -> Reader:
    torch.manual_seed(0)
    model = Reader().eval()
    for name, p in model.named_parameters():
        p.requires_grad_(name.endswith(("down", "up")))
    return model


def frozen(model: Reader) -> list[nn.Module]:
    return [model.words, model.asked.base, model.joined.base, model.out]


def over_all(layers: list[nn.Module]) -> None:
    """Each layer sharded over all processes of the group, and given back after it was called."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)


def found(model: Reader) -> str:
    """A hash of scores, of what a table says of them, of scores of another method, of treated weights, and of a
    repair's curve, whose fits would be dealt out."""
    x = torch.randint(0, 20, (41, 7), generator=torch.Generator().manual_seed(1))
    train, failures, remaining = (x, x[:, 0] % 3), (x[:9], (x[:9, 0] + 1) % 3), (x[9:30], x[9:30, 0] % 3)
    ask, short = {"batch_size": 5}, LBFGS(steps=3)
    search = amends.identify(model, train, failures, remaining, method=amends.methods.functional(climb=short), **ask)
    fisher = amends.identify(model, train, failures, remaining, method=amends.methods.ewc(climb=short), **ask)
    treated = amends.treat(model, train, search.top(3), method=amends.methods.fine_tune(epochs=1), **ask)
    with torch.no_grad():  # passes of a table would be dealt out
        after = search.frame()["p_given_after"].to_numpy()
    changed = {k: p for k, p in treated.named_parameters() if p.requires_grad}
    repaired = amends.repair(
        model, train, failures, remaining, identify_with=search.scores, treat_with=amends.methods.fine_tune(epochs=1),
        learn=False, budget="quick", anyway=True, progress=False, **ask,
    )  # fmt: skip
    curve = [[row["query"], row["guard"]] for row in repaired.metrics["curve"]]
    return sha256(search.scores, after, fisher.scores, flatten(changed).detach(), np.array(curve))


def in_pieces() -> tuple:
    """What is found with sharded layers and with whole ones, and how much of the frozen weights is here."""
    warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # torch's own, of what is done in place to an output
    with alone():
        whole = found(reader())
    model = reader()
    before = {k: p.detach().clone() for k, p in model.named_parameters()}
    over_all(frozen(model))
    marks = found(model), whole
    here = [p.to_local().numel() for layer in frozen(model) for p in layer.parameters()]
    kept = all(torch.equal(getattr(p, "full_tensor", lambda p=p: p)(), before[k]) for k, p in model.named_parameters())
    return *marks, sum(here), kept


def refused() -> list[str]:
    """What is said of an adapter inside a sharded layer, and of a sharded layer in training mode."""
    said, x = [], torch.zeros(8, 7, dtype=torch.long)
    inside, training = reader(), reader().train()
    over_all([inside.asked])
    over_all(frozen(training))
    for model in (inside, training):
        try:
            amends.identify(model, (x, x[:, 0]), (x, x[:, 0]), method=amends.methods.grad_dot())
        except amends.errors.BadInput as e:
            said.append(str(e))
    return said


def test_sharded_layers_below_an_adapter_change_nothing(tmp_path):
    """To the bit, in every process; and each has half of the frozen weights when it is over."""
    every = sum(p.numel() for layer in frozen(reader()) for p in layer.parameters())
    said = in_group(2, in_pieces, tmp_path)
    assert len({mark for marks in said for mark in marks[:2]}) == 1
    assert [kept for *_, kept in said] == [True] * 2
    assert sum(here for _, _, here, _ in said) == every
    assert np.ptp([here for _, _, here, _ in said]) < 0.1 * every


def test_what_cannot_be_sharded_is_said(tmp_path):
    assert in_group(2, refused, tmp_path) == [[
        "asked is sharded over processes and has weights that may change; model; shard frozen layers alone, each by "
        "itself, and leave the adapter whole",
        "words is sharded over processes and in training mode; model; call model.eval() first",
    ]] * 2  # fmt: skip
