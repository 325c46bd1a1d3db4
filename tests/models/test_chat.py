"""Conversations as tokens, padding by length, and adapters on a base in half precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import amends
from amends.errors import BadInput
from amends.evidence.network import Network
from amends.evidence.prepare import prepare
from amends.likelihoods import Tokens
from amends.models import load
from tests.models.tiny import CAUSAL, save

pytestmark = pytest.mark.usefixtures("offline")
TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '> ' + m['content'] + ' [END] ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)
WORDS = ["[PAD]", "[END]", "[UNK]", "<user>", "<assistant>", "<system>", "why", "so", "well", "who", "me", "no"]


def tokenizer(template=None, kind="words"):
    from tokenizers import Tokenizer
    from tokenizers.models import BPE, WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    if kind == "words":
        made = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
        made.pre_tokenizer = WhitespaceSplit()
    else:
        made = Tokenizer(BPE({"[PAD]": 0, "[END]": 1, "a": 2, "b": 3, "c": 4, "ab": 5}, [("a", "b")]))
    found = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]" if kind == "words" else None, eos_token="[END]"
    )
    found.chat_template = template
    return found


def says(*turns):
    return [{"role": role, "content": content} for role, content in turns]


def words(row):
    return [WORDS[i] if i >= 0 else "." for i in row.tolist()]


def test_the_responses_alone_are_asked():
    encode = amends.models.chat(tokenizer(TEMPLATE), max_length=12)
    x = encode([
        says(("user", "why"), ("assistant", "so well")),
        says(("system", "me"), ("user", "why"), ("assistant", "so"), ("user", "who"), ("assistant", "me")),
    ])  # fmt: skip
    assert words(x["input_ids"][0]) == ["<user>", "why", "[END]", "<assistant>", "so", "well", "[END]"] + ["[PAD]"] * 5
    assert words(x["labels"][0]) == [".", ".", ".", ".", "so", "well", "[END]", ".", ".", ".", ".", "."]
    assert x["attention_mask"].sum(1).tolist() == [7, 12]
    cut = ["<system>", "me", "[END]", "<user>", "why", "[END]", "<assistant>", "so", "[END]", "<user>", "who", "[END]"]
    assert words(x["input_ids"][1]) == cut
    assert words(x["labels"][1]) == [".", ".", ".", ".", ".", ".", ".", "so", "[END]", ".", ".", "."]


def test_without_a_template_each_message_is_a_line_and_a_response_ends_the_text():
    encode = amends.models.chat(tokenizer(), max_length=6)
    x = encode([says(("user", "why who"), ("assistant", "so"))])
    assert words(x["input_ids"][0]) == ["why", "who", "so", "[END]", "[PAD]", "[PAD]"]
    assert words(x["labels"][0]) == [".", ".", "so", "[END]", ".", "."]
    template = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
    own = amends.models.chat(tokenizer(), max_length=6, template=template)
    assert words(own([says(("user", "why"), ("assistant", "so"))])["labels"][0]) == [".", "so", ".", ".", ".", "."]


def test_a_token_over_the_border_is_the_responses():
    encode = amends.models.chat(
        tokenizer(kind="pairs"), max_length=4, template="{% for m in messages %}{{ m['content'] }}{% endfor %}"
    )
    x = encode([says(("user", "ca"), ("assistant", "bc"))])
    assert x["input_ids"][0].tolist() == [4, 5, 4, 0]
    assert x["labels"][0].tolist() == [-100, 5, 4, -100]


def test_what_cannot_be_written_is_named():
    refuses = amends.models.chat(tokenizer("{{ raise_exception('only two roles') }}"))
    with pytest.raises(BadInput, match=r"the chat template refuses the messages \(.*only two roles.*row 0"):
        refuses([says(("user", "why"), ("assistant", "so"))])
    with pytest.raises(BadInput, match="no list of messages; row 0"):
        amends.models.chat(tokenizer())(["why"])
    with pytest.raises(BadInput, match="max_length is 1"):
        amends.models.chat(tokenizer(), max_length=1)


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("talker")
    torch.manual_seed(0)
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    save(GPT2LMHeadModel(GPT2Config(**{**CAUSAL, "n_positions": 24}, **quiet)), folder)
    tokenizer(TEMPLATE).save_pretrained(folder)
    return folder


def rows(n, seed):
    draw = np.random.default_rng(seed)
    free = ["so", "well", "who", "me", "no"]
    return [
        {"id": f"r{i}", "prompt": " ".join(draw.choice(free, draw.integers(1, 12))), "response": str(draw.choice(free))}
        for i in range(n)
    ]


def test_rows_of_like_length_are_computed_together_and_nothing_changes(talker, monkeypatch):
    model = load(huggingface=talker, options={"max_length": 24})
    data = amends.data.chat(rows(12, 0), model.encode)
    given = prepare(model.model.double(), Tokens(), None, 12, train=data)["train"]
    network = given.network
    shapes = []
    whole = Network.outputs
    monkeypatch.setattr(Network, "outputs", lambda s, t, x: shapes.append(x["input_ids"].shape) or whole(s, t, x))
    values, (total, grad) = given.per_example(network.params), given.value_and_grad(network.params)
    assert sum(a * b for a, b in shapes[: len(shapes) // 2]) < 0.75 * 12 * 24
    assert len(shapes) > 2
    monkeypatch.setattr("amends.evidence.network.by_length", lambda x, y: [])
    assert_close(values, given.per_example(network.params), rtol=0, atol=1e-12)  # float64
    plain, also = given.value_and_grad(network.params)
    assert abs(total - plain) < 1e-11
    for name, g in grad.items():
        assert_close(g, also[name], rtol=0, atol=1e-11)


def test_a_token_that_is_asked_is_never_taken_for_padding():
    """A mask that leaves out the last token of a text, where padding and the end are one token."""
    from amends.evidence.lengths import by_length

    mask = torch.tensor([[1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]])
    y = torch.full((3, 8), -100)
    y[0, 2] = 1
    groups = by_length({"input_ids": mask, "attention_mask": mask}, y)
    assert [(r.tolist(), list(x["input_ids"].shape), t.shape[1]) for r, x, t in groups] == [
        ([1], [1, 6], 6), ([0, 2], [2, 3], 3),
    ]  # fmt: skip
    assert by_length({"input_ids": mask}, y) == []
    assert by_length({"attention_mask": torch.ones(3, 8)}, y) == []


def test_an_adapter_on_a_base_in_bfloat16(talker, tmp_path):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(
        task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True
    )
    get_peft_model(load(huggingface=talker).model, config).save_pretrained(str(tmp_path / "lora"))
    found = {}
    for dtype in ("bfloat16", "float32"):
        model = load(huggingface=talker, adapter=tmp_path / "lora", options={"max_length": 24, "dtype": dtype})
        before = {k: v.clone() for k, v in model.model.state_dict().items()}
        train, failures = (amends.data.chat(rows(n, s), model.encode) for n, s in ((30, 1), (8, 2)))
        influence = amends.identify(model, train, failures, method=amends.methods.grad_dot())
        assert influence.frame()["text"].iloc[0].startswith("user: ")
        given = influence.train
        found[dtype] = given.per_example(given.network.params)
        assert found[dtype].dtype == torch.float32  # the logits alone are half
        state = amends.treat(
            model, train, [0, 3], method=amends.methods.fine_tune(rate=0.01, epochs=1), batch_size=30
        ).state_dict()
        moved = {k for k in state if not torch.equal(state[k], before[k])}
        assert moved
        assert all("lora_" in k for k in moved)
        assert {str(v.dtype).removeprefix("torch.") for k, v in state.items() if "lora_" not in k} == {dtype}
        assert {v.dtype for k, v in state.items() if "lora_" in k} == {torch.float32}
    apart = (found["bfloat16"] - found["float32"]).abs() / given.network.likelihood.parts(given.examples.y)
    assert 1e-4 < apart.max() < 0.05  # nats a token: 8 bits of logits that are near 1
    with pytest.raises(BadInput, match="dtype is 'half'"):
        load(huggingface=talker, options={"dtype": "half"})
