"""Everything a config names, loaded: the model, its likelihood, and the sets of examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.algorithm.cut import Groups
from amends.algorithm.verdict import Keep
from amends.config.read import Config
from amends.data.failures import positions, select
from amends.data.formats import guess
from amends.data.hashes import set_hash, weights_hash
from amends.data.read import read
from amends.data.records import Records
from amends.errors import BadInput
from amends.evaluation.predictions import right
from amends.evidence.prepare import prepare
from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian, Likelihood, Tokens
from amends.methods import fine_tune, named
from amends.models import Loaded, function_named, load

FUNCTIONS = ("transform", "augment")
KINDS: dict[str, Callable[..., Likelihood]] = {
    "categorical": Categorical, "bernoulli": Bernoulli, "gaussian": Gaussian, "tokens": Tokens,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Job:
    """A model, and what it gets wrong: ready for `amends.repair`."""

    config: Config
    loaded: Loaded
    likelihood: Any
    train: Records
    failures: Records
    remaining: Records | None
    keep: dict[str, Records] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a person should know before anything is computed

    @property
    def sets(self) -> dict[str, Records]:
        """Every set, by the name it has in a run folder."""
        given = {"train": self.train, "failures": self.failures, "remaining": self.remaining}
        return {k: v for k, v in given.items() if v is not None} | {f"keep.{k}": v for k, v in self.keep.items()}

    @property
    def searching(self) -> dict[str, Any]:
        """Arguments of the first half of a repair."""
        c = self.config
        method = named(c.repair("method"), c.repair("solver"), **(c.repair("method_options") or {}))
        return {
            "identify_with": method, "holdout": c.repair("holdout"), "group_by": self._groups,
            "likelihood": self.likelihood, "seed": c.repair("seed"), "device": c.repair("device"),
            "batch_size": c.repair("batch_size"),
        }  # fmt: skip

    @property
    def repairing(self) -> dict[str, Any]:
        """Arguments of a whole one."""
        c = self.config
        top, share = c.repair("top"), c.repair("fraction")
        return {
            **self.searching, "treat_with": self._treatment, "learn": c.repair("learn"), "floor": c.repair("floor"),
            "remove": top if share is None else float(share), "keep": {name: self._kept(name) for name in self.keep},
        }  # fmt: skip

    def _kept(self, name: str) -> Any:
        least = self.config["keep"][name].get("least")
        return self.keep[name] if least is None else Keep(self.keep[name], least)

    @property
    def _treatment(self) -> Any:
        c = self.config
        name, options = c.repair("treat"), dict(c.repair("treat_options") or {})
        if c.repair("relabel"):
            if name not in ("default", "fine_tune"):
                raise BadInput(f"relabel goes with fine_tune, not with {name}; {c.where_is('repair')}; take one away")
            return fine_tune(relabel=True, **options)
        if name == "default" and options:
            raise BadInput(f"the default takes no treat_options; {c.where_is('repair')}; name a treatment")
        return named(name, c.repair("solver"), **options)

    @property
    def _groups(self) -> Groups:
        c = self.config
        by, only = c.repair("group_by"), c.repair("group")
        if by is None or by == "clusters":
            return Groups(by, only)
        if by not in self.failures.columns:
            known = ", ".join(["clusters", *self.failures.columns])
            raise BadInput(f"the failures have no column {by}; {c.where_is('repair')} group_by; there are {known}")
        return Groups(self.failures.columns[by], only)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """sha256 of every set, and of the model's weights."""
        found = {name: set_hash(data.x, data.y) for name, data in self.sets.items()}
        return {**found, "model": weights_hash(self.loaded.model.state_dict())}


def open_job(config: Config) -> Job:
    """Loads what the config names; where failures are not named, runs the model to find them."""
    loaded = _loaded(config)
    likelihood = _likelihood(config, loaded)
    train = _read(config, "train", loaded)
    held = {n: _read(config, n, loaded, train) for n in ("evaluation", "remaining") if "path" in config[n]}
    keep = {n: _read(config, f"keep.{n}", loaded, train) for n in config.keep}
    failures, remaining, notes = _failures(config, loaded, likelihood, train, held)
    return Job(config, loaded, likelihood, train, failures, remaining, keep, tuple(notes))


def _loaded(config: Config) -> Loaded:
    model = config["model"]
    return load(
        function=model.get("function"), options=model.get("options"), weights=model.get("weights"),
        huggingface=model.get("huggingface"), task=model.get("task"),
        adapter=model.get("adapter"), folder=config.folder,
    )  # fmt: skip


def train_of(config: Config) -> tuple[Path, dict[str, Any]]:
    """Where train lies, and the other arguments `amends.data.read` takes for it. Of the model only the encoder
    is asked for, and no other set is opened."""
    return _arguments(config, "train", _loaded(config), ())


def _read(config: Config, table: str, loaded: Loaded, train: Records | None = None) -> Records:
    """One set; its classes are those it names, the model's, or those of train, and so are the columns of a table."""
    path, keys = _arguments(config, table, loaded, () if train is None else train.classes)
    columns = () if train is None or {"features", "image", "text", "transform"} & set(keys) else train.features
    if columns and (keys.get("format") or guess(path)) in ("csv", "parquet"):
        keys["features"] = list(columns)
    return read(path, **keys)


def _arguments(config: Config, table: str, loaded: Loaded, classes: tuple[str, ...]) -> tuple[Path, dict[str, Any]]:
    keys = config.set(table)
    keys = {k: v for k, v in keys.items() if k not in ("ids", "indices", "least")}
    path = config.folder / keys.pop("path")
    for key in FUNCTIONS:
        if key in keys:
            keys[key] = function_named(keys[key], config.folder, config.where_is(table))
    if loaded.encode is not None and "transform" not in keys:
        keys["encode"] = loaded.encode
    if "classes" not in keys and keys.get("target", "class") == "class":
        keys["classes"] = list(loaded.classes or classes) or None
    return path, keys


def _failures(
    config: Config, loaded: Loaded, likelihood: Any, train: Records, held: dict[str, Records]
) -> tuple[Records, Records | None, list[str]]:
    keys, notes = config["failures"], []
    if "path" in keys:
        failures = _read(config, "failures", loaded, train)
        already = int(_right(config, loaded, likelihood, "failures", failures).sum())
        if already:
            notes.append(_already(already, len(failures)))
        remaining, pool = held.get("remaining"), held.get("evaluation")
        if remaining is None and pool is not None:
            rest = np.flatnonzero(_right(config, loaded, likelihood, "evaluation", pool))
            remaining = select(pool, rest) if len(rest) else None
        return failures, remaining, notes
    pool = held["evaluation"]
    fine = _right(config, loaded, likelihood, "evaluation", pool)
    if "ids" in keys or "indices" in keys:
        chosen = keys["indices"] if "indices" in keys else config.folder / keys["ids"]
        at = positions(pool, chosen, config.where_is("failures"))
        already = int(fine[at].sum())
        if already:
            notes.append(_already(already, len(at)))
    else:
        at = np.flatnonzero(~fine)
        if not len(at):
            raise BadInput(
                f"the model gets all {len(fine)} right, there is nothing to repair; {config.where_is('evaluation')}; "
                "give examples it fails on"
            )
    rest = np.setdiff1d(np.flatnonzero(fine), at)
    remaining = held.get("remaining") or (select(pool, rest) if len(rest) else None)
    failures = select(pool, at)
    return replace(failures, columns={"row": at, **failures.columns}), remaining, notes


def _already(right: int, named: int) -> str:
    return f"{right} of the {named} failures named are predicted right by this model"


def _right(config: Config, loaded: Loaded, likelihood: Any, name: str, data: Records) -> np.ndarray:
    """Whether the model is right about each of a set."""
    given = prepare(
        loaded.model, likelihood, config.repair("device"), config.repair("batch_size"), **{name: data}
    )[name]  # fmt: skip
    with torch.no_grad():
        return right(given, given.network.params)


def _likelihood(config: Config, loaded: Loaded) -> Any:
    """As [likelihood] says; what the model implies where it says nothing."""
    keys = dict(config["likelihood"])
    if not keys:
        return loaded.likelihood
    kind, where = keys.pop("kind", None), config.where_is("likelihood")
    weights, smoothing = keys.pop("class_weights", None), keys.pop("label_smoothing", None)
    function = keys.pop("function", None)
    allowed = {"gaussian": {"sigma", "bound"}, "tokens": {"share"}}.get(kind or "categorical", set())
    for key in keys:
        if key not in allowed:
            raise BadInput(f"{key} does not go with {kind or 'categorical'}; {where}; take it away, or change kind")
    family = KINDS[kind](**keys) if kind is not None else loaded.likelihood or Categorical()
    if function is not None:
        return Custom(function_named(function, config.folder, where), like=family)
    if weights is None and smoothing is None:
        return family
    if not isinstance(family, Categorical):
        raise BadInput(f"class_weights and label_smoothing go with categorical; {where}; take them away")
    return Custom(_cross_entropy(weights, smoothing or 0.0), like=family)


def _cross_entropy(weights: list[float] | None, smoothing: float) -> Callable[[Tensor, Tensor], Tensor]:
    """torch's, as the model was trained with it."""

    def log_prob(outputs: Tensor, targets: Tensor) -> Tensor:
        scale = None if weights is None else torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)
        return -torch.nn.functional.cross_entropy(
            outputs, targets, weight=scale, label_smoothing=smoothing, reduction="none"
        )

    return log_prob
