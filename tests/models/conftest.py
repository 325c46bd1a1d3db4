"""Tiny Hugging Face models and an adapter, made here."""

from __future__ import annotations

import json

import pytest
import torch

from amends.models import load
from tests.models.tiny import CAUSAL, TINY, save, save_tokenizer


@pytest.fixture(scope="module")
def offline():
    """A request would fail at once, and be seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr("socket.socket.connect", lambda *a: pytest.fail("a connection was opened"))
        yield


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    from transformers import BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = BertConfig(**TINY, id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1})
    save(BertForSequenceClassification(config), folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    save(GPT2LMHeadModel(GPT2Config(**CAUSAL)), folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    from transformers import ViTConfig, ViTForImageClassification

    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=8,
        id2label={0: "cat", 1: "dog", 2: "cow"}, label2id={"cat": 0, "dog": 1, "cow": 2},
    )  # fmt: skip
    save(ViTForImageClassification(config), folder)
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}, "do_rescale": True,
                "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_resize": True}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def adapter(classifier, tmp_path_factory):
    """LoRA on the attention, and a head of its own; its weights are not zero."""
    from peft import LoraConfig, TaskType, get_peft_model

    folder = tmp_path_factory.mktemp("lora")
    base = load(huggingface=classifier).model
    torch.manual_seed(1)
    config = LoraConfig(task_type=TaskType.SEQ_CLS, r=2, target_modules=["query", "value"], init_lora_weights=False)
    get_peft_model(base, config).save_pretrained(str(folder))
    return folder
