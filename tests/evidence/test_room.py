"""A refused allocation halves the batch, and the run goes on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.errors import OutOfMemory

SAYS = {
    "a GPU's": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "the CPU's": lambda: RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 2147483648 bytes. Error code 12 (Cannot allocate memory)"
    ),
}


class Small(nn.Module):
    """Takes no more examples at once than fit."""

    def __init__(self, most, says="a GPU's"):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        self.most, self.says, self.seen = most, says, []

    def forward(self, x):
        if len(x) > self.most:
            raise SAYS[self.says]()
        SEEN.append(len(x))
        return self.body(x)


SEEN: list[int] = []


def world():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(330, 4, generator=g, dtype=torch.float64)
    true = (x @ torch.randn(4, 3, generator=g, dtype=torch.float64)).argmax(1)
    y = torch.where(torch.rand(330, generator=g) < 0.2, (true + 1) % 3, true)
    model = Small(10**6)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[:200]), y[:200]).backward()
        optimiser.step()
    with torch.no_grad():
        right = model(x[200:]).argmax(1) == true[200:]
    held = (x[200:], true[200:])
    return model.body.state_dict(), (x[:200], y[:200]), *[tuple(t[at] for t in held) for at in (~right, right)]


@pytest.fixture(scope="module")
def worlds():
    torch.set_num_threads(1)
    return world()


def fitting(most, state, says="a GPU's"):
    model = Small(most, says)
    model.body.load_state_dict(state)
    return model


@pytest.mark.parametrize(
    ("method", "says"),
    [("ewc", "a GPU's"), ("functional", "the CPU's"), ("grad_dot", "a GPU's"), ("kfac_ewc", "the CPU's"),
     ("linear", "a GPU's")],
)  # fmt: skip
def test_the_batch_is_halved_and_nothing_else_changes(worlds, method, says):
    state, *sets = worlds
    way = getattr(amends.methods, method)()
    whole = amends.identify(fitting(10**6, state), *sets, method=way, batch_size=32)
    SEEN.clear()
    with pytest.warns(UserWarning, match="do not fit into memory, so the run goes on with") as said:
        halved = amends.identify(fitting(9, state, says), *sets, method=way, batch_size=32)
    assert max(SEEN) == 8
    assert [str(w.message).split()[0] for w in said] == ["32", "16"]  # no batch that was refused is tried again
    np.testing.assert_allclose(halved.scores, whole.scores, rtol=1e-6, atol=1e-9)  # float64; a long edit magnifies


def test_a_whole_repair_goes_on(worlds):
    state, train, failures, remaining = worlds
    ask = {"identify_with": amends.methods.grad_dot(), "treat_with": amends.methods.fine_tune(epochs=2, batch=64)}
    whole = amends.repair(fitting(10**6, state), train, failures, remaining, remove=20, batch_size=64, **ask)
    with pytest.warns(UserWarning, match="do not fit into memory"):
        halved = amends.repair(fitting(20, state), train, failures, remaining, remove=20, batch_size=64, **ask)
    assert halved.verdict == whole.verdict
    assert halved.metrics["holdout"] == whole.metrics["holdout"]
    assert sorted(halved.influence.top(20)) == sorted(whole.influence.top(20))


@pytest.mark.filterwarnings("ignore:.*do not fit into memory")
@pytest.mark.parametrize("says", SAYS)
def test_where_not_one_example_fits_it_is_said(worlds, says):
    state, *sets = worlds

    class Less(Small):
        def forward(self, x):
            if torch.is_grad_enabled():
                raise SAYS[says]()
            return self.body(x)

    less = Less(10**6, says)
    less.body.load_state_dict(state)
    with pytest.raises(OutOfMemory, match=r"out of memory \(.*\); identify; give a smaller batch_size"):
        amends.identify(less, *sets, method=amends.methods.functional(), batch_size=4)


def test_another_error_is_not_taken_for_memory(worlds):
    _, *sets = worlds

    class Broken(Small):
        def forward(self, x):
            if torch.is_grad_enabled():
                raise RuntimeError("the weather is bad")
            return self.body(x)

    with pytest.raises(RuntimeError, match="the weather is bad"):
        amends.identify(Broken(10**6), *sets, method=amends.methods.functional())
