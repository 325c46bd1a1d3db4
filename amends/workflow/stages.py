"""The steps of the command line, each from a run folder to the same folder, one stage further."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amends.algorithm.rounds import check_options
from amends.errors import BadInput, RunMismatch, first_line
from amends.evidence.prepare import prepare
from amends.runs.disk import add_to_folder, locked, occupied, write_folder
from amends.runs.run import DONE, GONE, Run
from amends.workflow.job import Job
from amends.workflow.repair import Repair, repair, search
from amends.workflow.store import RULE, Origin, go_on, read_identified, write_found, write_repair, write_rows

if TYPE_CHECKING:
    import pandas as pd

FIRST_HALF = ("run.toml", "identified", "causes.csv", "causes.parquet", "failures.csv")


def identify_into(job: Job, out: Path, progress: bool | None) -> tuple[Run, list[str]]:
    """The first half of a repair, as a run folder a person can look through, and what to look at first."""
    free(out)
    found = search(job.loaded.model, job.train, job.failures, job.remaining, **job.searching, progress=progress)
    write_folder(out, lambda made: write_found(found, found.given, _origin(job, out.name), made))
    return Run.open(out), found.warnings


def repair_into(job: Job, out: Path, progress: bool | None, picked: np.ndarray | None = None) -> Repair:
    """Both halves, with what a person picked where that is given. One that was stopped after the first goes
    on from there, and keeps the decisions it finds."""
    if isinstance(job.config.repair("group"), list) and len(job.config.repair("group")) > 1:
        free(out)
        result = _repaired(job, {} if picked is None else {"remove": picked}, progress)
        write_folder(out, lambda made: write_repair(result, _origin(job, out.name), made))
        return result
    _check(job)
    run = resumable(out, job) if occupied(out) else identify_into(job, out, progress)[0]
    return _gone_on(run, job, picked, run.causes(), progress)


def treat_into(run: Run, job: Job, picked: np.ndarray | None, out: Path | None, progress: bool | None) -> Repair:
    """The second half, with what a person picked or as many as the config says; into `out` where it is given."""
    if out is not None:
        free(out)
    elif run.state == DONE:
        raise BadInput(f"the run is finished; {run.folder}; name a new folder with -o to treat again from its scores")
    run.same_as(job.hashes)
    if out is not None:
        write_folder(out, lambda made: _copied(run, made))
        run = Run.open(out)
    return _gone_on(run, job, picked, run.causes(), progress, whole=True)


def _gone_on(
    run: Run, job: Job, picked: np.ndarray | None, earlier: pd.DataFrame, progress: bool | None, whole: bool = False
) -> Repair:
    """The second half, into the folder of the first. Its table stays `whole`, or because somebody decided
    something in it; otherwise the causes alone are left of it."""
    more: dict[str, Any] = {"identify_with": read_identified(run)}
    if picked is not None:
        more["remove"] = picked
    result = _repaired(job, more, progress)
    rule = RULE if picked is None else f"{len(picked)} examples picked by a person"
    decided = whole or bool((earlier["decision"] != "").any())
    go_on(run, result, replace(_origin(job, run.name), rule=_rule(job, rule)), earlier if decided else None)
    return result


def known_curve(run: Run) -> list[dict[str, Any]] | None:
    """The curve a run folder holds, if it does."""
    import pandas as pd

    path = run.folder / "curve.csv"
    if not path.exists():
        return None
    try:
        rows = pd.read_csv(path).astype(object)
    except ValueError as e:
        raise RunMismatch(f"damaged ({first_line(e)}); {path}; make the run again") from None
    return rows.where(rows.notna(), None).to_dict("records")


def curve_of(run: Run, job: Job, progress: bool | None) -> list[dict[str, Any]]:
    """How many to remove, with both controls, kept in the folder."""
    run.same_as(job.hashes)
    result = _repaired(job, {"identify_with": read_identified(run), "remove": None}, progress)
    with locked(run.folder):
        add_to_folder(run.folder, lambda made: write_rows(result.metrics["curve"], made / "curve.csv"))
    return result.metrics["curve"]


def _check(job: Job) -> None:
    """What only the second half looks at, before the first is begun."""
    check_options(job.repairing, len(job.train))
    keep = {f"keep.{name}": data for name, data in job.keep.items()}
    if keep:
        prepare(job.loaded.model, job.likelihood, None, 1, train=job.train, **keep)


def free(out: Path) -> None:
    """Known before anything is computed: nothing is in the way, and there it can be written."""
    if occupied(out):
        raise BadInput(f"the folder exists; {out}; choose another with -o, or remove it with amends runs rm")
    with locked(out):
        pass


def resumable(out: Path, job: Job) -> Run:
    """An unfinished run of the same recipe."""
    if not (out / "run.toml").exists():
        raise RunMismatch(f"it holds something that is no run; {out}; choose another folder with -o")
    run = Run.open(out)
    if run.state == DONE:
        raise BadInput(f"the run is finished; {out}; choose another folder with -o, or remove it with amends runs rm")
    if {k: dict(v) for k, v in job.config.tables.items()} != run.about.get("config"):
        raise RunMismatch(f"it was begun with another config; {out}; give that one, or another folder with -o")
    run.same_as(job.hashes)
    return run


def approved(run: Run) -> np.ndarray:
    """Positions a person decided to remove, in causes.csv."""
    frame = run.causes()
    for i, said in enumerate(frame["decision"]):
        if said not in ("", "keep", *GONE):
            where = f"{run.folder / 'causes.csv'} at index {frame['index'][i]}"
            raise BadInput(f"decision is {said!r}; {where}; write remove, keep, or nothing")
    at = frame.loc[frame["decision"].isin(GONE), "index"].to_numpy()
    if not len(at):
        raise BadInput(
            f"nothing is approved; {run.folder / 'causes.csv'}; write remove into the column decision of what is to go"
        )
    return at


def next_free(stem: str, folder: Path = Path("runs")) -> Path:
    """runs/repair-1, or the first number that is not taken."""
    return next(p for k in range(1, 10**6) if not (p := folder / f"{stem}-{k}").exists())


def _repaired(job: Job, more: dict[str, Any], progress: bool | None) -> Repair:
    arguments = {**job.repairing, **more}
    return repair(job.loaded.model, job.train, job.failures, job.remaining, **arguments, progress=progress)


def _origin(job: Job, name: str) -> Origin:
    return Origin(name, job.config.repair("seed"), job.config, job.loaded, _rule(job, RULE))


def _rule(job: Job, rule: str) -> str:
    top, share, method = (job.config.repair(k) for k in ("top", "fraction", "method"))
    if rule == RULE and top is not None:
        rule = f"the {top} highest scores"
    elif rule == RULE and share is not None:
        rule = f"the highest scores, {share:.1%} of train"
    return f"{rule}; found by the method {method}"


def _copied(run: Run, made: Path, names: Sequence[str] = FIRST_HALF):
    """A search as it was when it was made, without what was done with it since."""
    for name in names:
        source = run.folder / name
        if source.is_dir():
            shutil.copytree(source, made / name)
        elif source.exists():
            shutil.copy2(source, made / name)
    about = (made / "run.toml").read_text(encoding="utf-8").replace('state = "done"', 'state = "identified"', 1)
    (made / "run.toml").write_text(about, encoding="utf-8")
