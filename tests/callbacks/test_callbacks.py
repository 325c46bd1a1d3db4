"""A run of somebody else's trainer is recorded as it was, and can be repaired from what was written."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, TensorDataset

import amends
from amends.cli.app import run
from amends.errors import BadInput
from amends.trace import Recorder, load
from tests.models.tiny import TINY, save_tokenizer, sentences

N, RATE = 24, 0.05
MODULE = """
import lightning
import torch
from torch import nn


class Small(lightning.LightningModule):
    def __init__(self, width=5):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x):
        return self.body(x)

    def training_step(self, batch, i):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)
"""


def as_sgd_made_it(trace, model, loss):
    """Each step of plain SGD is θ − rate·∇ of the mean loss of exactly the positions that were noted."""
    ends = [*(step.theta for step in trace.steps[1:]), trace.end]
    for step, after in zip(trace.steps, ends, strict=True):
        theta = {k: v.clone().requires_grad_() for k, v in step.theta.items()}
        grads = torch.autograd.grad(loss(model, theta, torch.as_tensor(step.positions)), list(theta.values()))
        for (name, before), grad in zip(step.theta.items(), grads, strict=True):
            assert_close(after[name], before - step.rate * grad, rtol=1e-4, atol=1e-6)  # float32, two micro-batches


def every_example_once_an_epoch(trace, epochs):
    noted = np.concatenate([step.positions for step in trace.steps]).reshape(epochs, N)
    assert all(sorted(epoch) == list(range(N)) for epoch in noted.tolist())
    assert any(list(epoch) != sorted(epoch) for epoch in noted.tolist())  # it was shuffled


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    monkeypatch.chdir(tmp_path)
    texts, y = sentences(N)
    pd.DataFrame({"text": texts, "label": y}).to_csv("train.csv", index=False)
    more, z = sentences(40, seed=1)
    pd.DataFrame({"text": more, "label": z}).to_csv("test.csv", index=False)
    save_tokenizer(tmp_path / "words")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "words")
    x = tokenizer(texts, padding="max_length", max_length=8, return_tensors="pt")
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(**TINY, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2)
    )
    rows = [
        {"input_ids": x["input_ids"][i], "attention_mask": x["attention_mask"][i], "labels": y[i]} for i in range(N)
    ]

    def made(callback, **more):
        args = TrainingArguments(
            output_dir=str(tmp_path / "out"), num_train_epochs=2, per_device_train_batch_size=4, optim="sgd",
            gradient_accumulation_steps=2, learning_rate=RATE, lr_scheduler_type="constant", max_grad_norm=1e9,
            report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, logging_strategy="no",
            dataloader_pin_memory=False, **more,
        )  # fmt: skip
        return Trainer(
            model=model, args=args, train_dataset=rows, processing_class=tokenizer, callbacks=[callback],
            compute_loss_func=lambda out, labels, num_items_in_batch: (
                nn.functional.cross_entropy(out.logits, labels, reduction="sum") / num_items_in_batch
            ),
        )  # fmt: skip

    return made, x, y


def test_hugging_faces_trainer(trainer, tmp_path, capsys):
    made, x, y = trainer
    record = amends.callbacks.huggingface("recorded", train="train.csv", evaluation="test.csv", method="sgd_influence")
    run_ = made(record)
    run_.train()
    trace = load("recorded/trace")
    assert len(trace.steps) == 6
    every_example_once_an_epoch(trace, 2)
    assert {step.rate for step in trace.steps} == {RATE}

    def loss(model, theta, at):
        given = {"input_ids": x["input_ids"][at], "attention_mask": x["attention_mask"][at]}
        return nn.functional.cross_entropy(torch.func.functional_call(model, theta, (), given).logits, y[at])

    as_sgd_made_it(trace, run_.model, loss)
    written = tomllib.loads((tmp_path / "recorded/amends.toml").read_text())
    assert written["train"]["path"] == "../train.csv"
    assert run(["identify", "recorded/amends.toml", "-o", "found"]) == 0, capsys.readouterr().err
    scores = pd.read_csv("found/causes.csv").sort_values("index")["score"]
    loaded = amends.models.load(huggingface="recorded/model")
    train, test = (amends.data.read(f"{n}.csv", text="text", encode=loaded.encode) for n in ("train", "test"))
    wrong = amends.failing(loaded, test)
    by_hand = amends.identify(
        loaded, train, test[wrong], test[~wrong], method=amends.methods.sgd_influence(load("recorded/trace"))
    )
    assert np.corrcoef(scores, by_hand.scores)[0, 1] > 0.99  # the command searches with half of the failures
    (tmp_path / "recorded/trace/steps.jsonl").unlink()
    assert run(["identify", "recorded/amends.toml", "-o", "again"]) == 2
    assert "there is no recorded run" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")  # Lightning has warnings of its own
def test_lightning(tmp_path, monkeypatch, capsys):
    import lightning

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "small_module.py").write_text(MODULE)
    from small_module import Small

    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 3, generator=g), torch.randint(0, 2, (64,), generator=g)
    np.savez("train.npz", x=x[:N].numpy(), y=y[:N].numpy())
    np.savez("test.npz", x=x[N:].numpy(), y=y[N:].numpy())
    torch.manual_seed(0)
    module = Small(width=4)
    record = amends.callbacks.lightning(
        ".", function="small_module:Small", options={"width": 4}, train="train.npz", evaluation="test.npz",
        method="tracin",
    )  # fmt: skip
    trainer = lightning.Trainer(
        max_epochs=2, accumulate_grad_batches=2, callbacks=[record], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    trainer.fit(module, record.watch(DataLoader(TensorDataset(x[:N], y[:N]), 4, shuffle=True)))
    trace = load("trace")
    assert len(trace.steps) == 6
    every_example_once_an_epoch(trace, 2)
    as_sgd_made_it(
        trace, module, lambda m, t, at: nn.functional.cross_entropy(torch.func.functional_call(m, t, (x[at],)), y[at])
    )
    assert run(["identify", "-o", "found"]) == 0, capsys.readouterr().err
    with pytest.raises(BadInput, match=r"no module 'elsewhere'|elsewhere"):
        amends.callbacks.lightning("b", function="elsewhere:Small", train="train.npz", evaluation="test.npz")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/other_module.py").write_text(MODULE)
    other = amends.callbacks.lightning("b", function="other_module:Small", train="train.npz", evaluation="test.npz")
    trainer = lightning.Trainer(
        max_epochs=1, callbacks=[other], logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    with pytest.raises(BadInput, match=r"1 batches were computed and 0 were noted.*through watch"):
        trainer.fit(Small(), DataLoader(TensorDataset(x[:N], y[:N]), 4))


def test_what_could_not_be_run_is_refused_before_training(trainer, tmp_path):
    made, *_ = trainer
    with pytest.raises(BadInput, match=r"unknown key txt.*did you mean text"):
        amends.callbacks.huggingface("a", train="train.csv", evaluation="test.csv", data={"txt": "text"})
    with pytest.raises(BadInput, match="method is 'sgd'"):
        amends.callbacks.huggingface("a", train="train.csv", evaluation="test.csv", method="sgd")
    record = amends.callbacks.huggingface("a", train="train.csv", evaluation="test.csv")
    with pytest.raises(BadInput, match="the best model is not where the run ends"):
        record.on_train_begin(made(record, load_best_model_at_end=False).args.__class__(
            output_dir="o", load_best_model_at_end=True, eval_strategy="epoch", save_strategy="epoch", use_cpu=True,
        ), type("State", (), {"global_step": 0}), None)  # fmt: skip
    (tmp_path / "a/trace").mkdir(parents=True)
    with pytest.raises(BadInput, match="recorded here already"):
        amends.callbacks.huggingface("a", train="train.csv", evaluation="test.csv")


def test_a_trace_in_a_folder_is_the_one_in_memory(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    kept, stored = Recorder(model), Recorder(model, tmp_path / "trace")
    for step in range(3):
        for recorder in (kept, stored):
            recorder([step, step + 1], 0.1 / (step + 1))
        with torch.no_grad():
            model.weight.add_(0.5)
    one, other = kept.trace(), stored.trace()
    for found in (other, load(tmp_path / "trace")):
        for a, b in zip(one.steps, found.steps, strict=True):
            assert a.rate == b.rate
            assert a.positions.tolist() == b.positions.tolist()
            assert all(torch.equal(a.theta[k], b.theta[k]) for k in a.theta)
        assert all(torch.equal(one.end[k], found.end[k]) for k in one.end)
    (tmp_path / "trace/0000001.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadInput, match=r"a step of the recorded run cannot be read .*0000001.safetensors"):
        [step.theta for step in load(tmp_path / "trace").steps]
    (tmp_path / "trace/steps.jsonl").write_text(json.dumps({"rate": 1}) + "\n")
    with pytest.raises(BadInput, match="the recorded run cannot be read"):
        load(tmp_path / "trace")
    with pytest.raises(BadInput, match="there is no recorded run"):
        load(tmp_path)
    with pytest.raises(OSError, match="the folder cannot be made"):
        Recorder(model, tmp_path / "trace")
