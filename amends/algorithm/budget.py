"""What a repair will cost, estimated before it is made, in gradients of one example."""

from __future__ import annotations

import numbers
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch

from amends.distributed.group import broadcast
from amends.editors import Adam, Mode
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import large
from amends.methods import Default, Method
from amends.progress import Part, Progress, duration
from amends.settings import BUDGETS, Settings

EVALUATIONS = 1.25  # of the objective in a step of L-BFGS, with its line search
TANGENTS = ("grad_dot", "linear")  # members without steps: a derivative along one direction, forward
HOLDING = ("functional", "functional + ewc")  # members that right examples hold
SEARCH, FIT = "search", "fit"  # kinds of work
STEPS = 8  # of fine-tuning, made to see how long one takes
ONCE_MORE = "fitting the repair and its controls once more"


class Size(NamedTuple):
    """How many examples there are of each."""

    train: int
    failures: int
    right: int

    @classmethod
    def of(cls, given: dict[str, Factor]) -> Size:
        return cls(*(len(given[name]) if name in given else 0 for name in ("train", "failures", "remaining")))


def search(settings: Settings, size: Size) -> float:
    """Gradients of one example that identifying takes."""
    return sum(part.steps * part.cost for part in searching(settings, size))


def searching(settings: Settings, size: Size) -> list[Part]:
    """The parts of a search, one for each member of the committee, with their costs in gradients of one example."""
    edits, trials = settings.identifying.edits, settings.identifying.trials
    members = edits.members if size.right // 2 >= trials.few else edits.without_right
    shown, held = min(size.failures / 4, trials.shown), min(size.right / 4, trials.held)
    made, whole = [], []
    for name in members:
        steps = edits.steps_held if name in HOLDING else edits.steps
        evidence = shown + (held if name in HOLDING else 0)
        if name == "learned loss":
            known = size.failures / 2 + min(size.right / 2, trials.judges)
            made.append(
                Part(
                    f"trying {name}",
                    SEARCH,
                    1,
                    settings.identifying.teaching.size(size.train)[0] * (size.train + known),
                )
            )
            continue
        edit = 0.0 if name in TANGENTS else 2 * steps * EVALUATIONS * evidence
        scored = 2 * size.train * (1.0 if name in TANGENTS else 0.4)
        made.append(Part(f"trying {name}", SEARCH, 1, edit + scored))
        whole += [edit] if trials.whole else []
    return [*made, Part("inserting all failures", SEARCH, len(whole), sum(whole) / max(1, len(whole)))]


def of_search(method: Any, train: Factor, failures: int, right: int) -> list[Part]:
    """The parts of a search with any method; `failures` and `right` are how many it is given."""
    if method is None or isinstance(method, Default):
        default, of_size = method or Default(), large(train.network.params)
        return searching(default.settings_for(of_size), Size(len(train), 2 * failures, 2 * right))
    return [Part("inserting the failures", SEARCH, 1, 1.0)] if isinstance(method, Method) else []


def announce_search(method: Any, train: Factor, failures: int, right: int, shown: Progress) -> None:
    """Tells progress the parts of a search after which nothing is treated."""
    if shown.seen:
        ours = method is None or isinstance(method, Default)
        shown.plan(of_search(method, train, failures, right), {SEARCH: gradient(train)} if ours else {})


class Fits(NamedTuple):
    """A part of the treatment: the `number` of its fits, how `long` each is (a whole fit is 1), whether they also learn
    from the failures, and whether they are only `perhaps` needed."""

    name: str
    number: int
    long: float = 1.0
    learns: bool = False
    perhaps: bool = False


def fitting(
    settings: Settings, others: int, asked: bool, learn: bool, short: float | None = None, ours: bool = True
) -> list[Fits]:
    """The parts of the treatment. `others`: how many rates there are to choose from besides the usual one. `short`: how
    long a fit is that only chooses. With the default's own method (`ours`) such a fit is the first part of a whole one,
    and learning continues from a whole one."""
    curve = settings.curve
    short = curve.short if short is None else short
    passes = settings.learning.passes if ours else 1.0
    sizes, known = len(curve.around), 1 if others else 0
    each = curve.refits if curve.refits_of_all else 1
    more = 0 if curve.refits_of_all else curve.refits - 1
    tried = 0 if asked else sizes * each
    begun = each if ours and (tried or known) else 0
    chosen = 0 if begun or (tried and short == 1) else each
    controls = each + (each * sizes if curve.refits_of_all and not asked else each)
    part = short if ours else 1.0
    return [
        Fits("trying how to forget", min(1, others), short),
        Fits("trying how to forget", others, short, perhaps=True),
        Fits("trying how many to remove", max(0, tried - known), short),
        *_whole("fitting what was chosen, and its controls", chosen + controls, begun, part),
        Fits("learning from the failures as well", each if learn else 0, passes, learns=True),
        *(once._replace(perhaps=True) for once in _whole(ONCE_MORE, 3 * more, 0, part)),
        Fits(ONCE_MORE, more if learn else 0, passes, learns=True, perhaps=True),
    ]


def _whole(name: str, number: int, begun: int, short: float) -> list[Fits]:
    """Whole fits, `number` of them, and the second part of those that were `begun`."""
    if short == 1:
        return [Fits(name, number)]
    return [Fits(name, number, short), Fits(name, number + begun, 1 - short)]


def fits(settings: Settings, others: int, asked: bool, learn: bool) -> tuple[float, float]:
    """How many whole fine-tunings forget, and how many learn as well, at most."""
    made = fitting(settings, others, asked, learn)
    plain, learning = (sum(f.number * f.long for f in made if f.learns is learns) for learns in (False, True))
    return plain, learning


def seconds(given: dict[str, Factor], default: Default, each: float, asked: bool = False, learn: bool = True,
            epochs: float | None = None) -> float:  # fmt: skip
    """Seconds of a repair at most, from `each`, the seconds of one gradient, and from a few timed steps of
    fine-tuning."""
    train, size = given["train"], Size.of(given)
    of_size = large(train.network.params)
    settings = default.settings_for(of_size)
    climb = cast("Adam", cast("Mode", default.treating(0, size.train, of_size).editor).climb)
    plain, learning = fits(settings, len(default.otherwise(0, size.train, of_size)), asked, learn)
    passes = climb.epochs if epochs is None else epochs
    return (
        each * search(settings, size)
        + step(train, climb) * passes * (plain * size.train + learning * seen(settings, size)) / climb.batch
    )


def seen(settings: Settings, size: Size) -> float:
    """Examples in a pass that learns from the failures as well."""
    return size.train + size.failures / 2 + min(size.right / 2, settings.learning.most * size.train)


def step(train: Factor, climb: Adam) -> float:
    """Seconds of one step of fine-tuning."""
    few = train[: STEPS * climb.batch]
    steps = -(-len(few) // climb.batch)
    return best_of_two(lambda: list(replace(climb, epochs=1)([few], few.network.params)), few.network.device) / steps


def best_of_two(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds; the first time warms up."""
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def gradient(train: Factor) -> float:
    """Seconds of the gradient of one example, in a batch."""
    batch = train[: min(len(train), train.batch)]
    return best_of_two(lambda: batch.value_and_grad(batch.network.params), batch.network.device) / len(batch)


def within(budget: Any, given: dict[str, Factor]) -> str:
    """The name of a budget: the one that was asked for, or the largest that should end within so many seconds; the
    smallest where none does, with a warning."""
    if isinstance(budget, str):
        Settings.of(budget)  # raises for an unknown name
        return budget
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not 0 < float(budget) < float("inf"):
        raise BadInput(f"budget is {budget!r}; it must be a name or seconds; give {', '.join(BUDGETS)}, or a number")
    each = gradient(given["train"])
    taken = {name: seconds(given, Default(name), each) for name in BUDGETS}
    in_time = [name for name in BUDGETS if taken[name] <= float(budget)]
    if not in_time:
        least = duration(taken[BUDGETS[0]])
        warnings.warn(
            f"{float(budget):g} seconds are not enough; budget; the smallest repair is made, which takes about {least}",
            stacklevel=2,
        )
    return broadcast(in_time[-1] if in_time else BUDGETS[0])  # each process has measured its own seconds
