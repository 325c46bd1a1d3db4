"""A search in parts, for machines that cannot talk to each other: each scores some of train, then they are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tomli_w
from safetensors.torch import load_file, save_file

from amends.algorithm.identify import Identified
from amends.algorithm.part import identified_part, identified_together
from amends.algorithm.problem import Problem
from amends.errors import BadInput, RunMismatch
from amends.evidence.prepare import entry
from amends.methods import Default
from amends.progress import Progress
from amends.runs.claim import claimed
from amends.runs.compare import same_recipe
from amends.runs.manifest import write_run
from amends.runs.run import IDENTIFIED, SHARD, Run
from amends.workflow.job import Job
from amends.workflow.store import write_first_search
from amends.workflow.verbs import in_time, origin_of
from amends.workflow.warned import suspect_labels

ARRAYS = ("scores", "raw", "before")
EDIT = "edited.safetensors"


def shard_named(text: str) -> tuple[int, int]:
    """(3, 64) from "3/64"; the first is 0/64."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and int(number) < int(count)):
        raise BadInput(f"--shard is {text!r}; it must be i/n with i from 0 to n - 1; give 0/4, 1/4, 2/4 and 3/4")
    return int(number), int(count)


@entry
def identify_shard(job: Job, out: Path, shard: tuple[int, int], progress: bool | None) -> tuple[int, int]:
    """Writes the scores of a part of train, as a folder to merge; returns where the part begins and ends."""
    with claimed(out, "identify"):
        job = in_time(job)
        problem = _of_one_group(job)
        part, train = problem.parts[0], job.given["train"]
        query, guard = job.given["failures"][part.query], part.guarding(job.given)
        batches = -(-len(train) // train.batch)
        start, stop = (min(len(train), train.batch * (batches * (shard[0] + k) // shard[1])) for k in (0, 1))
        with Progress.shown(progress) as shown:
            method, seed = problem.plan.identify_with, problem.plan.seed
            arrays, identified = identified_part(train, query, guard, method, seed, shown, slice(start, stop))

        def fill(target: Path) -> None:
            span = np.array([start, stop, *shard])
            np.savez(target / "shard.npz", allow_pickle=False, query=part.query, span=span, **arrays)
            if identified is not None and identified.edited is not None:
                save_file({k: v.cpu().contiguous().clone() for k, v in identified.edited.items()},
                          target / EDIT)  # fmt: skip
            about = origin_of(job, out.name).about(SHARD, job.given)
            (target / "run.toml").write_text(tomli_w.dumps(about), encoding="utf-8")

        write_run(out, fill)
    return start, stop


@entry
def merge_into(opened: Sequence[Run], job: Job, out: Path, progress: bool | None) -> tuple[Run, list[str]]:
    """The run folder that one `amends identify` would have written, from those of all its shards."""
    with claimed(out, "identify"):
        problem = _of_one_group(job)
        parts = _parts([run.folder for run in opened], len(job.given["train"]), problem.parts[0].query)
        now = origin_of(job, out.name).about(IDENTIFIED, job.given)
        same_recipe(opened[0], {k: v for k, v in now.items() if k != "config"})
        with Progress.shown(progress) as shown:
            search = problem.search((), shown, _together(parts, problem, job, shown))
        write_run(out, lambda target: write_first_search(problem, search, origin_of(job, out.name), target))
    return Run.open(out), suspect_labels(search.suspects, search.part, job.given["failures"], "failures.csv")


def shards_in(folders: Sequence[Path]) -> list[Run]:
    """The shards, checked: undamaged, and all of one search."""
    opened: list[Run] = []
    for folder in folders:
        if not (folder / "run.toml").is_file():
            raise BadInput(f"no such run folder; {folder}; make it with amends identify --shard")
        run = Run.open(folder, shards=True)
        if run.state != SHARD:
            raise BadInput(f"the run is no shard; {folder}; give the folders of amends identify --shard")
        if (broken := next(run.damage(), None)) is not None:
            raise RunMismatch(broken)
        opened.append(run)
        same_recipe(opened[0], run.about)
    return opened


def _parts(folders: Sequence[Path], n: int, query: np.ndarray) -> dict[Path, dict[str, np.ndarray]]:
    """The arrays of the shards, in order. BadInput or RunMismatch unless each is there once and they cover train."""
    by_number: dict[int, tuple[Path, dict[str, np.ndarray]]] = {}
    count = 0
    for folder in folders:
        with np.load(folder / "shard.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        number, count = (int(v) for v in arrays["span"][2:])
        if number in by_number:
            raise BadInput(f"shard {number}/{count} is there twice; {folder}; give each once")
        by_number[number] = folder, arrays
    missing = [number for number in range(count) if number not in by_number]
    if missing:
        raise BadInput(f"shard {missing[0]}/{count} is missing; {folders[0]}; run amends identify --shard for it too")
    ordered = dict(by_number[number] for number in range(count))
    rows = sum(len(part["before"]) for part in ordered.values())
    if rows != n or any(not np.array_equal(part["query"], query) for part in ordered.values()):
        raise RunMismatch(f"the shards do not cover train and its failures; {folders[0]}; make them with one config")
    return ordered


def _together(
    parts: Mapping[Path, Mapping[str, np.ndarray]], problem: Problem, job: Job, shown: Progress
) -> Identified:
    method, seed, split = problem.plan.identify_with, problem.plan.seed, problem.parts[0]
    if isinstance(method, Default):
        query, guard = job.given["failures"][split.query], split.guarding(job.given)
        return identified_together(list(parts.values()), job.given["train"], query, guard, method, seed, shown)
    edits = [load_file(folder / EDIT) if (folder / EDIT).exists() else {} for folder in parts]
    for number, edited in enumerate(edits):
        if any(not edited[k].equal(v) for k, v in edits[0].items()):
            raise RunMismatch(
                f"shards 0 and {number} ended their edit with other weights; {next(iter(parts))}; "
                "run all of them on machines of one kind, with as many threads"
            )
    scores, raw, before = (np.concatenate([p[name] for p in parts.values()]) for name in ARRAYS)
    return Identified(scores, raw, before, edits[0] or None)


def _of_one_group(job: Job) -> Problem:
    problem = Problem.of(job.given, job.options)
    if len(problem.parts) > 1:
        raise BadInput("several groups are searched only in a repair; --group; name one group to identify")
    return problem
