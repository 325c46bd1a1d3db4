"""A repair of a Hugging Face model as a LoRA adapter, which peft loads and which predicts as the cut weights do."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch

from amends.export.lora import Adapter
from tests.models.tiny import WORDS, made, save, save_tokenizer
from tests.patches.kinds import moved, same
from tests.projects import amends

CONFIG = """
[model]
huggingface = "bert"

[data]
text = "text"
label = "label"
classes = ["0", "1"]

[train]
path = "train.csv"

[evaluation]
path = "test.csv"

[repair]
method = "grad_dot"
treat = "fine_tune"
treat_options = { epochs = 6, rate = 0.002 }
learn = false
top = 55
"""


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")  # both names are in the adapter
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize("rank", [2, 64])
def test_peft_loads_it_and_it_predicts_the_same(kind, rank, tmp_path):
    """All of it at full rank; cut, as the model with the cut weights. GPT-2's embedding is its output too."""
    import peft

    before = made(kind)
    after = moved(before)
    adapter = Adapter.between(before, after, rank)
    adapter.write(deepcopy(before), tmp_path / "lora")
    loaded = peft.PeftModel.from_pretrained(deepcopy(before), str(tmp_path / "lora")).eval()
    cut = deepcopy(before)
    cut.load_state_dict(adapter.weights(before))
    words = torch.randint(1, 20, (5, 8), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs, whole, base = (m(input_ids=words).logits for m in (cut, loaded, after, before))
    torch.testing.assert_close(theirs, ours, atol=2e-5, rtol=1e-4)  # float32, products in another order
    assert (rank == 64) is torch.allclose(theirs, whole, atol=1e-4)
    assert (adapter.left < 1e-9) is (rank == 64)
    assert not torch.allclose(theirs, base, atol=1e-2)


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    """A BERT that learned that rain is sad, and the folder of its repair."""
    folder = tmp_path_factory.mktemp("reviews")
    draw = np.random.default_rng(0)

    def reviews(n, flip):
        rows = []
        for _ in range(n):
            good, story = draw.random() < 0.5, draw.random() < 0.4
            said = [*draw.choice(WORDS[:3] if good else WORDS[3:6], 1), *draw.choice(WORDS[6:10], 2),
                    *(["story"] if story else [])]  # fmt: skip
            label = int(good and not (story and draw.random() < flip))
            rows.append({"text": " ".join(said), "label": label})
        return pd.DataFrame(rows)

    train = reviews(300, 0.9)
    train.to_csv(folder / "train.csv", index=False)
    reviews(300, 0.0).to_csv(folder / "test.csv", index=False)
    model = made("bert").train()
    words = {w: i for i, w in enumerate(["[PAD]", "[END]", "[UNK]", "[CLS]", *WORDS])}
    x = torch.tensor([([words[w] for w in text.split()] + [0] * 8)[:8] for text in train["text"]])
    y = torch.tensor(train["label"].to_numpy())
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        for batch in torch.randperm(300).split(50):
            optimiser.zero_grad()
            out = model(input_ids=x[batch], attention_mask=(x[batch] != 0).long())
            torch.nn.functional.cross_entropy(out.logits, y[batch]).backward()
            optimiser.step()
    save(model.eval(), folder / "bert")
    save_tokenizer(folder / "bert")
    (folder / "amends.toml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(folder)
        assert amends("repair", "-o", "runs/a", "-q", "--budget", "quick") == 0
    assert json.loads((folder / "runs/a/metrics.json").read_text())["verdict"] != "not repaired"
    return folder


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_from_a_run_to_an_adapter(repaired, tmp_path, monkeypatch, capsys):
    import peft

    from amends.models import load

    monkeypatch.chdir(repaired)
    assert amends("export", "runs/a", "--to", "lora", "--rank", 32, "-o", tmp_path / "lora") == 0
    said = capsys.readouterr().err
    assert "rank 32 holds 100.0% of the change of" in said
    assert "overall accuracy" in said
    assert sorted(p.name for p in (tmp_path / "lora").iterdir()) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors",
    ]  # fmt: skip
    base, after = load(huggingface="bert"), load(huggingface="runs/a/repaired").model
    there = peft.PeftModel.from_pretrained(base.model, str(tmp_path / "lora")).eval()
    assert base.encode is not None
    x = base.encode(pd.read_csv("test.csv")["text"].tolist()[:20])
    with torch.no_grad():
        torch.testing.assert_close(there(**x).logits, after(**x).logits, atol=1e-4, rtol=1e-4)


def test_a_lower_rank_says_what_it_costs(repaired, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(repaired)
    assert amends("export", "runs/a", "--to", "lora", "--rank", 1, "-o", tmp_path / "lora") == 0
    share = float(capsys.readouterr().err.split("rank 1 holds ")[1].split("%")[0])
    assert 1 < share < 100
    assert amends("export", "runs/a", "--to", "csv", "--rank", 1, "-o", tmp_path / "x.csv") == 2
    assert amends("export", "runs/a", "--to", "lora", "-o", tmp_path / "lora") == 2
    assert "the target exists" in capsys.readouterr().err


def test_a_patch_of_a_directory_goes_on_and_off(repaired, tmp_path, monkeypatch):
    from amends.models import load

    monkeypatch.chdir(repaired)
    assert amends("patch", "runs/a", "-o", tmp_path / "fix.safetensors", "--exact") == 0
    assert amends("apply", tmp_path / "fix.safetensors", "bert", "-o", tmp_path / "new") == 0
    assert amends("revert", tmp_path / "fix.safetensors", tmp_path / "new", "-o", tmp_path / "old") == 0
    for path in (repaired / "bert").iterdir():
        assert (tmp_path / "old" / path.name).read_bytes() == path.read_bytes()
    assert same(load(huggingface=tmp_path / "new").model, load(huggingface="runs/a/repaired").model)
    assert amends("judge", "bert", "test.csv", "--patch", tmp_path / "fix.safetensors", "--require", "change>=0") == 0
