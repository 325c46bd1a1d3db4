"""The parts of a repair that are still to be done, so that progress can show how much is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from amends.algorithm.budget import FIT, SEARCH, Fits, Size, fitting, gradient, of_search, seen, step
from amends.algorithm.treat import again, shortened
from amends.editors import Adam
from amends.evidence.factor import Factor
from amends.evidence.targets import alike
from amends.methods import Default, Method
from amends.progress import Part, Progress
from amends.settings import Settings

if TYPE_CHECKING:
    from amends.algorithm.rounds import Plan


def of_treatment(plan: Plan, train: Factor, failures: Factor, size: Size) -> list[Part]:
    """How often each part fits, and how many examples a fit goes through where that can be known."""
    climb = _climb(plan.method)
    short = _climb(shortened(plan.method, plan.settings.curve.short))
    settings = plan.settings if again(plan.method, 1) is not plan.method else _once(plan.settings)
    learn = plan.learning is not False and alike(train, failures)
    parts = fitting(
        settings, len(plan.alternatives), plan.remove is not None, learn,
        1.0 if climb is None or short is None else short.epochs / climb.epochs, plan.ours,
    )  # fmt: skip
    learned, usual = (seen(plan.settings, size), float(size.train)) if climb else (1.0, 1.0)
    epochs = climb.epochs if climb else 1.0

    def part(f: Fits) -> Part:
        cost = epochs * f.long * (learned if f.learns else usual)
        return Part(f.name, FIT, 0 if f.perhaps else f.number, cost, f.number if f.perhaps else 0)

    return _joined([part(f) for f in parts])


def rates(plan: Plan, train: Factor) -> dict[str, float]:
    """Seconds for a unit of what can be measured beforehand."""
    found = {}
    if isinstance(plan.identify_with, Default):
        found[SEARCH] = gradient(train)
    climb = _climb(plan.method)
    if climb is not None:
        found[FIT] = step(train, climb) / climb.batch
    return found


def announce(plan: Plan, given: Mapping[str, Factor], sizes: Sequence[Size], searched: bool, shown: Progress) -> None:
    """Tells progress the parts of the coming rounds, one for each of `sizes`; the first may be `searched` already."""
    if not shown.seen:
        return
    train, parts = given["train"], []
    for number, size in enumerate(sizes):
        if number or not searched:
            parts += of_search(plan.identify_with, train, size.failures // 2, size.right // 2)
        parts += of_treatment(plan, train, given["failures"], size)
    shown.plan(parts, rates(plan, train))


def _climb(method: Method) -> Adam | None:
    climb = getattr(method.editor, "climb", None)
    return climb if isinstance(climb, Adam) else None


def _once(settings: Settings) -> Settings:
    """The settings for a treatment without random numbers: it is fitted once."""
    return replace(settings, curve=replace(settings.curve, refits=1))


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Neighbours of one name as one, each step of the same cost."""
    made: list[Part] = []
    for part in parts:
        if made and made[-1].name == part.name:
            last = made.pop()
            old, new = (one.steps + one.perhaps for one in (last, part))
            cost = (old * last.cost + new * part.cost) / max(1, old + new)
            part = Part(part.name, part.kind, last.steps + part.steps, cost, last.perhaps + part.perhaps)
        made.append(part)
    return made
