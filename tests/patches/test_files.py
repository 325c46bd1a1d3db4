"""Patches on weights as other tools keep them: shards with an index, adapters, nets of skorch."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.patches.names import tensors
from amends.patches.patch import between
from amends.patches.shrink import as_grid
from tests.models.tiny import made, save
from tests.patches.kinds import moved, same
from tests.projects import amends as command


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


def on_a_grid(before: nn.Module, after: nn.Module) -> amends.Patch:
    a, b = tensors(before), tensors(after)
    steps = {name: (b[name] - a[name]).double().reshape(-1) for name in a}
    return between(a, b, {name: as_grid(step, -8) for name, step in steps.items() if step.any()})


def there_and_back(folder, patch: amends.Patch) -> None:
    """Every file of the folder is the same bytes again."""
    patch.save("fix.safetensors")
    assert command("apply", "fix.safetensors", folder, "-o", "new") == 0
    assert command("revert", "fix.safetensors", "new", "-o", "old") == 0
    files = sorted(p.name for p in folder.iterdir())
    assert sorted(p.name for p in (folder.parent / "old").iterdir()) == files
    for name in files:
        assert (folder.parent / "old" / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_shards_with_an_index(kind, tmp_path):
    """GPT-2's embedding is its output too, and is in one shard by one name."""
    from amends.models.huggingface import quiet

    model = made(kind)
    after = moved(model)
    with quiet():
        model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    shards = sorted((tmp_path / "model").glob("*.safetensors"))
    assert len(shards) > 1
    (tmp_path / "model" / "consolidated.safetensors").write_bytes(b"what another tool keeps here")
    there_and_back(tmp_path / "model", on_a_grid(model, after))
    patch = amends.Patch.read("fix.safetensors")
    with quiet():
        loaded = type(model).from_pretrained(tmp_path / "new").eval()
    assert same(loaded, amends.apply(model, patch))


def test_a_shard_that_is_missing(tmp_path, capsys):
    from amends.models.huggingface import quiet

    model = made("bert")
    with quiet():
        model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    between(tensors(model), tensors(moved(model))).save("fix.safetensors")
    shard = sorted((tmp_path / "model").glob("*.safetensors"))[1]
    shard.unlink()
    assert command("apply", "fix.safetensors", "model", "-o", "new") == 2
    assert capsys.readouterr().err.strip() == (
        f"error: a shard that the index names is missing; weights model/{shard.name}; copy the whole folder"
    )
    (tmp_path / "model" / "model.safetensors.index.json").write_text("[1")
    assert command("apply", "fix.safetensors", "model", "-o", "new") == 2
    assert "error: the index of shards cannot be read" in capsys.readouterr().err


def test_an_adapter(tmp_path):
    import peft

    base = made("bert")
    config = peft.LoraConfig(target_modules=["query", "value"], r=2, modules_to_save=["classifier"])
    model = peft.get_peft_model(deepcopy(base), config)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:  # zeros until it is trained
                p.copy_(0.02 * torch.randn(p.shape, generator=draw))
    after = deepcopy(model.eval())
    with torch.no_grad():
        for p in (p for p in after.parameters() if p.requires_grad):
            p.add_(0.01 * torch.randn(p.shape, generator=draw))
    save(model, tmp_path / "adapter")
    patch = on_a_grid(model, after)
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in patch.layers} == {"lora_A", "lora_B", "classifier"}
    there_and_back(tmp_path / "adapter", patch)
    loaded = peft.PeftModel.from_pretrained(deepcopy(base), str(tmp_path / "new")).eval()
    words = torch.randint(1, 20, (5, 8), generator=draw)
    with torch.no_grad():
        theirs, ours, was = (m(input_ids=words).logits for m in (loaded, amends.apply(model, patch), model))
    assert torch.equal(theirs, ours)
    assert not torch.equal(theirs, was)


def test_a_net_of_skorch():
    skorch = pytest.importorskip("skorch")
    module = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1))
    net = skorch.NeuralNetClassifier(module, criterion=nn.NLLLoss).initialize()
    patch = between(tensors(net.module_), tensors(moved(net.module_)))
    there = amends.apply(net, patch)
    assert isinstance(there, skorch.NeuralNetClassifier)
    assert there is not net
    assert same(there.module_, moved(net.module_))
    assert not np.array_equal(there.predict_proba(np.eye(4, dtype="f4")), net.predict_proba(np.eye(4, dtype="f4")))
    assert same(patch.revert(there).module_, net.module_)
