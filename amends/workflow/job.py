"""Everything a config names, loaded: the model, its likelihood, and the sets of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.algorithm.options import Keep, Options, sets_to_keep
from amends.algorithm.split import Groups
from amends.config.read import Config
from amends.data.examples import examples
from amends.data.failures import positions, select
from amends.data.formats import guess
from amends.data.read import read
from amends.data.records import Records
from amends.distributed.machine import one_reads
from amends.errors import BadInput, many
from amends.evaluation.predictions import right
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.prepare import factors, network_of
from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian, Likelihood, Tokens
from amends.methods import fine_tune, named
from amends.models import Loaded, function_named, load
from amends.nearness.copies import shared
from amends.trace import load as load_trace

FUNCTIONS = ("transform", "augment")
KINDS: dict[str, Callable[..., Likelihood]] = {
    "categorical": Categorical, "bernoulli": Bernoulli, "gaussian": Gaussian, "tokens": Tokens,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Job:
    """A model, and what it gets wrong: ready for a repair. `records` are the sets as they were read, `given` the same
    sets as evidence under one copy of the model."""

    config: Config
    loaded: Loaded
    records: Mapping[str, Records]
    given: dict[str, Factor]
    notes: tuple[str, ...] = ()  # what a person should know before anything is computed
    trusted: bool = False  # whether code of a run made elsewhere may have been run

    @cached_property
    def options(self) -> Options:
        """How the repair is to be done."""
        c = self.config
        top, share = c.repair("top"), c.repair("fraction")
        return Options(
            identify_with=self._identification,
            treat_with=self._treatment,
            learn=c.repair("learn"),
            remove=top if share is None else float(share),
            holdout=c.repair("holdout"),
            group_by=self._groups,
            floor=c.repair("floor"),
            broken_costs=c.repair("broken_costs"),
            seed=c.repair("seed"),
            budget=c.repair("budget"),
            least=sets_to_keep(_kept(c))[1],
            anyway=c.repair("anyway"),
            trust=self.trusted,
            unsafe_pickle=c.repair("unsafe_pickle"),
            whole="path" not in c["failures"] and "path" not in c["remaining"],
        )

    @property
    def _identification(self) -> Any:
        c = self.config
        name, options = c.repair("method"), _traced(c, c.repair("method_options"))
        return None if name == "default" and not options else named(name, c.repair("solver"), **options)

    @property
    def _treatment(self) -> Any:
        c = self.config
        name, options = c.repair("treat"), _traced(c, c.repair("treat_options"))
        if c.repair("relabel"):
            if name not in ("default", "fine_tune"):
                raise BadInput(
                    f"relabel goes with fine_tune, not with {name}; {c.where_is('repair')}; drop one of them"
                )
            return fine_tune(relabel=True, **options)
        if name == "default" and options:
            raise BadInput(f"the default takes no treat_options; {c.where_is('repair')}; name a treatment")
        return None if name == "default" else named(name, c.repair("solver"), **options)

    @property
    def _groups(self) -> Groups:
        c = self.config
        by, only = c.repair("group_by"), c.repair("group")
        if by is None:  # pairs of classes, with the arrow that keyboards have
            only = only.replace("->", "→") if isinstance(only, str) else only and [o.replace("->", "→") for o in only]
        if by is None or by == "clusters":
            return Groups(by, only)
        columns = self.records["failures"].columns
        if by not in columns:
            known = ", ".join(["clusters", *columns])
            raise BadInput(f"the failures have no column {by}; {c.where_is('repair')} group_by; "
                           f"choose from {known}")  # fmt: skip
        return Groups(columns[by], only)


def open_job(config: Config) -> Job:
    """Loads what the config names; where failures are not named, runs the model to find them."""
    loaded = model_of(config)
    network = network_of(loaded.model, likelihood_of(config, loaded), config.repair("device"))
    train = read_set(config, "train", loaded)
    first = examples(train, "train")
    network = network.of_family(first)
    network.check(first)  # the other sets have its classes and columns, and would be blamed
    held = {n: read_set(config, n, loaded, train) for n in ("evaluation", "remaining") if "path" in config[n]}
    keep = {f"keep.{n}": read_set(config, f"keep.{n}", loaded, train) for n in config.keep}
    sets, notes = _failures(config, network, loaded, train, held)
    records = {"train": train, **sets, **keep}
    records = {name: data for name, data in records.items() if data is not None}
    given = factors(network, config.repair("batch_size"), **records)
    names = dict(zip(keep, sets_to_keep(_kept(config))[0], strict=True))  # as a repair in Python would name them
    return Job(config, loaded, records, {names.get(name, name): data for name, data in given.items()}, tuple(notes))


def _traced(config: Config, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of a method; a recorded run is named by its folder."""
    resolved = dict(options or {})
    for key in ("trace", "checkpoints"):
        if isinstance(resolved.get(key), str):
            resolved[key] = load_trace(config.folder / resolved[key])
    return resolved


def _kept(config: Config) -> dict[str, Any]:
    """The sets to keep by their names in the config, without examples, each with the accuracy it must end with if
    any."""
    least = {name: config["keep"][name].get("least") for name in config.keep}
    return {name: () if low is None else Keep((), low) for name, low in least.items()}


def model_of(config: Config) -> Loaded:
    """The model a config names."""
    model = config["model"]
    return load(
        function=model.get("function"), options=model.get("options"), weights=model.get("weights"),
        huggingface=model.get("huggingface"), task=model.get("task"),
        adapter=model.get("adapter"), folder=config.folder, unsafe_pickle=bool(config.repair("unsafe_pickle")),
    )  # fmt: skip


def train_of(config: Config) -> tuple[Path, dict[str, Any]]:
    """The path of train, and the other arguments of `amends.data.read` for it. Only the encoder of the model is used,
    and no other set is opened."""
    return _arguments(config, "train", model_of(config), ())


def read_set(config: Config, table: str, loaded: Loaded, train: Records | None = None) -> Records:
    """One set. Its classes are those it names, or the model's, or those of train; columns of a table those of train."""
    path, keys = _arguments(config, table, loaded, () if train is None else train.classes)
    columns = () if train is None or {"features", "image", "text", "transform"} & set(keys) else train.features
    if columns and (keys.get("format") or guess(path)) in ("csv", "parquet", "jsonl"):
        keys["features"] = list(columns)
    with one_reads():
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
    config: Config, network: Network, loaded: Loaded, train: Records, held: dict[str, Records]
) -> tuple[dict[str, Records | None], list[str]]:
    """The sets `failures`, `remaining` and `unnamed` (neither of the two), as the config names them or as the model's
    answers show; and notes about them."""
    named, pool, rest = config["failures"], held.get("evaluation"), held.get("remaining")
    fine = np.zeros(0, dtype=bool) if pool is None else _right(config, network, "evaluation", pool)
    if "path" in named:
        failures = read_set(config, "failures", loaded, train)
        notes = _already(int(_right(config, network, "failures", failures).sum()), len(failures))
        if pool is None:
            return {"failures": failures, "remaining": rest}, notes
        sets = factors(network, config.repair("batch_size"), evaluation=pool, failures=failures)
        left = np.flatnonzero(~shared(sets["evaluation"], sets["failures"]))
        other = left if rest is not None else left[~fine[left]]
        rest = rest or _some(pool, np.flatnonzero(fine))
        return {"failures": failures, "remaining": rest, "unnamed": _some(pool, other)}, notes
    pool = held["evaluation"]
    if "ids" in named or "indices" in named:
        which = named["indices"] if "indices" in named else config.folder / named["ids"]
        at = positions(pool, which, config.where_is("failures"), config.set("evaluation").get("id"))
    else:
        at = np.flatnonzero(~fine)
    if not len(at):
        raise BadInput(
            f"the model gets all of {many(len(fine), 'example')} right, so there is nothing to repair; "
            f"{config.where_is('evaluation')}; give examples it fails on"
        )
    failures = select(pool, at)
    failures = replace(failures, columns={"row": at, **failures.columns})
    left = np.setdiff1d(np.arange(len(fine)), at)
    other = left if rest is not None else left[~fine[left]]
    rest = rest or _some(pool, left[fine[left]])
    sets = {"failures": failures, "remaining": rest, "unnamed": _some(pool, other)}
    return sets, _already(int(fine[at].sum()), len(at))


def _some(pool: Records, at: np.ndarray) -> Records | None:
    return select(pool, at) if len(at) else None


def _already(right: int, named: int) -> list[str]:
    return [f"the model gets {right:,} of the {many(named, 'failure')} right already"] if right else []


def _right(config: Config, network: Network, name: str, data: Records) -> np.ndarray:
    """For each example of a set, whether the model is right."""
    given = factors(network, config.repair("batch_size"), **{name: data})[name]
    with torch.no_grad():
        return right(given, network.params)


def likelihood_of(config: Config, loaded: Loaded) -> Any:
    """What [likelihood] says, or if it is empty what the model implies."""
    keys = dict(config["likelihood"])
    if not keys:
        return loaded.likelihood
    kind, where = keys.pop("kind", None), config.where_is("likelihood")
    weights, smoothing = keys.pop("class_weights", None), keys.pop("label_smoothing", None)
    function = keys.pop("function", None)
    allowed = {"gaussian": {"sigma", "bound"}, "tokens": {"share"}}.get(kind or "categorical", set())
    for key in keys:
        if key not in allowed:
            raise BadInput(f"{key} does not go with {kind or 'categorical'}; {where}; drop it, or change kind")
    if kind == "gaussian" and "sigma" not in keys:
        raise BadInput(
            f"sigma is not given; {where}; give the standard deviation of the noise, in the units of the target"
        )
    family = KINDS[kind](**keys) if kind is not None else loaded.likelihood or Categorical()
    if function is not None:
        return Custom(function_named(function, config.folder, where), like=family)
    if weights is None and smoothing is None:
        return family
    if not isinstance(family, Categorical):
        raise BadInput(f"class_weights and label_smoothing go with categorical only; {where}; drop them")
    if smoothing is not None and not 0 <= smoothing <= 1:
        raise BadInput(f"label_smoothing is {smoothing}; {where}; give a number from 0 to 1")
    if weights is not None and not all(isinstance(w, int | float) and 0 <= w < float("inf") for w in weights):
        raise BadInput(f"class_weights are {weights}; {where}; give numbers of 0 or more")
    return Custom(_cross_entropy(weights, smoothing or 0.0), like=family)


def _cross_entropy(weights: list[float] | None, smoothing: float) -> Callable[[Tensor, Tensor], Tensor]:
    """The log-likelihood of torch's cross_entropy, with these weights and this smoothing."""

    def log_prob(outputs: Tensor, targets: Tensor) -> Tensor:
        scale = None if weights is None else torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)
        return -torch.nn.functional.cross_entropy(
            outputs, targets, weight=scale, label_smoothing=smoothing, reduction="none"
        )

    return log_prob
