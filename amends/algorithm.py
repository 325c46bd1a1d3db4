"""The whole of Algorithm 1, and the choices a user should not have to make."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from amends.conflicts import groups
from amends.curve import (
    CAUSES,
    LEARNED,
    NOTHING_LEARNED,
    RANDOM,
    Curve,
    CurvePoint,
    Rule,
    judged,
    share,
    sizes,
)
from amends.data.splits import split
from amends.errors import BadInput
from amends.evaluation import by_label, harmed, predicted, right
from amends.factor import Factor
from amends.influence import Influence, identified
from amends.methods import Default, Method, Scorer
from amends.neighbours import clusters, duplicates, votes
from amends.params import Params
from amends.posteriors import Ensemble, Posterior
from amends.prepare import entry, prepare, whole
from amends.progress import Progress
from amends.selection import fraction, top
from amends.treatment import again, treated
from amends.verdict import NOT, TELLING, Against, Floors, Judging, floors_of, verdict_of

if TYPE_CHECKING:
    import pandas as pd

REFITS = 3  # of every point of the curve, where a treatment has random numbers


@dataclass(frozen=True, eq=False, repr=False)
class Repair:
    """A repaired copy of the model and the evidence that it is one.

    `metrics` is what `metrics.json` holds. When the verdict is "not repaired", `model` is an
    unchanged copy and nothing counts as removed.
    """

    model: nn.Module
    metrics: dict[str, Any]
    influence: Influence
    removed: np.ndarray
    curve: tuple[CurvePoint, ...]
    after: Params
    query_positions: np.ndarray
    query_groups: np.ndarray

    @property
    def verdict(self) -> str:
        return self.metrics["verdict"]

    @cached_property
    def causes(self) -> pd.DataFrame:
        """The causes C, most harmful first; `conflicts_with` holds positions in the given failures."""
        from amends.frames import causes_frame

        return causes_frame(
            self.influence, self.removed, after=self.after, failure_groups=self.query_groups,
            failure_ids=self.query_positions, decision="remove",
        )  # fmt: skip

    def save(self, folder: Any) -> None:
        """A run folder: causes.csv, curve.csv, metrics.json and repaired/model.safetensors."""
        from amends.runs import save_repair

        save_repair(self, folder)

    def __repr__(self) -> str:
        m = self.metrics
        lines = [f"{m['verdict']}: {m['reason']}"]
        for name in ("query", "holdout", "remaining", "overall"):
            row = m[name]
            if row is None or not row["n"]:
                continue
            low, high = m["intervals"].get(name, (None, None))
            span = "" if low is None else f"  [{low:.3f}, {high:.3f}]"
            lines.append(f"  {name:<10} {row['before']:.3f} → {row['after']:.3f}{span}  n = {row['n']}")
        counts = f"fixed {m['fixed']}, newly broken {m['newly_broken']}"
        lines.append(f"  {counts}, removed {m['removed']} of {len(self.influence)}")
        for name, row in m["controls"].items():
            if row["holdout"] is not None:
                lines.append(f"  control, {row['removed']} removed ({name}): holdout {row['holdout']:.3f}")
        return "\n".join(lines)


@entry
def repair(
    model: nn.Module,
    train: Any,
    failures: Any,
    remaining: Any = None,
    *,
    identify_with: Method | Scorer | Default | ArrayLike | None = None,
    treat_with: Method | Default | None = None,
    learn: bool | None = None,
    remove: int | float | None = None,
    holdout: float = 0.5,
    group_by: Any = None,
    keep: Any = (),
    floor: float | None = None,
    likelihood: Any = None,
    seed: int = 0,
    device: Any = None,
    batch_size: int = 256,
    progress: bool | None = None,
) -> Repair:
    """Find the causes of the failures, forget them, and judge the result on what was not searched with.

    `failures` are split into query (searched with) and holdout (judged with), each group in
    proportion; `remaining` into a half that guards the choices and a half that judges. `remove` is
    a count, a share of train, or None to let a curve over the query decide. `keep` names further
    labelled sets whose accuracy must hold.
    """
    kept = {f"keep[{i}]": k for i, k in enumerate(keep)}
    given = prepare(model, likelihood, device, batch_size, train=train, failures=failures, remaining=remaining, **kept)
    seed = whole(seed)
    data, failed, rest = given["train"], given["failures"], given.get("remaining")
    start = data.network.params
    named = _groups(failed, start, group_by, seed)
    at_query, at_holdout = _split_failures(named, holdout, seed)
    query, judging = failed[at_query], failed[at_holdout]
    at_guard, at_judge = _split_remaining(rest, seed)
    guard = rest[at_guard] if rest is not None and len(at_guard) else None
    judge = None if rest is None else rest[at_judge]
    method, learning = _treatment(treat_with, learn, seed)
    asked = _removal(remove, len(data))
    sets = Judging(query, judging, judge, failures=len(failed), right_ones=0 if rest is None else len(rest))
    keeping = tuple(given[name] for name in kept)

    with Progress.shown(progress) as shown:
        found = identified(data, query, guard, identify_with, seed, shown)
        suspects = at_query[_suspects(found, guard)]
        search = Search(found, guard, keeping, method, learning, sets.share, floor, seed, shown)
        made = search(asked)

    points = judged(made.points, judging, judge)  # from here on nothing is chosen
    final = None if made.final is None else points[made.final]
    after = start if final is None else _here(final.theta, data)
    metrics = sets.metrics(start, after, seed)
    against = [Against(points[i], points[j], data, judging if len(judging) else query) for i, j in made.against]
    metrics["p_value"] = max((a.p_value for a in against), default=1.0)
    floors = made.floors.judged(points[0].remaining, floor, share(judge, start))
    verdict, reason = verdict_of(metrics, floors, final, against, made.tried)
    if verdict == NOT:
        after, final = start, None
        metrics |= sets.metrics(start, after, seed)
    removed = search.order[: 0 if final is None else final.removed]
    classes = sets.classes(start, after)
    worse = harmed(classes)
    metrics |= {
        "removed": len(removed),
        "verdict": verdict,
        "reason": reason if not worse else f"{reason}; but of class {', '.join(worse)} less is right than before",
        "learned": final is not None and (method.learn or final.by == LEARNED),
        "controls": {p.by: p.row() for p in points if p.by not in (CAUSES, LEARNED) and p.removed in made.controls},
        "curve": [p.row() for p in points],
        "groups": by_label(named[at_holdout], *(right(judging, theta) for theta in (start, after))),
        "classes": classes,
        "harmed": worse,
        "calibration": sets.calibration(start, after),
        "keep": {name: {"before": share(given[name], start), "after": share(given[name], after)} for name in kept},
        "suspects": suspects.tolist(),
        "duplicates": duplicates(data, removed),
        "identified_with": [h.row() for h in found.heard],
        "warnings": list(_warnings(len(at_holdout), suspects)),
        "seed": seed,
    }  # fmt: skip
    for at, positions in (("fixed_at", at_holdout), ("broken_at", at_judge)):
        metrics[at] = positions[metrics[at]].tolist()
    repaired = data.network.module_with(after, model)
    return Repair(repaired, metrics, found, removed, tuple(points), after, at_query, named[at_query])


def _here(theta: Params, data: Factor) -> Params:
    return {k: v.to(data.network.device) for k, v in theta.items()}


def _warnings(holdout: int, suspects: np.ndarray) -> Iterator[str]:
    if holdout < TELLING:
        yield f"{holdout} failures judge the repair, too few to be sure; failures; give {2 * TELLING} or more"
    if len(suspects):
        yield (
            f"the labels of {len(suspects)} failures look wrong themselves; failures[{suspects[0]}] and others, see "
            "metrics['suspects']; mend or drop them, so that nothing is removed for their sake"
        )


@dataclass(frozen=True)
class Made:
    """What a search ended with: its points, which of them is the repair, and which pairs of (with the
    causes gone, a control) must differ for it to be one."""

    points: list[CurvePoint]
    floors: Floors
    tried: bool
    final: int | None = None
    against: tuple[tuple[int, int], ...] = ()

    @property
    def controls(self) -> set[int]:
        """Numbers removed in the controls that are told."""
        return {0} if self.final is None else {0, self.points[self.final].removed}


@dataclass(frozen=True, eq=False)
class Search:
    """How many to remove, and whether to learn from the query as well. Never sees what judges."""

    found: Influence
    guard: Factor | None
    keep: tuple[Factor, ...]
    method: Method
    learning: bool | None
    failures: float  # share of the failures among all the user gave
    floor: float | None
    seed: int
    progress: Progress

    @cached_property
    def order(self) -> np.ndarray:
        return np.argsort(-self.found.scores, kind="stable")

    def __call__(self, asked: int | None) -> Made:
        train, start, say = self.found.train, self.found.train.network.params, self.progress.say
        curve = self._curve(self.method)
        say("control: nothing removed")
        points = [curve.nothing()]
        floors = floors_of(points[0].guard, self.floor, [share(f, start) for f in (self.guard, *self.keep)])
        rule = Rule(floors.guard, floors.keep, self.failures, points[0])
        counts = [asked]
        if asked is None:
            counts = sizes(len(train), min(int((self.found.scores > 0).sum()), len(train) - 1))
            say("trying how many to remove")
            points += curve.causes(counts, rule.good)
            chosen = rule.smallest(points[1:])
        else:
            chosen = curve.at(CAUSES, self.order[:asked])
            points.append(chosen)
        say("control: as many removed at random")
        points += [curve.random(p.removed) for p in points[1:]]
        if chosen is None:
            return Made(points, floors, bool(counts))
        at = points.index(chosen)
        by_chance = next(i for i, p in enumerate(points) if p.by == RANDOM and p.removed == chosen.removed)
        made = Made(points, floors, True, at, ((at, 0), (at, by_chance)))
        if self.learning is False:
            return made
        say("learning from the failures as well")
        learner = self._curve(self.method._replace(learn=True))
        learned = learner.at(LEARNED, self.order[: chosen.removed])
        if not self.learning and not rule.safe(learned):
            return made
        points += [learned, learner.at(NOTHING_LEARNED, self.order[:0])]
        last = len(points) - 1
        return replace(made, final=last - 1, against=(*made.against, (last - 1, last)))

    def _curve(self, method: Method) -> Curve:
        train, query = self.found.train, self.found.failures
        refits = REFITS if again(method, 1) is not method else 1

        def treat(causes: np.ndarray, number: int) -> Params:
            by = again(method, number)
            after = treated(train, np.sort(causes), query, self.guard, by, self.progress, self.keep, self.remembered)
            if isinstance(after, Ensemble) and after.centre is None:
                raise BadInput(
                    "an ensemble of models repairs to several models; repair, treat_with; use amends.treat for it"
                )
            return after.mean

        return Curve(treat, refits, self.order, query, self.guard, self.keep, self.seed)

    @cached_property
    def remembered(self) -> Posterior:
        return self.method.remember(self.found.train, self.guard)


def _suspects(found: Influence, guard: Factor | None) -> np.ndarray:
    """Failures whose own label looks wrong: every right example near them carries what the model says,
    and no edit that was shown the other failures comes to see them as labelled."""
    if guard is None or found.unseen is None:
        return np.zeros(0, dtype=int)
    given, said = votes(found.failures, guard, found.train.network.params)
    return np.flatnonzero((given == 0) & (said >= 0.9) & (found.unseen < 0.05))


def _removal(remove: Any, size: int) -> int | None:
    """A count, a share of train, or None to let the curve decide."""
    if remove is None:
        return None
    if isinstance(remove, numbers.Integral) and not isinstance(remove, bool):
        return len(top(np.zeros(size), int(remove)))
    if isinstance(remove, numbers.Real) and not isinstance(remove, bool):
        return len(fraction(np.zeros(size), float(remove)))
    raise BadInput(f"remove is {remove!r}; remove; give a count, a share of train, or None")


def _treatment(given: Method | Default | None, learn: bool | None, seed: int) -> tuple[Method, bool | None]:
    """The treatment that only forgets, with which the curve is drawn, and whether to learn from the query
    once that is done: yes, no, or None for only if what worked still works."""
    ours = given is None or isinstance(given, Default)
    method = (given or Default()).treating(seed) if given is None or isinstance(given, Default) else given
    if not isinstance(method, Method):
        raise BadInput(f"treat_with is {given!r}; repair; pass one that treats, for example amends.methods.newton()")
    if not method.forget:  # there is nothing but learning in it
        return method if learn is None else method._replace(learn=bool(learn)), False
    wanted = learn if learn is not None or ours else method.learn
    return method._replace(learn=False), None if wanted is None else bool(wanted)


def _groups(failed: Factor, start: Params, group_by: Any, seed: int) -> np.ndarray:
    """By (true, predicted), by clusters in the model's own features, or as the user says."""
    if group_by is None:
        return groups(failed, predicted(failed, start))
    if isinstance(group_by, str):
        if group_by != "clusters":
            raise BadInput(f"group_by is {group_by!r}; group_by; give 'clusters', a name for each failure, or None")
        return clusters(failed, start, seed=seed)
    named = np.asarray(group_by, dtype=object).astype(str)
    if named.shape != (len(failed),):
        raise BadInput(f"group_by has shape {list(named.shape)}, there are {len(failed)} failures; group_by; one each")
    return named


def _split_failures(named: np.ndarray, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(holdout, numbers.Real) or not 0 <= float(holdout) < 1:
        raise BadInput(f"holdout is {holdout!r}; holdout; give a share of the failures, 0 or more and below 1")
    at_query, at_holdout = split(named, holdout, seed)
    if not len(at_query) or (holdout and not len(at_holdout)):
        raise BadInput(
            f"{len(named)} failure(s) cannot be split into query and holdout; failures; give 2 or more, or holdout=0"
        )
    return at_query, at_holdout


def _split_remaining(rest: Factor | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What guards the choice does not judge it; a single example only judges."""
    if rest is None or len(rest) < 2:
        return np.zeros(0, dtype=int), np.arange(0 if rest is None else len(rest))
    y = rest.examples.y.cpu().numpy()
    return split(y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(rest)), 0.5, seed)
