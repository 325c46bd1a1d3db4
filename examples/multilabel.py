"""Several labels a row: a network that overlooks the hole in a nine, because many nines it learned from lack it.

Data: scikit-learn's digits, 1,797 real handwritten digits of 8 by 8 pixels, with three labels that each hold or
do not: even, above four, has a hole (0, 6, 8, 9).
What goes wrong, on purpose: of the nines to learn from, 70 % lack "has a hole"; the other two labels are right.
The failures to repair are digits whose hole is overlooked. What it gets wrong besides is left out: no wrong label
stands behind that, and a set of failures may be about one thing.

    python examples/multilabel.py
"""

import argparse
import inspect
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_model
from sklearn.datasets import load_digits
from torch import nn

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/multilabel"), help="a new folder, for all that is written")
parser.add_argument("--quick", action="store_true", help="the same with fewer rows and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
args.out.mkdir(parents=True)
rows, others, epochs = (300, 500, 30) if args.quick else (900, 897, 60)
names = ["even", "above four", "has a hole"]


def build():
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 3))


# The data, and what is wrong with it.
images, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))[: rows + others]
images, digit = (images[order] / 16).astype(np.float32), digit[order]
labels = np.stack([digit % 2 == 0, digit > 4, np.isin(digit, (0, 6, 8, 9))], 1).astype(np.float32)
x, y = torch.tensor(images), torch.tensor(labels)
train, evaluation = (x[:rows], y[:rows].clone()), (x[rows:], y[rows:])
nines = np.flatnonzero(digit[:rows] == 9)
wrong = np.random.default_rng(0).choice(nines, round(0.7 * len(nines)), replace=False)
train[1][wrong, names.index("has a hole")] = 0

# A model that learns it.
torch.manual_seed(0)
model = build()
optimiser = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
for _ in range(epochs):
    for batch in torch.randperm(rows).split(64):
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(train[0][batch]), train[1][batch]).backward()
        optimiser.step()
model.eval()

# What it gets wrong.
with torch.no_grad():
    same = (model(evaluation[0]) > 0).float() == evaluation[1]
right = same.all(1)
overlooked = ~same[:, names.index("has a hole")] & (evaluation[1][:, names.index("has a hole")] == 1)
failures, remaining = ((evaluation[0][at], evaluation[1][at]) for at in (overlooked, right))
print(f"{rows} digits to learn from, {len(wrong)} of them nines without their hole")
print(f"of {others} others {right.float().mean():.1%} have all labels right; {len(failures[1])} holes are overlooked")

# The repair.
result = amends.repair(model, train, failures, remaining, likelihood=amends.likelihoods.Bernoulli())
result.save(args.out / "result")
print(result)
planted = np.isin(np.arange(rows), wrong)
top = result.influence.top(len(wrong))
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} lack their hole, of all {planted.mean():.0%}")

# The same on the command line.
for name, (inputs, targets) in (("train", train), ("failures", failures), ("remaining", remaining)):
    np.savez(args.out / f"{name}.npz", x=inputs.numpy(), y=targets.numpy())
save_model(model, str(args.out / "model.safetensors"))
(args.out / "holes.py").write_text("from torch import nn\n\n\n" + inspect.getsource(build))
(args.out / "amends.toml").write_text(f"""
[model]
function = "holes:build"
weights = "model.safetensors"

[likelihood]
kind = "bernoulli"

[data]
target = "labels"
classes = {names}

[train]
path = "train.npz"

[failures]
path = "failures.npz"

[remaining]
path = "remaining.npz"
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
