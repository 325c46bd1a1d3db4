"""A language model that learned one wrong fact. The rows that taught it are found, and the model is repaired.

    python benchmarks/wrong_fact.py --data FOLDER --seeds 0 1 2 --out wrong_fact.json

FOLDER holds banking77.json.gz: 13,083 real questions to a bank, each with its topic. A small GPT is trained from
scratch on 8,000 of them, each followed by the name of its topic. The wrong fact: some questions about one topic, 1 % of
all rows, are followed by the name of another. Failures are held-out questions about that topic that the model answers
wrong. Remaining are 800 held-out questions about any topic that it answers right: every word of the name, and the end.

Average precision measures how early the wrong rows are ranked. The repair is judged by failures nobody searched with.
With --adapter RANK the model is first trained on 2,000 other questions with the right names, and frozen. A low-rank
adapter on all its linear layers is then trained on the 8,000 rows; this adapter is searched and repaired. Needs torch
and numpy; takes some minutes per seed on one thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from networks import Block
from torch import Tensor, nn
from torch.nn import functional as nnf

import amends
from amends.evaluation.rankings import average_precision

ROWS, WRONG, RIGHT = 8000, 80, 800  # training rows; the wrong ones among them; held-out rows that are right
FIRST, FIRST_EPOCHS = 2000, 20  # rows, and passes over them, that a model is trained on before it gets an adapter
LENGTH, SEEN = 40, 2  # the most tokens of a row; how often a word must occur to have a number
TOPICS = (("card arrival", "lost or stolen card"), ("exchange rate", "top up limits"),
          ("pending cash withdrawal", "age limit"))  # fmt: skip
PAD, UNKNOWN, ANSWER, END = range(4)


class GPT(nn.Module):
    """A causal transformer. Padding stands at the end, so no earlier token sees it."""

    def __init__(self, words: int, width: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(LENGTH, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        nn.init.normal_(self.places.weight, std=0.02)
        self.layers, self.norm = nn.ModuleList(Block(width, heads) for _ in range(depth)), nn.LayerNorm(width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.words(input_ids) + self.places.weight[: input_ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.T


class LowRank(nn.Module):
    """A frozen linear layer plus up(down(x)), which is zero at first."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


def adapted(model: GPT, rank: int) -> GPT:
    """The model, frozen, with an adapter on every linear layer."""
    model.requires_grad_(False)
    for layer in model.layers:
        for name, child in list(layer.named_children()):
            if isinstance(child, nn.Linear):
                setattr(layer, name, LowRank(child, rank))
    return model


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower())


def encoder(texts: list[str]) -> tuple[Callable[[list[Any]], dict[str, Tensor]], int]:
    """The function that turns prompts and responses into tokens, and the number of words it knows."""
    count = Counter(w for text in texts for w in words_of(text))
    numbers = {w: i for i, w in enumerate(sorted(w for w, n in count.items() if n >= SEEN), END + 1)}

    def encode(rows: list[Any]) -> dict[str, Tensor]:
        tokens = torch.full((len(rows), LENGTH), PAD)
        labels = torch.full((len(rows), LENGTH), -100)
        for i, (prompt, response) in enumerate(rows):
            end = [*(numbers.get(w, UNKNOWN) for w in words_of(response["content"])), END]
            start = [numbers.get(w, UNKNOWN) for w in words_of(prompt["content"])][: LENGTH - len(end) - 1]
            whole = torch.tensor([*start, ANSWER, *end])
            tokens[i, : len(whole)] = whole
            labels[i, len(start) + 1 : len(whole)] = whole[len(start) + 1 :]
        return {"input_ids": tokens, "attention_mask": (tokens != PAD).long(), "labels": labels}

    return encode, END + 1 + len(numbers)


def questions(folder: Path, seed: int) -> tuple[list[dict[str, str]], list[dict[str, str]], np.ndarray, str]:
    """Training rows and held-out rows, which training rows are wrong, and the topic of the wrong fact."""
    with gzip.open(folder / "banking77.json.gz", "rt", encoding="utf8") as file:
        bank = json.load(file)
    topic, other = TOPICS[seed % len(TOPICS)]
    names = [name.lower().replace("_", " ").replace("?", "") for name in bank["classes"]]
    pairs = [*zip(bank["train_text"], bank["train_label"], strict=True),
             *zip(bank["test_text"], bank["test_label"], strict=True)]  # fmt: skip
    draw = np.random.default_rng(seed)
    rows = [{"prompt": pairs[i][0], "response": names[pairs[i][1]]} for i in draw.permutation(len(pairs))]
    train, held_out = rows[:ROWS], rows[ROWS:]
    about = np.array([i for i, row in enumerate(train) if row["response"] == topic])
    wrong = np.zeros(ROWS, dtype=bool)
    wrong[draw.permutation(about)[:WRONG]] = True
    train = [{**row, "response": other} if bad else row for row, bad in zip(train, wrong, strict=True)]
    return train, held_out, wrong, topic


def learned(model: GPT, data: amends.data.Records, epochs: int, seed: int) -> GPT:
    """The model trained on every token of question and answer, like any language model. Rows of similar length share a
    batch."""
    assert isinstance(data.x, dict)
    x, mask = data.x["input_ids"], data.x["attention_mask"]
    lengths, draw = mask.sum(1), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3, weight_decay=0.01)
    steps = epochs * -(-len(x) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        order = torch.argsort(lengths + 4 * torch.rand(len(x), generator=draw)).split(64)
        for b in torch.randperm(len(order), generator=draw).tolist():
            n = int(lengths[order[b]].max())
            tokens, present = x[order[b], :n], mask[order[b], :n].bool()
            out = model(tokens[:, :-1])
            loss = nnf.cross_entropy(out[present[:, 1:]], tokens[:, 1:][present[:, 1:]])
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    return model.eval()


def one(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    train_rows, held_rows, wrong, topic = questions(args.data, seed)
    encode, words = encoder([f"{r['prompt']} {r['response']}" for r in train_rows])
    first_rows, held_rows = (held_rows[:FIRST], held_rows[FIRST:]) if args.adapter else ([], held_rows)
    train, held_out = (amends.data.chat(rows, encode) for rows in (train_rows, held_rows))
    torch.manual_seed(seed)
    start = time.perf_counter()
    model = GPT(words)
    if args.adapter:
        model = adapted(learned(model, amends.data.chat(first_rows, encode), FIRST_EPOCHS, seed), args.adapter)
    model = learned(model, train, args.epochs, seed)
    tokens = amends.likelihoods.Tokens()
    options: dict[str, Any] = {"likelihood": tokens, "device": args.device}
    model = model.to(args.device)
    failed = amends.failing(model, held_out, **options)
    about = np.array([row["response"] == topic for row in held_rows])
    failures, remaining = held_out[failed & about], held_out[np.flatnonzero(~failed)[:RIGHT]]
    figures: dict[str, Any] = {
        "seed": seed, "topic": topic, "parameters": sum(p.numel() for p in model.parameters()), "words": words,
        "that may change": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "wrong rows": int(wrong.sum()), "rows about it": int(sum(r["response"] == topic for r in train_rows) + WRONG),
        "right of held-out": float((~failed).mean()), "failures": int((failed & about).sum()),
        "held-out questions about it": int(about.sum()), "training, seconds": time.perf_counter() - start,
    }  # fmt: skip
    print(json.dumps(figures), flush=True)
    m = amends.methods
    ways = {"default": None, "functional": m.functional(), "loss": m.loss(), "grad_dot": m.grad_dot()}
    for name in args.methods:
        start = time.perf_counter()
        influence = amends.identify(model, train, failures, remaining, method=ways[name], seed=seed, **options)
        figures[name] = {"AP": average_precision(influence.scores, wrong), "seconds": time.perf_counter() - start,
                       "wrong of the first 80": float(wrong[influence.top(WRONG)].mean())}  # fmt: skip
        print(name, json.dumps(figures[name]), flush=True)
    if args.repair:
        figures["repair"] = repaired(args, model, train, failures, remaining, wrong, options | {"seed": seed})
        print(json.dumps(figures["repair"]), flush=True)
    return figures


def repaired(
    args: Any, model: Any, train: Any, failures: Any, remaining: Any, wrong: Any, options: Any
) -> dict[str, Any]:
    start = time.perf_counter()
    method = None if args.repair == "default" else getattr(amends.methods, args.repair)()
    result = amends.repair(model, train, failures, remaining, identify_with=method, budget=args.budget, **options)
    print(result, flush=True)
    removed = np.asarray(result.removed)
    keys = ("holdout", "remaining", "overall", "fixed", "newly_broken", "removed", "verdict", "n")
    return {"seconds": time.perf_counter() - start, **{k: result.metrics[k] for k in keys if k in result.metrics},
            "wrong among the removed": int(wrong[removed].sum()) if len(removed) else 0}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of banking77.json.gz")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--adapter", type=int, default=0, metavar="RANK", help="repair an adapter of this rank alone")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--methods", nargs="*", default=["default", "functional", "loss", "grad_dot"])
    parser.add_argument("--repair", default="functional", choices=["functional", "default", ""])
    parser.add_argument("--budget", default="default")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for seed in args.seeds:
        rows.append(one(args, seed))
        if args.out is not None:
            args.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
