"""A model on data of one's own, before and after a patch: `amends judge`."""

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
class Asked:
    """A model to judge: the config that says how it is built and how data is read, with the model's own file or
    folder in its place."""

    config: Config
    loaded: Loaded
    repaired: Loaded | None = None  # by a run

    @classmethod
    def of(cls, model: Path, config: Path) -> Asked:
        """`model` is a config, weights for the model the config builds, a Hugging Face directory, which needs no
        config, or a run folder: then its model before and after the repair."""
        if (model / "run.toml").is_file():
            run = Run.sound(model).trusting(True)  # whoever asks has been asked
            return cls(run.config, model_of(run.config), repaired_model(run, run.config) if run.done else None)
        if model.suffix == ".toml":
            found = read_config(model)
        elif not model.exists():
            raise BadInput(f"no such file; model {model}; give weights, a config, or the folder of a model")
        else:
            known = read_config(config) if config.exists() else None
            found = _with_model(known, model, config)
        return cls(found, model_of(found))

    def read(self, data: Path, patches: Sequence[Patch]) -> Records:
        """The data as [evaluation] of the config says, with classes and columns of train where that is there, or as the
        patch knows them."""
        there = {**self.config["evaluation"], "path": str(data.resolve())}
        own = self.config.path("evaluation", "path")
        if own is None or _kind(own) != _kind(data):
            there = {k: v for k, v in there.items() if k not in ("format", "split")}
        config = replace(self.config, tables={**self.config.tables, "evaluation": there})
        train = config.path("train", "path")
        if train is not None and train.exists():
            return read_set(config, "evaluation", self.loaded, read_set(config, "train", self.loaded))
        about = next((p.about for p in patches if "classes" in p.about), {})
        for key in ("classes", "features"):
            if about.get(key) and key not in config.set("evaluation"):
                there[key] = list(about[key])
        return read_set(config, "evaluation", self.loaded)


def _with_model(known: Config | None, model: Path, config: Path) -> Config:
    """The config with this model in the place of its own."""
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
def judged(asked: Asked, data: Path, patches: Sequence[Patch]) -> dict[str, Any]:
    """Accuracy with its interval; with patches before and after them, what is fixed and broken, and each class."""
    if not data.exists():
        raise BadInput(f"no such file; data {data}; check the path")
    config = asked.config
    network = network_of(asked.loaded.model, likelihood_of(config, asked.loaded), config.repair("device"))
    given = factors(network, config.repair("batch_size"), data=asked.read(data, patches))["data"]
    state = tensors(network.module)
    start, end = _both(state, patches) if asked.repaired is None else (state, tensors(asked.repaired.model))
    before, after = (right(given, in_network(s, network)) for s in (start, end))
    first = witnesses(given, given)
    pair = BeforeAfter(before, after, first if len(np.unique(first)) < len(first) else None)
    told: dict[str, Any] = {"n": len(pair), "witnesses": pair.witnesses, "accuracy": float(after.mean()),
                            "interval": interval(float(after.mean()), pair.alone)}  # fmt: skip
    if patches or asked.repaired is not None:
        told |= {
            "before": float(before.mean()), "interval_before": interval(float(before.mean()), pair.alone),
            "change": float(after.mean() - before.mean()), "interval_change": paired_together([(1.0, pair)]),
            "fixed": pair.fixed, "broken": pair.broken, "p_value": pair.p_value,
            "fixed_at": np.flatnonzero(~before & after).tolist(), "broken_at": np.flatnonzero(before & ~after).tolist(),
        }  # fmt: skip
    told["classes"] = by_label(labels(given), pair) if class_targets(given) else {}
    return told


def _both(state: State, patches: Sequence[Patch]) -> tuple[State, State]:
    """The weights without and with the patches; those given may have them on already."""
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
        found = REQUIRED.fullmatch(part)
        if found is None:
            raise BadInput(f'cannot read {part.strip()!r}; --require; write it as "accuracy>=0.9,broken<=5"')
        name, sign, value = found.groups()
        if name not in MEASURED:
            raise BadInput(f"{name} is not measured; --require; {nearest(name, MEASURED)}")
        if not patched and name not in ("accuracy", "lowest"):
            raise BadInput(f"{name} is known only with a patch; --require; give --patch, or leave it out")
        required.append((name, sign, float(value)))
    return required


def unmet(required: Sequence[tuple[str, str, float]], told: Mapping[str, Any]) -> list[str]:
    """The requirements that do not hold, each in words."""
    missed = []
    for name, sign, wanted in required:
        rows = told["classes"].values()
        value = min((row["after"] for row in rows), default=None) if name == "lowest" else told[name]
        if value is None or not (value >= wanted if sign == ">=" else value <= wanted):
            shown = "not measured" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.3f}"
            missed.append(f"{name} is {shown}, required {sign} {wanted:g}")
    return missed
