"""Folders as a user has them: a module, weights, data on disk, an amends.toml."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.torch import save_file

from amends.cli.app import run
from tests.worlds import planted_digits

MODULE = '''"""The user's own code."""
from torch import nn


def build(width=32):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
'''
CONFIG = '''
[model]
function = "my_model:build"
weights = "model.safetensors"

[train]
path = "train.npz"

[evaluation]
path = "evaluation.npz"

[repair]
treat = "fine_tune"
treat_options = { epochs = 3 }
'''


def digits_project(folder: Path) -> Path:
    """A net that fails on digits, trained with wrong labels; its config is returned."""
    model, (x, y), failures, remaining, _ = planted_digits()
    (folder / "my_model.py").write_text(MODULE)
    save_file(model.state_dict(), folder / "model.safetensors")
    np.savez(folder / "train.npz", x=x.numpy(), y=y.numpy())
    pool = [np.concatenate([a.numpy(), b.numpy()]) for a, b in zip(failures, remaining, strict=True)]
    np.savez(folder / "evaluation.npz", x=pool[0], y=pool[1])
    config = folder / "amends.toml"
    config.write_text(CONFIG)
    return config


def amends(*args: object) -> int:
    """The command line without a process of its own; its exit code."""
    return run([str(a) for a in args])
