"""The page on methods of one's own, run as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import nn
from torch.testing import assert_close

import amends
from tests.conftest import classification, factor

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()


def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_a_method_in_under_forty_lines_does_both_steps(monkeypatch):
    written, used = blocks()
    assert len(written.strip().splitlines()) < 40
    x, y, network = classification(n=80)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    before = [p.detach().clone() for p in model.parameters()]
    world = {"amends": amends, "model": model, "train": (x[:50], y[:50]), "failures": (x[50:60], y[50:60]),
             "remaining": (x[60:], y[60:]), "__name__": "page"}  # fmt: skip
    monkeypatch.setitem(sys.modules, "page", ModuleType("page"))  # a dataclass asks for its module
    exec(written, world)
    exec(used, world)
    assert np.isfinite(world["influence"].scores).all()
    assert not torch.equal(world["repaired"][0].weight, model[0].weight)
    assert world["result"].metrics["verdict"] in ("repaired", "partly repaired", "not repaired")
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))

    data = factor(network, x[:20], y[:20])
    importance = world["MemoryAware"](2.0)(data).precision.data
    for k in importance:
        total = torch.zeros_like(importance[k])
        for i in range(20):
            live = {n: p.clone().requires_grad_() for n, p in network.params.items()}
            length = (network.outputs(live, x[i : i + 1]) ** 2).sum()
            total += torch.autograd.grad(length, live[k])[0].abs()
        assert_close(importance[k], 2 * total)
