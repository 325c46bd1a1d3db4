"""Hugging Face directories: read, edited, written back; nothing is downloaded."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import amends
from amends.errors import BadInput
from amends.evidence.network import Network
from amends.likelihoods import Bernoulli, Categorical, Gaussian, Tokens
from amends.models import load
from tests.models.tiny import CAUSAL, TINY, sentences, world

pytestmark = pytest.mark.usefixtures("offline")


def test_a_text_classifier(classifier, tmp_path):
    loaded = load(huggingface=classifier)
    assert loaded.classes == ("negative", "positive")
    assert loaded.likelihood is None
    x = loaded.encode(["good film", "the story of a dull film was poor and so on and on"])
    assert x["input_ids"].shape == x["attention_mask"].shape == (2, 8)
    assert x["attention_mask"].sum(1).tolist() == [2, 8]
    assert load(huggingface=classifier, options={"max_length": 5}).encode(["good"])["input_ids"].shape == (1, 5)
    assert {p.name for p in loaded.files} >= {"config.json", "model.safetensors", "tokenizer.json"}
    with torch.no_grad():
        next(loaded.model.parameters()).add_(1)
    loaded.write(loaded.model, tmp_path)
    back = load(huggingface=tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), back.model.parameters(), strict=True))
    assert back.classes == loaded.classes
    assert torch.equal(back.encode(["dull film"])["input_ids"], loaded.encode(["dull film"])["input_ids"])


def test_an_image_classifier(images, tmp_path):
    loaded = load(huggingface=images)
    assert loaded.classes == ("cat", "dog", "cow")
    x = loaded.encode([torch.ones(3, 20, 20), torch.zeros(1, 20, 20)])["pixel_values"]
    assert x.shape == (2, 3, 16, 16)
    assert torch.equal(x[0], torch.ones(3, 16, 16))  # (255/255 − ½)/½
    assert torch.equal(x[1], -torch.ones(3, 16, 16))
    loaded.write(loaded.model, tmp_path)
    assert torch.equal(load(huggingface=tmp_path).encode([torch.ones(3, 9, 9)])["pixel_values"], x[:1])
    noise = torch.randn(30, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    y = torch.arange(30) % 3
    influence = amends.identify(
        loaded, ({"pixel_values": noise[:20]}, y[:20]), ({"pixel_values": noise[20:]}, y[20:]),
        method=amends.methods.ewc(),
    )  # fmt: skip
    assert np.isfinite(influence.scores).all()


def test_a_causal_model_keeps_its_tied_weights(causal, tmp_path):
    loaded = load(huggingface=causal)
    assert loaded.likelihood == Tokens()
    assert loaded.classes == ()
    names = list(Network.of(loaded.model, Tokens()).params)
    assert "transformer.wte.weight" in names
    assert "lm_head.weight" not in names
    with torch.no_grad():
        loaded.model.transformer.wte.weight.add_(1)
    loaded.write(loaded.model, tmp_path)
    back = load(huggingface=tmp_path).model
    assert back.lm_head.weight is back.transformer.wte.weight
    assert torch.equal(back.lm_head.weight, loaded.model.lm_head.weight)


@pytest.mark.parametrize("method", ["grad_dot", "ewc", "kfac_ewc", "functional", "linear"])
def test_methods_find_their_way_through_a_transformer(classifier, method):
    loaded = load(huggingface=classifier)
    before = {k: v.clone() for k, v in loaded.model.state_dict().items()}
    train, failures, remaining = world(loaded)
    influence = amends.identify(loaded, train, failures, remaining=remaining, method=getattr(amends.methods, method)())
    assert np.isfinite(influence.scores).all()
    assert np.ptp(influence.scores) > 0
    assert all(torch.equal(v, before[k]) for k, v in loaded.model.state_dict().items())


def test_every_gradient_of_a_transformer_is_exact(classifier):
    """Positions enter once for the whole batch; their per-example gradients are told apart all the same."""
    from amends.curvature import Diagonal, Empirical
    from amends.curvature.backprop import plan
    from tests.conftest import factor

    loaded = load(huggingface=classifier)
    network = Network.of(loaded.model.double(), Categorical())
    texts, y = sentences(6)
    data = factor(network, loaded.encode(texts), y, batch=4)
    assert plan(data, network.params).general == ()
    diagonal = Diagonal(Empirical())(data, network.params).data
    slow = {k: torch.zeros_like(v) for k, v in network.params.items()}
    for i in range(6):
        _, grad = data[i : i + 1].value_and_grad(network.params)
        slow = {k: slow[k] + grad[k] ** 2 for k in slow}
    for k in slow:
        torch.testing.assert_close(diagonal[k], slow[k], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_every_gradient_of_a_causal_model_is_exact(kind):
    """Their own linear layers and norms follow rules, tied embeddings are one parameter."""
    import transformers

    from amends.curvature import Diagonal, Empirical
    from amends.curvature.backprop import plan
    from tests.conftest import factor

    config = CAUSAL if kind == "GPT2" else TINY | {"bos_token_id": 1, "eos_token_id": 1, "tie_word_embeddings": True}
    torch.manual_seed(0)
    ending = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    model = getattr(transformers, kind + ending)(getattr(transformers, f"{kind}Config")(**config))
    network = Network.of(model.double(), Tokens())
    x = torch.randint(0, 20, (5, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(x)
    mask[::2, 4:] = 0
    data = factor(network, {"input_ids": x, "attention_mask": mask}, torch.where(mask.bool(), x, -100), batch=3)
    assert plan(data, network.params).general == ()
    diagonal = Diagonal(Empirical())(data, network.params).data
    slow = {k: torch.zeros_like(v) for k, v in network.params.items()}
    for i in range(5):
        _, grad = data[i : i + 1].value_and_grad(network.params)
        slow = {k: slow[k] + grad[k] ** 2 for k in slow}
    for k in slow:  # Llama's norms compute in float32 whatever they are given
        torch.testing.assert_close(diagonal[k], slow[k], rtol=1e-4, atol=1e-6 * float(slow[k].max()))


KINDS = {
    "single_label_classification": type(None), "multi_label_classification": Bernoulli, "regression": Gaussian,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_a_config_implies(classifier, kind):
    loaded = load(huggingface=classifier, options={"problem_type": kind})
    assert isinstance(loaded.likelihood, KINDS[kind])


def spoiled(source, folder, **changes):
    shutil.copytree(source, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_what_cannot_be_loaded_says_why(classifier, causal, adapter, tmp_path):
    def refused(**options):
        with pytest.raises(BadInput) as caught:
            load(**options)
        assert "\n" not in str(caught.value)
        assert "; " in str(caught.value)
        return str(caught.value)

    assert "nothing is downloaded" in refused(huggingface="bert-base-uncased", folder=tmp_path)
    assert "no config.json" in refused(huggingface=tmp_path)
    assert "adapter without its base" in refused(huggingface=adapter)
    assert "task is 'chat'" in refused(huggingface=classifier, task="chat")
    assert "no option depth" in refused(huggingface=classifier, options={"depth": 3})
    assert "would be random" in refused(huggingface=causal, task="text-classification")
    assert "weights cannot be used with huggingface" in refused(huggingface=classifier, weights="w.pt")
    assert "both function and huggingface are given" in refused(huggingface=classifier, function="a:b")
    assert "adapter_config.json cannot be read" in refused(huggingface=classifier, adapter=tmp_path)
    assert "the adapter does not fit" in refused(huggingface=causal, adapter=adapter)
    assert "task is for huggingface only" in refused(function="a:b", task="causal-lm")
    other = spoiled(classifier, tmp_path / "a", architectures=["BertForMaskedLM"])
    assert "the task of a BertForMaskedLM is not known" in refused(huggingface=other)
    quantised = spoiled(classifier, tmp_path / "b", quantization_config={"bits": 4})
    assert "the model is quantised" in refused(huggingface=quantised)
    own_code = spoiled(classifier, tmp_path / "c", auto_map={"AutoModel": "mine.py"})
    assert "its own code" in refused(huggingface=own_code)
    wider = spoiled(classifier, tmp_path / "d", intermediate_size=48)
    assert "the config says [48" in refused(huggingface=wider)
    unknown = spoiled(classifier, tmp_path / "e", model_type="nothing-known")
    assert "transformers cannot load the model" in refused(huggingface=unknown)
    (unknown / "config.json").write_text("{")
    assert "config.json is not valid JSON" in refused(huggingface=unknown)
