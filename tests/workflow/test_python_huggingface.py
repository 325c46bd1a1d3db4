"""Hugging Face models handed over in Python: trained with checkpoints, saved as their library reads them."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import amends

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")


def texts(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 50, (n, 8), generator=g)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, ids[:, 0] % 3


@pytest.fixture(scope="module")
def world():
    """A small classifier that fails on some texts; train, failures and right examples."""
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=50, num_labels=3, **small))
    train, (x, y) = texts(160, 0), texts(200, 1)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(25):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(**train[0]).logits, train[1]).backward()
        optimiser.step()
    wrong = amends.failing(model.eval(), (x, y))
    sets = [({k: v[at] for k, v in x.items()}, y[at]) for at in (wrong, ~wrong)]
    return model, train, *sets


def repaired(model, *sets):
    given = {"identify_with": amends.methods.grad_dot(), "remove": 20, "budget": "quick", "anyway": True}
    return amends.repair(model, *sets, **given)


def test_a_saved_model_loads_as_its_library_loads_it(world, tmp_path):
    model, *sets = world
    result = repaired(model, *sets)
    result.save(tmp_path / "run")
    loaded = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "run" / "repaired").eval()
    torch.testing.assert_close(loaded(**sets[0][0]).logits, result.model(**sets[0][0]).logits, rtol=0, atol=0)


def test_of_an_adapter_the_adapter_is_saved(world, tmp_path):
    model, *sets = world
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query"], r=2)
    base = transformers.BertForSequenceClassification(model.config)
    base.load_state_dict(model.state_dict())
    result = repaired(peft.get_peft_model(base, config).eval(), *sets)
    result.save(tmp_path / "run")
    made = tmp_path / "run" / "repaired"
    assert (made / "adapter_config.json").is_file()
    assert all("lora" in name or "classifier" in name for name in load_file(made / "adapter_model.safetensors"))


def test_gradient_checkpointing_is_left_as_it_was(world):
    model, train, failures, right = world
    expected = amends.identify(model, train, failures, right, method=amends.methods.grad_dot()).scores
    model.gradient_checkpointing_enable()
    model.train()
    found = amends.identify(model, train, failures, right, method=amends.methods.grad_dot()).scores
    assert model.is_gradient_checkpointing
    assert model.training
    model.gradient_checkpointing_disable()
    model.eval()
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)
