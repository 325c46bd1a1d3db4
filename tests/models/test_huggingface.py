"""Hugging Face directories and adapters, tiny and made here: read, edited, written back; nothing is fetched."""

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

WORDS = ["good", "fine", "great", "bad", "dull", "poor", "the", "film", "was", "a", "story", "of"]
TINY = {"vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "max_position_embeddings": 16}  # fmt: skip
CAUSAL = {"vocab_size": 20, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 1,
          "eos_token_id": 1, "pad_token_id": 0}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def offline():
    """A request would fail at once, and be seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr("socket.socket.connect", lambda *a: pytest.fail("a connection was opened"))
        yield


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
    found = amends.identify(
        loaded, ({"pixel_values": noise[:20]}, y[:20]), ({"pixel_values": noise[20:]}, y[20:]),
        method=amends.methods.ewc(),
    )  # fmt: skip
    assert np.isfinite(found.scores).all()


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
    found = amends.identify(loaded, train, failures, remaining=remaining, method=getattr(amends.methods, method)())
    assert np.isfinite(found.scores).all()
    assert np.ptp(found.scores) > 0
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
    found = Diagonal(Empirical())(data, network.params).data
    slow = {k: torch.zeros_like(v) for k, v in network.params.items()}
    for i in range(6):
        _, grad = data[i : i + 1].value_and_grad(network.params)
        slow = {k: slow[k] + grad[k] ** 2 for k in slow}
    for k in slow:
        torch.testing.assert_close(found[k], slow[k], rtol=1e-8, atol=1e-12)


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
    found = Diagonal(Empirical())(data, network.params).data
    slow = {k: torch.zeros_like(v) for k, v in network.params.items()}
    for i in range(5):
        _, grad = data[i : i + 1].value_and_grad(network.params)
        slow = {k: slow[k] + grad[k] ** 2 for k in slow}
    for k in slow:  # Llama's norms compute in float32 whatever they are given
        torch.testing.assert_close(found[k], slow[k], rtol=1e-4, atol=1e-6 * float(slow[k].max()))


def test_only_the_adapter_is_edited(classifier, adapter, tmp_path):
    loaded = load(huggingface=classifier, adapter=adapter)
    before = {k: v.clone() for k, v in loaded.model.state_dict().items()}
    own = {k for k in before if "lora_" in k or "modules_to_save" in k}
    assert set(Network.of(loaded.model, Categorical()).params) == own
    assert any("modules_to_save" in k for k in own)
    train, failures, remaining = world(loaded)
    for method in ("grad_dot", "ewc", "functional"):
        found = amends.identify(loaded, train, failures, remaining=remaining, method=getattr(amends.methods, method)())
        assert np.ptp(found.scores) > 0
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
    found = amends.identify(loaded, (x[:20], y[:20]), (x[20:], 1 - y[20:]), method=amends.methods.ewc())
    assert set(found.train.network.params) == {
        "base_model.model.0.lora_A.default.weight", "base_model.model.0.lora_B.default.weight",
    }  # fmt: skip


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
