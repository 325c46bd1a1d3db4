"""The methods that rank training examples, under the names used in rows and figures."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from amends import methods
from amends.algorithm.identify import identify
from amends.curvature import GGN, Diagonal, Empirical, Part
from amends.errors import BadInput, NonFinite, NotConverged, OutOfMemory, nearest
from amends.evaluation.rankings import average_precision
from amends.methods import named
from amends.methods.table import names
from amends.remember import Laplace
from benchmarks.timing import timed
from experiments import protocol
from experiments.protocol import Case, batch_size
from experiments.running import GivenUp, written

CURVED = 4000  # how many examples of D the curvature of a large model is measured on


def of_a_part(case: Case, curvature: Any) -> Any:
    """For a large network the curvature of 4,000 examples of D, as in the default method; else that of all of D."""
    return Part(curvature, CURVED) if case.about.large else curvature


def ewc(case: Case, method: Any, kind: Any) -> Any:
    """The method unchanged; for a large network, with the diagonal measured on a part of D."""
    if not case.about.large:
        return method
    return method._replace(remember=Laplace(of_a_part(case, Diagonal(kind))))


def sgd_influence(case: Case) -> Any:
    """Goes back through the recorded training run. The run of a large network is not recorded; one more epoch stands in
    for it."""
    return methods.sgd_influence(batch=256, rate=1e-3) if case.about.large else methods.sgd_influence(case.trace)


PAPER: dict[str, Callable[[Case], Any]] = {
    "ewc_as_printed": lambda c: ewc(c, methods.ewc_as_printed(), Empirical()),
    "ewc": lambda c: ewc(c, methods.ewc(), GGN()),
    "linear, gd": lambda c: methods.linear(of_a_part(c, methods.gd())),
    "linear, sa": lambda c: methods.linear(of_a_part(c, methods.sa())),
    "sgd_influence": sgd_influence,
}
OURS: dict[str, Callable[[Case], Any]] = {"default": lambda c: methods.default()}
CONTROLS: dict[str, Callable[[Case], Any]] = {
    "random": lambda c: methods.random(c.data.start.seed),
    "oracle": lambda c: methods.oracle(c.wrong),
}
TRACED: dict[str, Callable[[Case], Any]] = {
    "tracin": lambda c: methods.tracin(c.trace),
    "linear, cg": lambda c: methods.linear(of_a_part(c, methods.cg())),
    "linear, kronecker": lambda c: methods.linear(of_a_part(c, methods.kronecker())),
}
KNOWN = PAPER | OURS | CONTROLS | TRACED
OTHERS: dict[str, Callable[[Case], Any]] = {
    name: lambda c, name=name: named(name) for name in names("identify") if name not in {*KNOWN, "linear"}
}
EVERY = PAPER | OURS | TRACED | OTHERS | CONTROLS
USUAL = (*PAPER, *OURS, *CONTROLS)


def chosen(
    wanted: tuple[str, ...], every: Iterable[str] = EVERY, usual: tuple[str, ...] = USUAL
) -> tuple[str, ...]:  # fmt: skip
    """The rows asked for; `all` means every one. By default the usual ones: the paper's methods, ours and the
    controls."""
    possible = tuple(every)
    for name in wanted:
        if name not in (*possible, "all"):
            raise BadInput(f"no row {name!r}; --method; {nearest(name, possible)}")
    return possible if "all" in wanted else wanted or usual


def ranked(case: Case, name: str) -> tuple[np.ndarray, float]:
    """The scores a method gives D with the failures of the query, and the seconds it took. Computed once for all
    experiments. For a large network they are kept in a file next to its weights."""
    if name not in case.cache:
        try:
            case.cache[name] = kept(case, name) or rank(case, name, case.sets["query"])
            keep(case, name, *case.cache[name])
        except GivenUp as why:
            case.cache[name] = why
    if isinstance(case.cache[name], GivenUp):
        raise case.cache[name]
    return case.cache[name]


def file_of(case: Case, name: str) -> Path:
    start, slug = case.data.start, "".join(c if c.isalnum() else "_" for c in name)
    return protocol.KEPT / f"{start.on}_{case.data.kind}_{start.seed}_{slug}.npz"


def mark(case: Case) -> float:
    """A number that identifies this network: the sum of its weights."""
    return sum(float(v.double().sum()) for v in case.net.state_dict().values())


def kept(case: Case, name: str) -> tuple[np.ndarray, float] | None:
    """The stored ranking of this network, if there is one."""
    path = file_of(case, name)
    if not case.about.large or not path.exists():
        return None
    with np.load(path) as stored:
        return (stored["scores"], float(stored["seconds"])) if np.isclose(stored["mark"], mark(case), 1e-9) else None


def keep(case: Case, name: str, scores: np.ndarray, seconds: float) -> None:
    if case.about.large:
        stream = io.BytesIO()
        np.savez(stream, scores=scores, seconds=seconds, mark=mark(case))
        written(file_of(case, name), stream.getvalue())


def rank(case: Case, name: str, failures: Any) -> tuple[np.ndarray, float]:
    """The scores a method gives D with these failures, and the seconds it took."""
    if not len(failures[1]):
        raise GivenUp("the network fails on nothing there")
    with patient(case.patience):
        try:
            influence, seconds = timed(
                lambda: identify(
                    case.net, case.train, failures, case.sets["guard"], method=EVERY[name](case),
                    batch_size=batch_size(case), progress=False,
                )
            )  # fmt: skip
        except OutOfMemory as error:
            raise GivenUp(str(error), seconds=0) from error  # another time there may be more of it
        except (NotConverged, NonFinite, BadInput) as error:
            raise GivenUp(str(error)) from error
    return influence.scores, seconds


def first(case: Case, name: str, share: float) -> np.ndarray:
    """The causes by a method: the top share of D, most harmful first."""
    scores, _ = ranked(case, name)
    return np.argsort(-scores, kind="stable")[: round(share * len(scores))]


def found(case: Case, scores: np.ndarray, points: int = 40) -> list[tuple[int, str, float]]:
    """Rows: the share of damaged examples among the first k, for several k, and the average precision."""
    hits = np.cumsum(case.wrong[np.argsort(-scores, kind="stable")])
    ks = np.unique(np.linspace(1, len(hits), points + 1).round().astype(int)[1:])
    ks = np.unique([*ks, *np.linspace(1, ks[0], 8).round().astype(int), *case.about.sizes])
    shares = [(int(k), "damaged", float(hits[k - 1] / k)) for k in ks]
    return [*shares, (0, "average precision", average_precision(scores, case.wrong))]


@contextmanager
def patient(seconds: int | None) -> Iterator[None]:
    """Raises GivenUp after so many seconds. Needs the main thread and SIGALRM; elsewhere there is no limit."""
    if seconds is None or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def late(number: int, frame: Any) -> None:
        raise GivenUp(f"more than {seconds} seconds", seconds)

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
