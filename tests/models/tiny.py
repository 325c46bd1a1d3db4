"""Sizes, words and data of tiny Hugging Face models."""

from __future__ import annotations

import numpy as np
import torch

WORDS = ["good", "fine", "great", "bad", "dull", "poor", "the", "film", "was", "a", "story", "of"]
TINY = {"vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "max_position_embeddings": 16}  # fmt: skip
CAUSAL = {"vocab_size": 20, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 1,
          "eos_token_id": 1, "pad_token_id": 0}  # fmt: skip


def made(kind):
    """A BERT of one layer that tells two classes, or a GPT-2, whose embedding is its output too."""
    from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(**CAUSAL)).eval()
    return BertForSequenceClassification(BertConfig(**{**TINY, "num_hidden_layers": 1})).eval()


def save_tokenizer(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = {w: i for i, w in enumerate(["[PAD]", "[END]", "[UNK]", "[CLS]", *WORDS])}
    made = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]", model_max_length=8
    ).save_pretrained(folder)


def save(model, folder):
    from amends.models.huggingface import quiet

    with quiet():
        model.save_pretrained(folder)
    return folder


def sentences(n, seed=0):
    """Texts whose first word decides, and their labels."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 6, n)
    texts = [f"{WORDS[i]} {' '.join(rng.choice(WORDS[6:], 4))}" for i in first]
    return texts, torch.as_tensor((first < 3).astype(np.int64))


def world(loaded, n=40):
    texts, y = sentences(n)
    x = loaded.encode(texts)
    some = [{k: v[part] for k, v in x.items()} for part in (slice(0, 20), slice(20, 28), slice(28, n))]
    return (some[0], y[:20]), (some[1], 1 - y[20:28]), (some[2], y[28:])
