"""Models in half precision are computed in float32, and come back as they were."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from safetensors.torch import load_file, save_file

import amends
from amends.models import load
from tests.worlds import QUICK


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_repair_of_a_half_model_is_that_of_the_same_weights_in_float32(planted, dtype, tmp_path, capsys):
    net, *sets, _ = planted
    half = deepcopy(net).to(dtype)
    whole = deepcopy(half).float()
    results = [amends.repair(m, *sets, **{**QUICK, "remove": 45}, learn=False, progress=True) for m in (half, whole)]
    assert results[0].metrics == results[1].metrics
    assert [len(r.removed) for r in results] == [45, 45]
    assert {p.dtype for p in results[0].model.parameters()} == {dtype}
    for p, q in zip(results[0].model.parameters(), results[1].model.parameters(), strict=True):
        assert torch.equal(p, q.to(dtype))
    name = str(dtype).removeprefix("torch.")
    said = capsys.readouterr().err
    assert said.count(f"note: the weights are {name}: they are computed in float32 and handed back in {name}") == 1
    results[0].save(tmp_path / "run")
    kept = load_file(tmp_path / "run/repaired/model.safetensors")
    assert {v.dtype for v in kept.values()} == {dtype}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_kind_of_search_takes_them(planted, dtype):
    net, train, failures, remaining, _ = planted
    half = deepcopy(net).to(dtype)
    few = [(x[:60], y[:60]) for x, y in (train, failures, remaining)]
    for method in (amends.methods.linear(), amends.methods.kfac_ewc(), amends.methods.loss()):
        found, whole = (amends.identify(m, *few, method=method) for m in (half, deepcopy(half).float()))
        assert (found.scores == whole.scores).all()
    assert next(half.parameters()).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_a_half_checkpoint_loads(planted, tmp_path, dtype, ending):
    state = {k: v.to(dtype) for k, v in planted[0].state_dict().items()}
    path = tmp_path / f"model.{ending}"
    save_file(state, path) if ending == "safetensors" else torch.save(state, path)
    (tmp_path / f"half_{ending}.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))\n"
    )
    loaded = load(function=f"half_{ending}:build", weights=path.name, folder=tmp_path)
    assert all(torch.equal(v.to(dtype), state[k]) for k, v in loaded.model.state_dict().items())
