"""A patch from a run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from amends.algorithm.problem import Problem
from amends.algorithm.verdict import NOT
from amends.config.read import Config
from amends.data.hashes import weights_hash
from amends.errors import BadInput, RunMismatch
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.prepare import entry, network_of
from amends.models import Loaded, load
from amends.models.weights import read_weights
from amends.patches.files import SAFE, TORCH, weight_files
from amends.patches.make import REFUSED, Repaired, exact_patch, judged_by_run
from amends.patches.names import dtype_name
from amends.patches.patch import Patch, State, between
from amends.progress import Progress
from amends.report.card import with_patch
from amends.report.page import report
from amends.runs.compare import same_recipe
from amends.runs.manifest import add_to_run
from amends.runs.run import Run
from amends.workflow.job import Job, model_of, open_job
from amends.workflow.patched import judged_beside, provenance
from amends.workflow.store import Origin

RECIPE = ("config", "data")  # tables of run.toml that a patch carries


@entry
def patch_of_run(
    run: Run, exact: bool = False, weights: Path | None = None, beside: Sequence[Patch] = (),
    progress: bool | None = None,
) -> tuple[Patch, list[dict[str, Any]]]:  # fmt: skip
    """The patch of a finished run. A small one is judged with the data that its config names. An exact one needs the
    model alone, or `weights`: those the run began with. The list says for each patch in
    `beside` whether this one holds without it, or with it below."""
    if run.metrics["verdict"] == NOT:
        raise BadInput(f"there is no patch, since nothing was repaired; {run.folder}; {REFUSED}")
    if weights is not None and not beside:
        return _between_files(run, weights), []
    if "config" not in run.about:
        raise BadInput(
            f"the run was made in Python, so nothing says where the model is; {run.folder}; give the weights it began "
            "with as --weights, or call result.patch() in Python"
        )
    if exact and not beside:
        return _exact(run), []
    repaired, loaded = repaired_by(run)
    with Progress.shown(progress) as shown:
        return judged_beside(repaired, _stored(repaired.patch(exact, shown), loaded), beside)


def show_in_run(run: Run, description: Mapping[str, Any]) -> None:
    """Writes the description of a patch to the run folder, and shows it in the card and the report."""
    card = run.folder / "repaired" / "README.md"

    def fill(target: Path) -> None:
        (target / "patch.json").write_text(
            json.dumps(description, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (target / "repaired").mkdir()
        text = with_patch(card.read_text(encoding="utf-8"), description)
        (target / "repaired" / "README.md").write_text(text, encoding="utf-8")

    def page(target: Path) -> None:
        (target / "report.html").write_text(report(run.folder), encoding="utf-8")

    with Run.writing(run.folder):
        add_to_run(run.folder, fill)
        add_to_run(run.folder, page)


def repaired_by(run: Run) -> tuple[Repaired, Loaded]:
    """The repair of a run, ready to be judged again, and its model as it was loaded."""
    job = open_job(run.config)
    _same(run, job)
    options = replace(job.options, remove=None, anyway=True)
    split, network = Problem.of(job.given, options).repaired(), job.given["train"].network
    after = network.weights(repaired_model(run, job.config).model, str(run.folder / "repaired"))
    about = about_run(run, network, job.given["train"])
    return Repaired(job.given, split, after, run.metrics, options.floor, options.least, about), job.loaded


def _same(run: Run, job: Job) -> None:
    """RunMismatch unless model and data are those of the run; versions of libraries may differ."""
    now = Origin(run.name, job.config.repair("seed"), job.config, job.loaded).about("done", job.given)
    same_recipe(run, {"model": now["model"], "data": now["data"], "run": run.about["run"]})


def repaired_model(run: Run, config: Config) -> Loaded:
    """The repaired model, built as the config says."""
    model, folder = config["model"], (run.folder / "repaired").resolve()
    own = {"adapter": folder} if "adapter" in model else {"huggingface": folder} if "huggingface" in model else {}
    if not own:
        own = {"weights": folder / "model.safetensors"}
    keys = ("function", "options", "weights", "huggingface", "task", "adapter")
    return load(**{**{k: model.get(k) for k in keys}, **own}, folder=config.folder)


def _exact(run: Run) -> Patch:
    loaded = model_of(run.config)
    network = network_of(loaded.model, loaded.likelihood, None)
    if weights_hash(network.module.state_dict()) != run.about["model"]["sha256"]:
        raise _other(run)
    after = network.weights(repaired_model(run, run.config).model, str(run.folder / "repaired"))
    return _stored(exact_patch(network, after, run.metrics, about_run(run, network)), loaded)


def _between_files(run: Run, weights: Path) -> Patch:
    """The patch between two files: no model is built, and no code is run."""
    before, after = (_state(path) for path in (weights, run.folder / "repaired"))
    aliases = _aliases(run.folder / "repaired" / "model.safetensors")
    before, after = (_all_names(state, aliases) for state in (before, after))
    if before.keys() != after.keys() or any(before[k].shape != after[k].shape for k in before):
        raise _other(run)
    wide = _all_names({name: value.to(after[name].dtype) for name, value in before.items()}, aliases)
    if weights_hash(wide) != run.about["model"]["sha256"]:
        raise _other(run)
    patch = between(wide, after)
    stored = {name: dtype_name(before[name].dtype) for name in patch.layers if before[name].dtype != after[name].dtype}
    base = replace(patch.bases[0], judged=judged_by_run(run.metrics))
    return replace(patch, bases=(base,), stored=stored, about=about_run(run))


def _aliases(path: Path) -> dict[str, str]:
    """For each name of a tied tensor that the file leaves out, the name it is stored under."""
    from safetensors import safe_open

    if not path.is_file():
        return {}
    with safe_open(path, framework="pt") as file:
        return {name: stored_as for name, stored_as in (file.metadata() or {}).items() if stored_as in set(file.keys())}


def _all_names(state: State, aliases: Mapping[str, str]) -> dict[str, Tensor]:
    """The state with every name of each tied tensor, whichever of them it was stored under."""
    complete = dict(state)
    for name, stored_as in aliases.items():
        value = state.get(stored_as, state.get(name))
        if value is not None:
            complete |= {name: value, stored_as: value}
    return complete


def _state(path: Path) -> State:
    return {name: value for file in weight_files(path) for name, value in read_weights(file).items()}


def _other(run: Run) -> RunMismatch:
    todo = "give the weights it began with"
    return RunMismatch(f"the weights are not what this run was made with; {run.folder}; {todo}")


def _stored(patch: Patch, loaded: Loaded) -> Patch:
    """The patch with the dtypes of the files, for tensors that were loaded in another one."""
    stored = {}
    for path in (p for p in loaded.files if p.suffix in (*SAFE, *TORCH)):
        for name, value in read_weights(path).items():
            known = patch.bases[0].before.get(name, "").partition(" ")[0]
            if name in patch.layers and known and dtype_name(value.dtype) != known:
                stored[name] = dtype_name(value.dtype)
    return replace(patch, stored=stored)


def about_run(run: Run, network: Network | None = None, train: Factor | None = None) -> dict[str, Any]:
    """Where a patch comes from."""
    ids = {name: run.dataset(name) for name in ("removed", "relabelled")}
    about = provenance(run.metrics, run.name, network, train)
    classes = run.looks.get("classes")
    if classes and "classes" not in about:
        about["classes"] = list(classes)
    recipe = {name: run.about[name] for name in RECIPE if name in run.about}
    return about | {
        "rule": run.about["run"].get("rule", ""), "model": run.about["model"]["sha256"], "recipe": recipe,
        "removed": sorted(ids["removed"]["id"].tolist()),
        "relabelled": dict(zip(ids["relabelled"]["id"], ids["relabelled"]["label"], strict=True)),
    }  # fmt: skip
