"""Regression: a network that is far off for some patients because of numbers that were typed in wrongly.

Data: scikit-learn's diabetes, 442 real patients, ten measurements each, and how far the disease had come a year
later (25 to 346). A failure is a prediction more than 100 off.
What goes wrong, on purpose: of the training patients with a high body mass index, two thirds have lost the last
digit of that number: 242 became 24.

    python examples/regression.py
"""

import argparse
import inspect
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_model
from sklearn.datasets import load_diabetes
from torch import nn

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/regression"), help="a new folder, for all that is written")
parser.add_argument("--quick", action="store_true", help="the same with fewer rows and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
args.out.mkdir(parents=True)
rows, epochs = (110, 25) if args.quick else (220, 60)
noise, bound = 55.0, 100.0  # what no model explains, as a standard deviation; and how far off is a failure


class Progression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        return 150 + 75 * self.layers(20 * x)  # the measurements come with a standard deviation of 0.05


# The data, and what is wrong with it.
bunch = load_diabetes(as_frame=True)
features = list(bunch.data.columns)
table = bunch.frame.sample(frac=1, random_state=0)
table["id"] = [f"patient-{i:03d}" for i in table.index]
train, evaluation = table[:rows].copy(), table[rows:]
heavy = train.index[train["bmi"] > 0.02]
wrong = np.random.default_rng(0).choice(heavy, round(2 / 3 * len(heavy)), replace=False)
train.loc[wrong, "target"] = train.loc[wrong, "target"] // 10
planted = train.index.isin(wrong)
train.to_csv(args.out / "train.csv", index=False)
evaluation.to_csv(args.out / "evaluation.csv", index=False)

# The same files, read as a model takes them.
columns = {"features": features, "label": "target", "id": "id", "target": "real"}
train = amends.data.read(args.out / "train.csv", **columns)
evaluation = amends.data.read(args.out / "evaluation.csv", **columns)

# A model that learns it.
torch.manual_seed(0)
model = Progression()
optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(epochs):
    for batch in torch.randperm(len(train)).split(32):
        optimiser.zero_grad()
        (((model(train.x[batch]) - train.y[batch]) / noise) ** 2 / 2).mean().backward()
        optimiser.step()
model.eval()

# What it gets wrong.
with torch.no_grad():
    off = (model(evaluation.x) - evaluation.y).abs()[:, 0].numpy()
right = off <= bound
print(f"{len(train)} patients to learn from, {len(wrong)} of them with a digit lost")
print(f"{right.mean():.1%} of {len(right)} others are predicted within {bound:.0f}")

# The repair. With so few rows ten passes, the default, hardly move the weights: go on as it was trained. That alone
# pushes a few over the bound, so five points of what worked may be lost, not one.
result = amends.repair(
    model, train, evaluation[~right], evaluation[right], likelihood=amends.likelihoods.Gaussian(noise, bound),
    treat_with=amends.methods.fine_tune(rate=5e-3, epochs=epochs, batch=32), floor=0.05,
)  # fmt: skip
result.save(args.out / "result")
print(result)
top = result.influence.top(len(wrong))
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} have lost a digit, of all {planted.mean():.0%}")
print(result.causes[["id", "given", "predicted", "predicted_after"]].head(5).to_string(index=False))

# The same on the command line.
save_model(model, str(args.out / "model.safetensors"))
(args.out / "patients.py").write_text("from torch import nn\n\n\n" + inspect.getsource(Progression))
(args.out / "amends.toml").write_text(f"""
[model]
function = "patients:Progression"
weights = "model.safetensors"

[likelihood]
kind = "gaussian"
sigma = {noise}
bound = {bound}

[data]
features = {features}
label = "target"
id = "id"
target = "real"

[train]
path = "train.csv"

[evaluation]
path = "evaluation.csv"

[repair]
treat = "fine_tune"
treat_options = {{ rate = 5e-3, epochs = {epochs}, batch = 32 }}
floor = 0.05
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
