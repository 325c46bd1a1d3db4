"""A model on the user's own data, before and after a patch: `amends judge`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from amends.config.read import Config, read_config
from amends.data.records import Records
from amends.errors import BadInput, nearest
from amends.evaluation.predictions import class_targets, labels, right
from amends.evaluation.statistics import BeforeAfter, by_label, interval, paired_together
from amends.evidence.prepare import entry, factors, network_of
from amends.models import Loaded
from amends.nearness.copies import witnesses
from amends.patches.make import in_network
from amends.patches.names import tensors
from amends.patches.patch import Patch, State
from amends.patches.stack import with_all
from amends.runs.run import Run
from amends.workflow.job import likelihood_of, model_of, read_set
from amends.workflow.patching import repaired_model

MEASURED = ("accuracy", "change", "fixed", "broken", "lowest")
REQUIRED = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)\s*")


@dataclass(frozen=True)
class ToJudge:
    """A model to judge, and the config that says how it is built and how its data is read. The config names the model's
    own file or folder."""

    config: Config
    loaded: Loaded
    repaired: Loaded | None = None  # by a run

    @classmethod
    def of(cls, model: Path, config: Path) -> ToJudge:
        """`model` is a config, weights for the model the config builds, a Hugging Face directory, which needs no
        config, or a run folder: then its model before and after the repair."""
        if (model / "run.toml").is_file():
            run = Run.sound(model).trusting(True)  # the user named the run
            return cls(run.config, model_of(run.config), repaired_model(run, run.config) if run.done else None)
        if model.suffix == ".toml":
            own = read_config(model)
        elif not model.exists():
            raise BadInput(f"no such file; model {model}; give weights, a config, or the folder of a model")
        else:
            known = read_config(config) if config.exists() else None
            own = _with_model(known, model, config)
        return cls(own, model_of(own))

    def read(self, data: Path, patches: Sequence[Patch]) -> Records:
        """The data, read as [evaluation] of the config says. Classes and columns are those of train if that exists,
        else those the patch knows."""
        table = {**self.config["evaluation"], "path": str(data.resolve())}
        own = self.config.path("evaluation", "path")
        if own is None or _kind(own) != _kind(data):
            table = {k: v for k, v in table.items() if k not in ("format", "split")}
        config = replace(self.config, tables={**self.config.tables, "evaluation": table})
        train = config.path("train", "path")
        if train is not None and train.exists():
            return read_set(config, "evaluation", self.loaded, read_set(config, "train", self.loaded))
        about = next((p.about for p in patches if "classes" in p.about), {})
        for key in ("classes", "features"):
            if about.get(key) and key not in config.set("evaluation"):
                table[key] = list(about[key])
        return read_set(config, "evaluation", self.loaded)


def _with_model(known: Config | None, model: Path, config: Path) -> Config:
    """The config with `model` in place of its own model."""
    where = str(model.resolve())
    if model.is_dir() and (model / "config.json").is_file():
        own: dict[str, Any] = {"huggingface": where}
        kept = ("task", "options", "adapter")
    elif model.is_dir() and (model / "adapter_config.json").is_file():
        own, kept = {"adapter": where}, ("huggingface", "function", "weights", "task", "options")
    elif model.is_dir():
        own, kept = {"weights": str((model / "model.safetensors").resolve())}, ("function", "options")
    else:
        own, kept = {"weights": where}, ("function", "options")
    if known is None and "huggingface" not in own:
        raise BadInput(
            f"weights do not say how the model is built, and there is no config; {config}; give one with --config"
        )
    tables = {} if known is None else known.tables
    mine = {k: v for k, v in tables.get("model", {}).items() if k in kept} | own
    if not {"function", "huggingface"} & set(mine):
        raise BadInput(f"the config builds no model with weights of its own; {config}; give a directory of the model")
    folder = Path() if known is None else known.folder
    return Config({**tables, "model": mine}, folder, str(config if known is not None else model))


def _kind(path: Path) -> str:
    return "folder" if path.is_dir() else path.suffix


@entry
def judged(subject: ToJudge, data: Path, patches: Sequence[Patch]) -> dict[str, Any]:
    """Accuracy with its interval, and each class; with patches also before and after, and what is fixed and broken."""
    if not data.exists():
        raise BadInput(f"no such file; data {data}; check the path")
    config = subject.config
    network = network_of(subject.loaded.model, likelihood_of(config, subject.loaded), config.repair("device"))
    given = factors(network, config.repair("batch_size"), data=subject.read(data, patches))["data"]
    state = tensors(network.module)
    start, end = _both(state, patches) if subject.repaired is None else (state, tensors(subject.repaired.model))
    before, after = (right(given, in_network(s, network)) for s in (start, end))
    first = witnesses(given, given)
    pair = BeforeAfter(before, after, first if len(np.unique(first)) < len(first) else None)
    measured: dict[str, Any] = {"n": len(pair), "witnesses": pair.witnesses, "accuracy": float(after.mean()),
                            "interval": interval(float(after.mean()), pair.alone)}  # fmt: skip
    if patches or subject.repaired is not None:
        measured |= {
            "before": float(before.mean()), "interval_before": interval(float(before.mean()), pair.alone),
            "change": float(after.mean() - before.mean()), "interval_change": paired_together([(1.0, pair)]),
            "fixed": pair.fixed, "broken": pair.broken, "p_value": pair.p_value,
            "fixed_at": np.flatnonzero(~before & after).tolist(), "broken_at": np.flatnonzero(before & ~after).tolist(),
        }  # fmt: skip
    measured["classes"] = by_label(labels(given), pair) if class_targets(given) else {}
    return measured


def _both(state: State, patches: Sequence[Patch]) -> tuple[State, State]:
    """The weights without and with the patches, which may be on the given weights already."""
    state = {name: value.detach().cpu() for name, value in state.items()}
    if patches and patches[-1].is_on(state, "model"):
        before: dict[str, torch.Tensor] = dict(state)
        for patch in reversed(patches):
            before |= patch.take_off(before, "model")
        return before, state
    return state, {**state, **with_all(state, patches, "model")}


def requirements(text: str, patched: bool) -> list[tuple[str, str, float]]:
    """What must hold, from "accuracy>=0.9,change>=0,broken<=5"."""
    required = []
    for part in text.split(","):
        match = REQUIRED.fullmatch(part)
        if match is None:
            raise BadInput(f'cannot read {part.strip()!r}; --require; write it as "accuracy>=0.9,broken<=5"')
        name, sign, value = match.groups()
        if name not in MEASURED:
            raise BadInput(f"{name} is not measured; --require; {nearest(name, MEASURED)}")
        if not patched and name not in ("accuracy", "lowest"):
            raise BadInput(f"{name} is known only with a patch; --require; give --patch, or leave it out")
        required.append((name, sign, float(value)))
    return required


def unmet(required: Sequence[tuple[str, str, float]], measured: Mapping[str, Any]) -> list[str]:
    """The requirements that do not hold, each in words."""
    missed = []
    for name, sign, wanted in required:
        rows = measured["classes"].values()
        value = min((row["after"] for row in rows), default=None) if name == "lowest" else measured[name]
        if value is None or not (value >= wanted if sign == ">=" else value <= wanted):
            shown = "not measured" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.3f}"
            missed.append(f"{name} is {shown}, required {sign} {wanted:g}")
    return missed
