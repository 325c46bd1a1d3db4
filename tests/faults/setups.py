"""What `amends check` and `amends.repair` say of a setup before anything is computed."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

import amends
from amends.algorithm.rounds import Plan
from amends.cli.app import run
from tests.faults.broken import BROKEN
from tests.faults.kinds import evaluated
from tests.faults.sound import SOUND

CONFIG = """
[model]
function = "tests.faults.setups:model"

[train]
path = "train.{kind}"

[evaluation]
path = "evaluation.{kind}"
"""
TEXTS = """
[data]
text = "words"
label = "label"
transform = "tests.faults.setups:numbers"
"""
HERE: dict[str, Any] = {}


def numbers(words: str) -> torch.Tensor:
    """Of a text that is kept as the numbers of its words."""
    return torch.tensor([int(word) for word in words.split()])


def model() -> Any:
    """As a config names it."""
    return HERE["model"]


class Told(NamedTuple):
    """Whether it stopped, and all that was said, a line each."""

    stopped: bool
    lines: list[str]

    def names(self, what: str) -> bool:
        return any(what in line for line in self.lines)


class Computing(Exception):
    """The search has begun."""


def told_in_python(*given: Any, **how: Any) -> Told:
    """By `amends.repair`, with the accuracies and notes that it shows as it begins."""
    shown = io.StringIO()

    def search(*_: Any, **__: Any) -> None:
        raise Computing

    with warnings.catch_warnings(record=True) as warned, mock.patch.object(Plan, "search", search):
        warnings.simplefilter("always")
        with contextlib.redirect_stderr(shown):
            try:
                amends.repair(*given, progress=True, **how)
            except Computing:
                stopped, last = False, ""
            except amends.errors.AmendsError as e:
                stopped, last = True, str(e)
    lines = [*shown.getvalue().splitlines(), *(str(w.message) for w in warned), last]
    assert "\n" not in last
    return Told(stopped, lines)


def told_by_check(net: Any, train: Any, held: Any) -> Told:
    """By `amends check`, from files of this folder."""
    HERE["model"] = net
    kind = "npz" if train[0].is_floating_point() else "csv"
    for name, (x, y) in (("train", train), ("evaluation", held)):
        if kind == "npz":
            np.savez(f"{name}.npz", x=x.numpy(), y=y.numpy())
        else:
            rows = (f"{' '.join(map(str, row))},{label}\n" for row, label in zip(x.tolist(), y.tolist(), strict=True))
            Path(f"{name}.csv").write_text("words,label\n" + "".join(rows))
    Path("amends.toml").write_text(CONFIG.format(kind=kind) + (TEXTS if kind == "csv" else ""))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["check", "--json", "-q"])
    lines = err.getvalue().splitlines()
    assert code in (0, 2, 6), (code, lines)
    assert (code == 0) == (not [line for line in lines if line.startswith("error: ")]), lines
    return Told(code != 0, lines + (json.loads(out.getvalue())["notes"] if code == 0 else []))


def of_broken(name: str) -> Told:
    world, made, _ = BROKEN[name]
    net, train, held = made(world())
    if isinstance(train, tuple) and isinstance(net, torch.nn.Module):
        return told_by_check(net, train, held)
    return told_in_python(net, train, *evaluated(world().net, train, held)[2:])


def of_sound(name: str) -> Told:
    s = SOUND[name]()
    return told_in_python(s.model, s.train, s.failures, s.remaining, likelihood=s.likelihood)
