"""A stage of a repair as files, so that a repair that was stopped goes on from there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from amends.algorithm.curve import NOTHING, CurvePoint, Fit, Limits
from amends.algorithm.identify import Identified
from amends.algorithm.problem import Problem
from amends.algorithm.rounds import Round, Search
from amends.committee.decide import MemberWeight
from amends.errors import RunMismatch
from amends.evidence.network import Network
from amends.evidence.params import Params
from amends.progress import Progress
from amends.runs.manifest import add_to_run

T = TypeVar("T")
SEARCH, ROUNDS = "identified", "rounds"  # folders: for one group; for several, with a folder for each round

ACCURACIES = ("query", "guard", "kept", "holdout", "remaining")  # of a fit


def stage_folder(rounds: int, number: int) -> Path:
    """The folder of the stages of a round, inside a run folder; rounds count from 0."""
    return Path(SEARCH) if rounds == 1 else Path(ROUNDS) / str(number + 1)


def write_search(search: Search, folder: Path) -> None:
    """scores.npz, members.json and, where a method edits, edited.safetensors."""
    folder.mkdir(parents=True)
    known = search.influence.identified
    arrays = {"scores": known.scores, "raw": known.raw, "before": known.before, "query": search.part.query}
    if known.unseen is not None:
        arrays["unseen"] = known.unseen
    np.savez(folder / "scores.npz", allow_pickle=False, **arrays)
    if known.edited is not None:
        _weights(known.edited, folder / "edited.safetensors")
    (folder / "members.json").write_text(_json([h.row() for h in known.members]), encoding="utf-8")


def read_identified(folder: Path) -> Identified:
    """What a search found, without model and data."""
    return _read(folder, _identified)


def _identified(folder: Path) -> Identified:
    arrays = _arrays(folder)
    members = tuple(MemberWeight(**row) for row in json.loads((folder / "members.json").read_text(encoding="utf-8")))
    path = folder / "edited.safetensors"
    edited = load_file(path) if path.exists() else None
    return Identified(arrays["scores"], arrays["raw"], arrays["before"], edited, members, arrays.get("unseen"))


def _arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "scores.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def add_round(ended: Round, run: Path, number: int) -> None:
    """Adds to the stored search of a round all that later rounds need to know."""

    def fill(target: Path) -> None:
        folder = target / ROUNDS / str(number + 1)
        write_search(ended.search, folder)
        document = {
            **ended.row(), "removed": ended.removed.tolist(), "controls": ended.controls,
            "limits": asdict(ended.limits),
            "control": [{k: getattr(fit, k) for k in ACCURACIES} for fit in ended.points[0].fits],
        }  # fmt: skip
        (folder / "round.json").write_text(_json(document), encoding="utf-8")
        _weights(ended.after, folder / "weights.safetensors")
        for i, fit in enumerate(ended.points[0].fits):
            _weights(fit.theta, folder / f"control-{i}.safetensors")

    add_to_run(run, fill)


def add_search(search: Search, run: Path, number: int) -> None:
    """Adds the search of a later round to those stored before."""
    add_to_run(run, lambda target: write_search(search, target / ROUNDS / str(number + 1)))


def round_files(run: Path) -> list[str]:
    """Files of the rounds that only a repair that goes on needs; the searches are not among them."""
    names = ("round.json", "weights.safetensors", "control-*.safetensors")
    return [path.relative_to(run).as_posix() for name in names for path in run.glob(f"{ROUNDS}/*/{name}")]


def read_stages(problem: Problem, run: Path) -> tuple[list[Round], Identified | None]:
    """The rounds stored in a run folder, and the search of the next one if it is stored."""
    rounds: list[Round] = []
    for number in range(len(problem.parts)):
        folder = run / stage_folder(len(problem.parts), number)
        if not (folder / "scores.npz").exists():
            return rounds, None
        known = _of_problem(read_identified(folder), folder, problem, number)
        if not (folder / "round.json").exists():
            return rounds, known
        search = problem.search(rounds, Progress(), known)
        rounds.append(_read(folder, lambda folder, search=search: _round(search, folder)))
    return rounds, None


def _of_problem(known: Identified, folder: Path, problem: Problem, number: int) -> Identified:
    """RunMismatch unless the search was of these examples and of the failures that would be searched with now."""
    part, n = problem.parts[number], len(problem.given["train"])
    shapes = [len(values) for values in (known.scores, known.raw, known.before)]
    if shapes != [n] * 3:
        raise RunMismatch(f"{shapes[0]} scores are there for {n} examples of train; {folder}; make the run again")
    for name in ("scores", "raw", "before"):
        bad = np.flatnonzero(~np.isfinite(getattr(known, name)))
        if len(bad):
            raise RunMismatch(f"{name}[{bad[0]}] is not a finite number; {folder / 'scores.npz'}; make the run again")
    query = _read(folder, lambda f: _arrays(f)["query"])
    if not np.array_equal(query, part.query):
        todo = "put back the groups and the failures it was made with, or make a new run"
        raise RunMismatch(f"the failures searched with are not those of this run; {folder}; {todo}")
    return known


def _round(search: Search, folder: Path) -> Round:
    document = json.loads((folder / "round.json").read_text(encoding="utf-8"))
    network = search.influence.train.network

    def weights(name: str) -> Params:
        return network.weights({**network.params, **load_file(folder / f"{name}.safetensors")}, str(folder))

    fits = [
        Fit(weights(f"control-{i}"), **{**shares, "kept": tuple(shares["kept"])})
        for i, shares in enumerate(document["control"])
    ]
    limits: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in document["limits"].items()}
    return Round(
        search=search,
        points=[CurvePoint(NOTHING, 0, tuple(fits))],
        limits=Limits(**limits),
        after=weights("weights"),
        removed=np.array(document["removed"], dtype=np.int64),
        verdict=document["verdict"],
        reason=document["reason"],
        p_value=document["p_value"],
        learned=document["learned"],
        controls=document["controls"],
        fixed=(document["fixed"], document["n"]),
    )


def write_weights_file(theta: Params, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _weights(theta, path)


def read_weights_file(path: Path, network: Network) -> Params:
    """Weights of this network, on its device."""
    return _read(path, lambda path: network.weights({**network.params, **load_file(path)}, str(path)))


def _read(folder: Path, reader: Callable[[Path], T]) -> T:
    try:
        return reader(folder)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error, SafetensorError) as e:
        raise RunMismatch(f"damaged ({' '.join(str(e).split())}); {folder}; make the run again") from None


def _weights(theta: Params, path: Path) -> None:
    save_file({k: v.detach().cpu().contiguous().clone() for k, v in theta.items()}, path)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
