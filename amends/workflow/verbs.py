"""What the commands run: the stages of a repair, each written to the run folder as it ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from amends.algorithm.budget import announce_search, within
from amends.algorithm.problem import Problem
from amends.algorithm.rounds import Round, Search
from amends.config.decisions import GONE, NEW, RELABEL, decided, words
from amends.errors import BadInput, many
from amends.evidence.prepare import entry
from amends.progress import Progress
from amends.runs.claim import claimed, unfinished
from amends.runs.compare import same_recipe
from amends.runs.disk import occupied, room_for
from amends.runs.manifest import add_to_run, write_run
from amends.runs.run import IDENTIFIED, Run
from amends.tables.cells import write_rows
from amends.workflow.checkpoint import ROUNDS, SEARCH, add_round, add_search, read_stages, round_files
from amends.workflow.fits import KeptFits, fit_files, needed
from amends.workflow.job import Job
from amends.workflow.repair import Repair, concluded
from amends.workflow.stages import stages
from amends.workflow.store import RULE, Origin, write_first_search, write_repair
from amends.workflow.warned import suspect_labels

if TYPE_CHECKING:
    import pandas as pd

Picked: TypeAlias = "np.ndarray | pd.DataFrame"  # positions in train, or rows of a table of causes with decisions
FIRST_HALF = ("run.toml", SEARCH, ROUNDS, "causes.csv", "causes.parquet", "failures.csv")


@entry
def identify_into(job: Job, out: Path, progress: bool | None) -> tuple[Run, list[str]]:
    """The first stage: a run folder for a person to look through, and warnings about suspect labels."""
    with claimed(out, "identify"):
        job = in_time(job)
        _room(job, out, treated=False)
        problem = Problem.of(job.given, job.options)
        part = problem.parts[0]
        if len(problem.parts) > 1:
            raise BadInput(
                "several groups are searched only in a repair, one after the other; --group; name one group to identify"
            )
        with Progress.shown(progress) as shown:
            announce_search(problem.plan.identify_with, job.given["train"], len(part.query), len(part.guard), shown)
            search = problem.search((), shown)
        write_run(out, lambda target: write_first_search(problem, search, origin_of(job, out.name), target))
    return Run.open(out), suspect_labels(search.suspects, search.part, job.given["failures"], "failures.csv")


@entry
def repair_into(job: Job, out: Path, progress: bool | None, picked: Picked | None = None) -> Repair:
    """Every stage, with what a person picked if that is given. A repair that was stopped goes on where it was, and
    keeps the decisions in its folder."""
    with claimed(out, "repair", going_on=True):
        job = in_time(job, unfinished(out) if occupied(out) else None)
        _room(job, out)
        problem = _problem(job, picked, occupied(out))  # every option is checked before anything is computed
        if occupied(out):
            same_recipe(unfinished(out), _about(job, out))
        return _follow(problem, job, out, progress, picked)


@entry
def treat_into(
    run: Run, job: Job, picked: Picked | None, out: Path | None, progress: bool | None, left_out: Sequence[int] = ()
) -> Repair:
    """The stages after the search, with what a person picked or as many as the config says; written to `out` if given.
    Failures that are `left_out` have a wrong label themselves: they leave the query."""
    _room(job, run.folder if out is None else out)
    problem = _problem(job, picked, going_on=True)
    for part in problem.parts if left_out else ():
        part.without(left_out)  # raises before anything is written
    now = {k: v for k, v in _about(job, run.folder).items() if k != "config"}
    if out is None:
        with Run.writing(run.folder) as opened:
            if opened.done:
                raise BadInput(f"the run is finished; {run.folder}; name a new folder with -o to treat it again")
            same_recipe(opened, now)
            return _follow(problem, job, opened.folder, progress, picked, whole=True, left_out=left_out)
    with claimed(out, "treat"):
        with Run.writing(run.folder) as opened:
            same_recipe(opened, now)
            write_run(out, lambda target: _copied(opened, target))
        return _follow(problem, job, out, progress, picked, whole=True, left_out=left_out)


@entry
def curve_of(run: Run, job: Job, progress: bool | None) -> list[dict[str, Any]]:
    """The curve of how many to remove, with both controls; it is kept in the folder."""
    with Run.writing(run.folder) as opened:
        if opened.curve:
            return opened.curve
        same_recipe(opened, {k: v for k, v in _about(job, run.folder).items() if k != "config"})
        problem = Problem.of(job.given, replace(job.options, remove=None, anyway=True))
        if len(problem.parts) > 1:
            raise BadInput(f"a curve is of one group; {run.folder}; go on with amends repair, which draws one for each")
        done, known = read_stages(problem, run.folder)
        with Progress.shown(progress) as shown:
            *_, last = stages(problem, shown, done, known, _kept(job, run.folder, "curve"))
        assert isinstance(last, Round)
        rows = [point.row() for point in last.points]
        drop = fit_files(run.folder)
        add_to_run(run.folder, lambda target: write_rows(rows, target / "curve.csv", list(rows[0])), drop=drop)
    return rows


def in_time(job: Job, begun: Run | None = None) -> Job:
    """The job with the name of a budget in place of seconds. Time is measured once: a run that goes on, or is made
    again from its run.toml, has the budget it began with."""
    budget = job.config.repair("budget")
    if isinstance(budget, str):
        return job
    known = {} if begun is None else begun.about.get("config", {}).get("repair", {})
    return replace(job, config=job.config.with_options(budget=known.get("budget", within(budget, job.given))))


def _kept(job: Job, folder: Path, *choices: Any) -> Callable[[int], KeptFits]:
    """The fits of each round, kept in the folder; used again only if all options and choices are the same."""
    words = [one.to_csv() if hasattr(one, "to_csv") else repr(np.asarray(one).tolist()) for one in choices]
    recipe = repr((sorted(job.config["repair"].items(), key=repr), words))
    network = job.given["train"].network
    return lambda number: KeptFits(folder, number, network, recipe)


def _room(job: Job, folder: Path, treated: bool = True) -> None:
    """DiskError, before anything is computed, if the disk has no room for the run."""
    train = job.given["train"]
    room_for(folder, needed(train.network, len(train), treated))


def _problem(job: Job, picked: Picked | None, going_on: bool) -> Problem:
    """The problem. If it goes on from a search, the setup was checked then, and is not refused again."""
    options = job.options if picked is None else replace(job.options, remove=picked)
    problem = Problem.of(job.given, replace(options, anyway=True) if going_on else options)
    return replace(problem, allowed=job.options.allowed)


def _follow(
    problem: Problem, job: Job, folder: Path, progress: bool | None, picked: Picked | None, whole: bool = False,
    left_out: Sequence[int] = (),
) -> Repair:  # fmt: skip
    """From the last stage in the folder to the end. All rows of the table of causes are kept if `whole`, or if somebody
    wrote a decision in it; otherwise only the causes are."""
    done, known = read_stages(problem, folder) if occupied(folder) else ([], None)
    if left_out and known is not None:
        problem, known = problem.without(left_out, known)
    rounds: list[Round] = list(done)
    with Progress.shown(progress) as shown:
        for stage in stages(problem, shown, done, known, _kept(job, folder, picked, left_out)):
            if isinstance(stage, Round):
                rounds.append(stage)
            _store(stage, problem, job, folder, len(rounds))
    result = concluded(problem, rounds, job.loaded.model)
    earlier = Run.open(folder).causes()
    rule = RULE if picked is None else f"{many(len(picked), 'example')} picked by a person"
    rule = _rule(job, rule) + (f"; failures {', '.join(map(str, left_out))} left out" if left_out else "")
    origin = replace(origin_of(job, folder.name), rule=rule)
    kept = earlier if whole or bool((earlier["decision"] != "").any()) else None
    add_to_run(
        folder,
        lambda target: write_repair(result, origin, target, kept, searched=True),
        drop=[*round_files(folder), *fit_files(folder)],
    )
    return result


def _store(stage: Search | Round, problem: Problem, job: Job, folder: Path, ended: int) -> None:
    """Stores a stage, so that the repair can go on from there; not the last round, since the result is written next."""
    if isinstance(stage, Search) and not ended:
        write_run(folder, lambda target: write_first_search(problem, stage, origin_of(job, folder.name), target))
    elif isinstance(stage, Search):
        add_search(stage, folder, ended)
    elif ended < len(problem.parts):
        add_round(stage, folder, ended - 1)


def _about(job: Job, folder: Path) -> dict[str, Any]:
    """What run.toml would say now."""
    return origin_of(job, folder.name).about(IDENTIFIED, job.given)


def approved(run: Run) -> pd.DataFrame:
    """The rows of causes.csv that a person decided to remove or relabel."""
    path = run.folder / "causes.csv"
    frame = run.causes()
    _ids_as_written(run, frame)
    rows = decided(frame, str(path))
    if not np.isin(frame["decision"], GONE).any():
        raise BadInput(f"nothing is approved; {path}; write remove into the column decision of what is to go")
    unnamed = rows["index"][(rows["decision"] == RELABEL) & (words(rows, NEW) == "")].tolist()
    if unnamed:
        todo = f"write the label into the column {NEW}"
        raise BadInput(f"the decision is relabel, but {NEW} is empty; {path} at index {unnamed[0]}; {todo}")
    return rows[[c for c in ("index", "decision", NEW) if c in rows]]


def decisions_in(run: Run) -> int:
    """How many examples a person decided about in causes.csv."""
    return int((words(run.causes(), "decision") != "").sum())


def _ids_as_written(run: Run, frame: pd.DataFrame) -> None:
    """BadInput if an id is in the row of another index than before: somebody sorted one column alone."""
    written = run.typed_causes()
    if "id" not in frame or "id" not in written:
        return
    known = dict(zip(written["index"].tolist(), written["id"].astype(str), strict=True))
    for line, (index, name) in enumerate(zip(frame["index"].tolist(), frame["id"].astype(str), strict=True), 2):
        if known.get(int(index), name) != name:
            what = f"index {index} is {known[int(index)]}, but its row says {name}"
            todo = "put it back; when you sort, sort whole rows"
            raise BadInput(f"{what}; {run.folder / 'causes.csv'} line {line}; {todo}")


def origin_of(job: Job, name: str) -> Origin:
    return Origin(name, job.config.repair("seed"), job.config, job.loaded, _rule(job, RULE))


def _rule(job: Job, rule: str) -> str:
    top, share, method = (job.config.repair(k) for k in ("top", "fraction", "method"))
    if rule == RULE and top is not None:
        rule = f"the {top} highest scores"
    elif rule == RULE and share is not None:
        rule = f"the highest scores, {share:.1%} of train"
    return f"{rule}; found by the method {method}"


def _copied(run: Run, target: Path, names: Sequence[str] = FIRST_HALF) -> None:
    """Copies the files of the search as they are now; the state goes back to identified."""
    for name in names:
        source = run.folder / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        elif source.exists():
            shutil.copy2(source, target / name)
    about = (target / "run.toml").read_text(encoding="utf-8").replace('state = "done"', 'state = "identified"', 1)
    (target / "run.toml").write_text(about, encoding="utf-8")
