"""LoRA adapters: only the adapter is edited and written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.models import load
from tests.models.tiny import world

pytestmark = pytest.mark.usefixtures("offline")


def test_only_the_adapter_is_edited(classifier, adapter, tmp_path):
    loaded = load(huggingface=classifier, adapter=adapter)
    before = {k: v.clone() for k, v in loaded.model.state_dict().items()}
    own = {k for k in before if "lora_" in k or "modules_to_save" in k}
    assert set(Network.of(loaded.model, Categorical()).params) == own
    assert any("modules_to_save" in k for k in own)
    train, failures, remaining = world(loaded)
    for method in ("grad_dot", "ewc", "functional"):
        influence = amends.identify(
            loaded, train, failures, remaining=remaining, method=getattr(amends.methods, method)()
        )
        assert np.ptp(influence.scores) > 0
    after = amends.treat(loaded, train, [0, 3], method=amends.methods.fine_tune(rate=0.01, epochs=2))
    state = after.state_dict()
    assert all(torch.equal(state[k], before[k]) for k in before if k not in own)
    assert any(not torch.equal(state[k], before[k]) for k in own)
    loaded.write(after, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    back = load(huggingface=classifier, adapter=tmp_path).model.state_dict()
    assert all(torch.equal(back[k], state[k]) for k in state)


def test_an_adapter_on_a_module_of_ones_own(tmp_path):
    from peft import LoraConfig, get_peft_model

    (tmp_path / "own.py").write_text(
        "import torch\nfrom torch import nn\ndef build():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))\n"
    )
    base = load(function="own:build", folder=tmp_path).model
    made = get_peft_model(base, LoraConfig(r=2, target_modules=["0"], init_lora_weights=False))
    made.save_pretrained(str(tmp_path / "lora"))
    loaded = load(function="own:build", adapter="lora", folder=tmp_path)
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    influence = amends.identify(loaded, (x[:20], y[:20]), (x[20:], 1 - y[20:]), method=amends.methods.ewc())
    assert set(influence.train.network.params) == {
        "base_model.model.0.lora_A.default.weight", "base_model.model.0.lora_B.default.weight",
    }  # fmt: skip
