"""A table: a network that misses tumours because some of the rows it learned from say they are benign.

Data: scikit-learn's breast cancer, 569 real biopsies with 30 measured features.
What goes wrong, on purpose: 40 % of the malignant training rows are labelled benign, and none the other way
round, as when one of two clinics never sent its reports.

    python examples/table.py
"""

import argparse
import inspect
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_model
from sklearn.datasets import load_breast_cancer
from torch import nn

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/table"), help="a new folder, for all that is written")
parser.add_argument("--quick", action="store_true", help="the same with fewer rows and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
rows, epochs = (120, 60) if args.quick else (250, 200)


def build():
    return nn.Sequential(
        nn.BatchNorm1d(30, affine=False, momentum=None),  # the features as they are, standardised inside
        nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2),
    )  # fmt: skip


# The data, and what is wrong with it.
bunch = load_breast_cancer(as_frame=True)
features = list(bunch.data.columns)
table = bunch.data.assign(label=np.array(bunch.target_names)[bunch.target]).sample(frac=1, random_state=0)
table["id"] = [f"biopsy-{i:03d}" for i in table.index]
train, evaluation = table[:rows].copy(), table[rows:]
malignant = train.index[train["label"] == "malignant"]
wrong = np.random.default_rng(0).choice(malignant, round(0.4 * len(malignant)), replace=False)
train.loc[wrong, "label"] = "benign"
train, evaluation = (t.astype({"label": pd.CategoricalDtype(["benign", "malignant"])}) for t in (train, evaluation))

# A model that learns it.
torch.manual_seed(0)
model = build()
optimiser = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
x = torch.tensor(train[features].to_numpy(), dtype=torch.float32)
y = torch.tensor(train["label"].cat.codes.to_numpy()).long()
for _ in range(epochs):
    for batch in torch.randperm(len(x)).split(64):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimiser.step()
model.eval()

# What it gets wrong.
with torch.no_grad():
    said = model(torch.tensor(evaluation[features].to_numpy(), dtype=torch.float32)).argmax(1).numpy()
right = said == evaluation["label"].cat.codes.to_numpy()
print(f"{len(train)} rows to learn from, {len(wrong)} of them with a wrong label")
print(f"{right.mean():.1%} of {len(right)} others are right")

# The repair. In a frame, numbers are features, `label` is the label, and `id` comes along.
result = amends.repair(model, train, evaluation[~right], evaluation[right])
result.save(args.out / "result")
print(result)
planted = train.index.isin(wrong)
top = result.influence.top(len(wrong))
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} have a wrong label, of all {planted.mean():.0%}")
spread = (train[features] - train[features].mean()) / train[features].std()
for cause in result.causes.head(5).itertuples():
    row = spread.iloc[cause.index]
    unusual = ", ".join(f"{name} {row[name]:+.1f}" for name in row.abs().nlargest(3).index)
    print(f"  {cause.id}, given {cause.given}, rather {cause.suggested}; in standard deviations: {unusual}")

# The same on the command line, from files as anyone would have them.
train.to_csv(args.out / "train.csv", index=False)
evaluation.to_csv(args.out / "evaluation.csv", index=False)
save_model(model, str(args.out / "model.safetensors"))
(args.out / "tumours.py").write_text("from torch import nn\n\n\n" + inspect.getsource(build))
(args.out / "amends.toml").write_text(f"""
[model]
function = "tumours:build"
weights = "model.safetensors"

[data]
features = {features}
label = "label"
id = "id"

[train]
path = "train.csv"

[evaluation]
path = "evaluation.csv"
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
