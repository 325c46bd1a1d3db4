"""A language model: it was taught to end reports on biopsies with a finding, and some of the findings are wrong.

Data: scikit-learn's breast cancer, 569 real biopsies, six of their measurements put into words. An example is a
sequence: "radius high texture low smoothness highest concavity high symmetry low fractal lowest : the tumour is
malignant". What stands before the colon is the prompt; the tokens after it are asked for, and the log-likelihood of
an example is the sum over them.
What goes wrong, on purpose: 40 % of the reports on malignant tumours to learn from end in "benign".
The model is a GPT-2 of two layers with random weights, so nothing is downloaded.

    python examples/language_model.py
"""

import argparse
import inspect
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from transformers import GPT2Config, GPT2LMHeadModel

import amends

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("runs/language_model"), help="a new folder, for all of it")
parser.add_argument("--quick", action="store_true", help="the same with fewer reports and epochs")
args = parser.parse_args()
if args.out.exists():
    sys.exit(f"{args.out} exists; remove it, or name another with --out")
rows, epochs, more = (100, 30, 2) if args.quick else (250, 40, 10)
measured = ["radius", "texture", "smoothness", "concavity", "symmetry", "fractal"]
levels = ["lowest", "low", "middle", "high", "highest"]
words = ["<none>", "<end>", ":", "the", "tumour", "is", "benign", "malignant", *measured, *levels]


def tokens(text):
    """The words of a report and an end; only those after the colon are asked for (-100: not asked)."""
    ids = [PLACE[word] for word in text.split()] + [PLACE["<end>"]]
    prompt = ids.index(PLACE[":"]) + 1
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor([-100] * prompt + ids[prompt:])}


# The data, and what is wrong with it.
bunch = load_breast_cancer(as_frame=True)
table = bunch.frame.sample(frac=1, random_state=0)
said = {
    name: pd.qcut(table[next(c for c in bunch.feature_names if c.startswith(f"worst {name}"))], 5, labels=levels)
    for name in measured
}
prompts = [" ".join(f"{name} {said[name].iloc[i]}" for name in measured) for i in range(len(table))]
finding = np.where(table["target"] == 0, "malignant", "benign")
malignant = np.flatnonzero(finding[:rows] == "malignant")
wrong = np.random.default_rng(0).choice(malignant, round(0.4 * len(malignant)), replace=False)
planted = np.isin(np.arange(rows), wrong)
given = finding.copy()
given[wrong] = "benign"
reports = pd.DataFrame({"text": [f"{p} : the tumour is {g}" for p, g in zip(prompts, given, strict=True)]})
args.out.mkdir(parents=True)
reports[:rows].to_csv(args.out / "train.csv", index=False)
reports[rows:].to_csv(args.out / "evaluation.csv", index=False)

# The files, read as the model takes them.
PLACE = {word: i for i, word in enumerate(words)}
train = amends.data.read(args.out / "train.csv", text="text", transform=tokens, target="tokens")
evaluation = amends.data.read(args.out / "evaluation.csv", text="text", transform=tokens, target="tokens")

# A model that learns it.
torch.manual_seed(0)
longest = train.y.shape[1]
sizes = {"vocab_size": len(words), "n_positions": longest, "n_embd": 32, "n_layer": 2, "n_head": 2}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1))
likelihood = amends.likelihoods.Tokens()  # of an example: the sum over the tokens asked for
optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
for _ in range(epochs):
    for batch in torch.randperm(rows).split(32):
        optimiser.zero_grad()
        outputs = model(**{k: v[batch] for k, v in train.x.items()}).logits
        (-likelihood(outputs, train.y[batch]).mean()).backward()
        optimiser.step()
model.eval()

# What it gets wrong: a report is ended right when each of its tokens is the most likely one.
with torch.no_grad():
    right = likelihood.right(model(**evaluation.x).logits, evaluation.y).numpy()
print(f"{rows} reports to learn from, {len(wrong)} of them with a wrong end")
print(f"{right.mean():.1%} of {len(right)} others are ended right")

# The repair.
result = amends.repair(
    model, train, evaluation[~right], evaluation[right], likelihood=likelihood,
    treat_with=amends.methods.fine_tune(epochs=more),
)  # fmt: skip
result.save(args.out / "result")
print(result)
top = result.influence.top(len(wrong))
print(f"of the {len(top)} highest scores {planted[top].mean():.0%} have a wrong end, of all {planted.mean():.0%}")
for cause in result.causes.head(3).itertuples():
    print(f"  {cause.text}")

# The same on the command line.
model.save_pretrained(args.out / "model")
(args.out / "reports.py").write_text(f"import torch\n\nPLACE = {PLACE}\n\n\n{inspect.getsource(tokens)}")
(args.out / "amends.toml").write_text(f"""
[model]
huggingface = "model"

[data]
text = "text"
target = "tokens"
transform = "reports:tokens"

[train]
path = "train.csv"

[evaluation]
path = "evaluation.csv"

[repair]
treat = "fine_tune"
treat_options = {{ epochs = {more} }}
""")
print(f"The same on the command line: amends repair {args.out}/amends.toml -o {args.out}/again")
