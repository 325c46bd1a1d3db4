"""The whole of Algorithm 1, and the choices a user should not have to make."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from amends.conflicts import groups
from amends.curve import CAUSES, LEARNED, CurvePoint, judged, share
from amends.data.splits import split
from amends.editors import Relabel
from amends.errors import BadInput
from amends.evaluation import by_label, harmed, predicted, right
from amends.factor import Factor
from amends.influence import Identified, Influence, identified
from amends.methods import Default, Method, Scorer
from amends.neighbours import clusters, duplicates, votes
from amends.params import LARGE, Params, count
from amends.prepare import entry, prepare, whole
from amends.progress import Progress
from amends.search import Search, alike
from amends.selection import fraction, indices, top
from amends.verdict import NOT, PARTLY, TELLING, Against, Judging, verdict_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Repair:
    """A repaired copy of the model and the evidence that it is one.

    `metrics` is what `metrics.json` holds. When the verdict is "not repaired", `model` is an
    unchanged copy and nothing counts as removed. Groups repaired one after the other are `rounds`;
    `influence` and `curve` are those of the last.
    """

    model: nn.Module
    metrics: dict[str, Any]
    influence: Influence
    removed: np.ndarray
    curve: tuple[CurvePoint, ...]
    after: Params
    rounds: tuple[Round, ...]
    given: dict[str, Factor]
    relabelled: bool = False  # whether the causes came back under another label

    @property
    def verdict(self) -> str:
        return self.metrics["verdict"]

    @property
    def decision(self) -> str:
        """What became of the causes, in the word their table has for it."""
        return "relabel" if self.relabelled else "remove"

    @property
    def query_positions(self) -> np.ndarray:
        """Of the given failures, those that were searched with."""
        return np.concatenate([r.query for r in self.rounds])

    @cached_property
    def causes(self) -> pd.DataFrame:
        """The causes C, most harmful first; `conflicts_with` holds positions in the given failures."""
        import pandas as pd

        from amends.frames import causes_frame

        frames = [
            causes_frame(
                r.found, r.removed, after=self.after, failure_groups=r.query_groups, failure_ids=r.query,
                decision=self.decision,
            ) for r in self.rounds
        ]  # fmt: skip
        some = [f for f in frames if len(f)] or frames[:1]
        frame = pd.concat(some, ignore_index=True)
        return frame.assign(rank=np.arange(1, len(frame) + 1))

    def save(self, folder: Any) -> None:
        """A run folder: report.html, causes, curve.csv, metrics.json, repaired/model.safetensors, dataset/."""
        from amends.store import save_repair

        save_repair(self, folder)

    def _repr_html_(self) -> str:
        """In a notebook: verdict, before and after, curve, strongest causes."""
        from amends.report.notebook import repair_html

        return repair_html(self)

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
        lines += [f"  warning: {w}" for w in m["warnings"]]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Groups:
    """For `group_by`: how failures are grouped (None, "clusters", or a name for each), and which of the
    groups to repair: `only` one, or several one after the other; all of them at once where it is None."""

    by: Any = None
    only: str | Sequence[str] | None = None


@entry
def repair(
    model: nn.Module,
    train: Any,
    failures: Any,
    remaining: Any = None,
    *,
    identify_with: Method | Scorer | Default | Identified | ArrayLike | None = None,
    treat_with: Method | Default | None = None,
    learn: bool | None = None,
    remove: int | float | ArrayLike | None = None,
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
    a count, a share of train, positions in train or a mask over it, or None to let a curve over the
    query decide. `learn` also learns from
    the query (True), only forgets (False), or learns unless what worked would suffer (None). Failures
    are grouped by (true, predicted), in "clusters" of the model's features, or as `group_by` names
    each; `group_by=Groups(only="1→7")` repairs one of the groups alone, or several one after the
    other. `keep` are further labelled sets, in a dict or a sequence, whose accuracy must hold.
    """
    kept = {f"keep[{name!r}]": k for name, k in keep.items()} if isinstance(keep, Mapping) else {
        f"keep[{i}]": k for i, k in enumerate(keep)
    }  # fmt: skip
    given = prepare(model, likelihood, device, batch_size, train=train, failures=failures, remaining=remaining, **kept)
    seed = whole(seed)
    failed, start = given["failures"], given["train"].network.params
    wanted = group_by if isinstance(group_by, Groups) else Groups(group_by)
    cut, asked = _cuts(given, wanted, holdout, seed)
    taken = removal(remove, len(given["train"]))
    loss_allowed(floor)
    if len(asked) > 1 and isinstance(taken, np.ndarray):
        raise BadInput("positions to remove, but several groups in turn; remove; repair one group, or give a count")
    data = given["train"]
    plan = Plan(
        identify_with, *_treatment(treat_with, learn, seed, len(data)), taken, floor, seed,
        _others(treat_with, seed, data),
    )  # fmt: skip
    if plan.learning and not alike(given["train"], failed):
        raise BadInput("labels of train and of the failures are of two kinds; learn; give both in one, or learn=False")
    rounds, theta, gone = [], start, np.zeros(0, dtype=np.int64)
    with Progress.shown(progress) as shown:
        for part in asked:
            here = {k: replace(f, network=replace(f.network, params=theta)) for k, f in given.items()}
            made = plan(here, tuple(kept), part, gone, shown)
            theta, gone = made.after, np.concatenate([gone, made.removed])
            rounds.append(made)
    made = rounds[0] if len(rounds) == 1 else _together(rounds)
    every = cut.only({name for r in rounds for name in r.groups} if wanted.only is not None else None)
    sets = every.sets(given)
    classes = sets.classes(start, theta)
    worse = harmed(classes)
    suspects = np.unique(np.concatenate([r.suspects for r in rounds]))
    metrics = sets.metrics(start, theta, seed) | {
        "p_value": made.p_value,
        "removed": len(gone),
        "verdict": made.verdict,
        "reason": made.reason if not worse else f"{made.reason}; but of class {', '.join(worse)} less is right",
        "learned": any(r.learned for r in rounds),
        "controls": made.controls,
        "curve": [p.row() for p in made.points],
        "groups": every.by_group(given, start, theta),
        "rounds": [r.row() for r in rounds],
        "classes": classes,
        "harmed": worse,
        **sets.confusion(start, theta),
        "calibration": sets.calibration(start, theta),
        "keep": {name: {"before": share(given[name], start), "after": share(given[name], theta)} for name in kept},
        "suspects": suspects.tolist(),
        "duplicates": duplicates(given["train"], gone),
        "identified_with": [h.row() for h in made.found.heard],
        "warnings": list(_warnings(len(every.holdout), len(every.query), suspects)),
        "seed": seed,
    }
    for at, positions in (("fixed_at", every.holdout), ("broken_at", every.judge)):
        metrics[at] = positions[metrics[at]].tolist()
    repaired = given["train"].network.module_with(theta, model)
    return Repair(
        repaired, metrics, made.found, gone, tuple(made.points), theta, tuple(rounds), given,
        isinstance(plan.method.editor, Relabel),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """What the first half of a repair ends with: the influence of train on the failures searched with."""

    influence: Influence
    query: np.ndarray  # positions in the given failures
    groups: np.ndarray  # of the query, one name each
    given: dict[str, Factor]

    def frame(self) -> pd.DataFrame:
        """All of train, most harmful first; `conflicts_with` holds positions in the given failures."""
        from amends.frames import causes_frame

        order = np.argsort(-self.influence.scores, kind="stable")
        return causes_frame(self.influence, order, failure_groups=self.groups, failure_ids=self.query)


@entry
def search(
    model: nn.Module,
    train: Any,
    failures: Any,
    remaining: Any = None,
    *,
    identify_with: Method | Scorer | Default | ArrayLike | None = None,
    holdout: float = 0.5,
    group_by: Any = None,
    likelihood: Any = None,
    seed: int = 0,
    device: Any = None,
    batch_size: int = 256,
    progress: bool | None = None,
) -> Found:
    """The first half of `repair` alone: what judges stays unread, so that a repair can go on from here
    with `identify_with=found.influence.identified` and the same seed, holdout and groups."""
    given = prepare(model, likelihood, device, batch_size, train=train, failures=failures, remaining=remaining)
    wanted = group_by if isinstance(group_by, Groups) else Groups(group_by)
    _, asked = _cuts(given, wanted, holdout, whole(seed))
    if len(asked) > 1:
        raise BadInput("several groups are searched one after the other only in a repair; group_by; name one")
    cut = asked[0]
    guard = given["remaining"][cut.guard] if len(cut.guard) else None
    with Progress.shown(progress) as shown:
        found = identified(given["train"], given["failures"][cut.query], guard, identify_with, seed, shown)
    return Found(found, cut.query, cut.named[cut.query], given)


def _cuts(given: dict[str, Factor], wanted: Groups, holdout: float, seed: int) -> tuple[Cut, list[Cut]]:
    """Where failures and remaining are cut, and the part of the failures each round is about."""
    failed = given["failures"]
    named = _groups(failed, failed.network.params, wanted.by, seed)
    cut = Cut.of(failed, named, holdout, given.get("remaining"), seed)
    asked = [cut.only(names) for names in _asked(wanted.only, named)]
    _check(asked, holdout)
    return cut, asked


@dataclass(frozen=True, eq=False)
class Cut:
    """Positions: of the failures searched with and judged with, of others that are only shown; of the
    right examples that guard and that judge; and the group of every failure."""

    query: np.ndarray
    holdout: np.ndarray
    others: np.ndarray
    guard: np.ndarray
    judge: np.ndarray
    named: np.ndarray

    @classmethod
    def of(cls, failed: Factor, named: np.ndarray, holdout: float, rest: Factor | None, seed: int) -> Cut:
        query, judged_with = _split_failures(named, holdout, seed)
        return cls(query, judged_with, judged_with[:0], *_split_remaining(rest, seed), named)

    def only(self, names: set[str] | None) -> Cut:
        """With the failures of some groups alone; the others' holdout is still shown."""
        if names is None:
            return self
        query, holdout = (at[np.isin(self.named[at].astype(str), list(names))] for at in (self.query, self.holdout))
        return replace(self, query=query, holdout=holdout, others=np.setdiff1d(self.holdout, holdout))

    def sets(self, given: dict[str, Factor]) -> Judging:
        failed, rest = given["failures"], given.get("remaining")
        return Judging(
            failed[self.query], failed[self.holdout], failed[self.others], None if rest is None else rest[self.judge],
            failures=len(failed), right_ones=0 if rest is None else len(rest),
        )  # fmt: skip

    def by_group(self, given: dict[str, Factor], start: Params, after: Params) -> dict[str, Any]:
        """Every group of the holdout, also those that were not repaired."""
        at = np.concatenate([self.holdout, self.others])
        return by_label(self.named[at], *(right(given["failures"][at], theta) for theta in (start, after)))


@dataclass(frozen=True, eq=False)
class Round:
    """The repair of one group of failures, or of all of them at once."""

    groups: tuple[str, ...]
    query: np.ndarray
    query_groups: np.ndarray
    found: Influence
    points: list[CurvePoint]
    after: Params
    removed: np.ndarray
    verdict: str
    reason: str
    p_value: float
    learned: bool
    controls: dict[str, dict[str, Any]]
    suspects: np.ndarray
    fixed: tuple[int, int]

    def row(self) -> dict[str, Any]:
        fixed, n = self.fixed
        return {"groups": list(self.groups), "verdict": self.verdict, "reason": self.reason, "fixed": fixed, "n": n,
                "removed": len(self.removed), "learned": self.learned, "p_value": self.p_value}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan:
    """How a round is done: with which methods, how much to remove, how far what worked may fall."""

    identify_with: Any
    method: Method
    learning: bool | None
    remove: int | np.ndarray | None
    floor: float | None
    seed: int
    others: tuple[Method, ...] = ()  # treatments to choose from beside `method`

    def __call__(
        self, given: dict[str, Factor], kept: tuple[str, ...], cut: Cut, gone: np.ndarray, shown: Progress
    ) -> Round:
        data, start, sets = given["train"], given["train"].network.params, cut.sets(given)
        guard = given["remaining"][cut.guard] if len(cut.guard) else None
        keeping = tuple(given[name] for name in kept)
        found = identified(data, sets.query, guard, self.identify_with, self.seed, shown)
        suspects = cut.query[_suspects(found, guard)]
        picked, number = (self.remove, len(self.remove)) if isinstance(self.remove, np.ndarray) else (None, self.remove)
        chooser = Search(
            found, guard, keeping, self.method, self.learning, sets.share, self.floor, self.seed, shown, gone, picked,
            self.others,
        )  # fmt: skip
        made = chooser(number)

        points = judged(made.points, sets.holdout, sets.remaining)  # from here on nothing is chosen
        final = None if made.final is None else points[made.final]
        after = start if final is None else {k: v.to(data.network.device) for k, v in final.theta.items()}
        metrics, judging = sets.metrics(start, after, self.seed), sets.holdout if len(sets.holdout) else sets.query
        against = [Against(points[i], points[j], data, judging) for i, j in made.against]
        floors = made.floors.judged(points[0].remaining, self.floor, share(sets.remaining, start))
        verdict, reason = verdict_of(metrics, floors, final, against, made.tried, made.safe)
        if verdict == NOT:
            after, final = start, None
        return Round(
            tuple(sorted({str(name) for name in cut.named[cut.query]})),
            cut.query,
            cut.named[cut.query],
            found,
            points,
            after,
            chooser.order[: 0 if final is None else final.removed],
            verdict,
            reason,
            max((a.p_value for a in against), default=1.0),
            final is not None and (self.method.learn or final.by == LEARNED),
            {p.by: p.row() for p in points if p.by not in (CAUSES, LEARNED) and p.removed in made.controls},
            suspects,
            (0 if final is None else metrics["fixed"], len(judging)),
        )


def _asked(only: str | Sequence[str] | None, named: np.ndarray) -> list[set[str] | None]:
    """The groups of each round, in the order given."""
    if only is None:
        return [None]
    known = sorted(set(named.astype(str)))
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in known:
            raise BadInput(f"no failure is in the group {name!r}; group_by; there are {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise BadInput(f"only is {names}; group_by; name one or more, each once")
    return [{name} for name in names]


def _check(asked: list[Cut], holdout: float) -> None:
    """A group is searched with and judged with, so it takes two."""
    for cut in asked:
        if not len(cut.query) or (holdout and not len(cut.holdout)):
            at = np.concatenate([cut.query, cut.holdout])
            raise BadInput(
                f"{len(at)} failure(s) of {cut.named[at[0]]} cannot be split into query and holdout; group_by; "
                "name another group, or put it together with others"
            )


def _together(rounds: list[Round]) -> Round:
    """Several rounds in the words of one: repaired if all were, partly if some."""
    verdicts = [r.verdict for r in rounds]
    verdict = verdicts[0] if len(set(verdicts)) == 1 else PARTLY
    reason = "; ".join(f"{', '.join(r.groups)}: {r.verdict}, {r.reason}" for r in rounds)
    p_value = max((r.p_value for r in rounds if r.verdict != NOT), default=1.0)
    return replace(rounds[-1], verdict=verdict, reason=reason, p_value=p_value)


def _warnings(holdout: int, query: int, suspects: np.ndarray) -> Iterator[str]:
    if holdout < TELLING:
        yield f"{holdout} failures judge the repair, too few to be sure; failures; give {2 * TELLING} or more"
    if len(suspects):
        yield (
            f"{len(suspects)} of the {query} failures searched with seem to have a wrong label themselves, "
            f"failures[{suspects[0]}] for one; metrics['suspects']; mend or drop them, and look at the others too"
        )


def _suspects(found: Influence, guard: Factor | None) -> np.ndarray:
    """Failures whose own label looks wrong: every right example near them carries what the model says,
    and no edit that was shown the other failures comes to see them as labelled."""
    if guard is None or found.unseen is None:
        return np.zeros(0, dtype=int)
    given, said = votes(found.failures, guard, found.train.network.params)
    return np.flatnonzero((given == 0) & (said >= 0.9) & (found.unseen < 0.05))


def loss_allowed(floor: float | None) -> None:
    """BadInput unless it is a share."""
    if floor is not None and not (isinstance(floor, numbers.Real) and 0 <= float(floor) <= 1):
        raise BadInput(f"floor is {floor!r}; floor; give the share of remaining that may be lost, 0 to 1")


def removal(remove: Any, size: int) -> int | np.ndarray | None:
    """A count, a share of train, the positions themselves, or None to let the curve decide."""
    if remove is None:
        return None
    if isinstance(remove, numbers.Integral) and not isinstance(remove, bool):
        return len(top(np.zeros(size), int(remove)))
    if isinstance(remove, numbers.Real) and not isinstance(remove, bool):
        return len(fraction(np.zeros(size), float(remove)))
    if (isinstance(remove, Sequence | np.ndarray) and not isinstance(remove, str)) or hasattr(remove, "__array__"):
        return indices(remove, size)
    raise BadInput(f"remove is {remove!r}; remove; give a count, a share of train, positions in it, or None")


def _others(given: Method | Default | None, seed: int, train: Factor) -> tuple[Method, ...]:
    """What our own treatment is chosen from."""
    if not (given is None or isinstance(given, Default)):
        return ()
    return (given or Default()).otherwise(seed, len(train), count(train.network.params) >= LARGE)


def _treatment(
    given: Method | Default | None, learn: bool | None, seed: int, examples: int
) -> tuple[Method, bool | None]:
    """The treatment that only forgets, with which the curve is drawn, and whether to learn from the query
    once that is done: yes, no, or None for only if what worked still works."""
    ours = given is None or isinstance(given, Default)
    method = given
    if given is None or isinstance(given, Default):
        method = (given or Default()).treating(seed, examples)
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
