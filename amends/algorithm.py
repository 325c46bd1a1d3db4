"""The whole of Algorithm 1, and the choices a user should not have to make."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from amends.conflicts import groups
from amends.curve import CAUSES, Curve, CurvePoint, share, sizes, smallest_good
from amends.data.splits import split
from amends.errors import BadInput
from amends.evaluation import Judged, interval, overall, predicted, right
from amends.factor import Factor
from amends.influence import Influence, identified
from amends.methods import Default, Method, Scorer
from amends.params import Params
from amends.posteriors import Ensemble
from amends.prepare import entry, prepare, whole
from amends.progress import Progress
from amends.selection import fraction, top
from amends.treatment import treated
from amends.verdict import NOT, chance, floors_of, verdict_of

if TYPE_CHECKING:
    import pandas as pd


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
    named = _groups(failed, start, group_by)
    at_query, at_holdout = _split_failures(named, holdout, seed)
    query, judged = failed[at_query], failed[at_holdout]
    guard, judge = _halves(rest, seed)
    treat_with = _treatment(treat_with, learn, seed)
    asked = _removal(remove, len(data))
    keeping = tuple(given[name] for name in kept)

    with Progress.shown(progress) as shown:
        found = identified(data, query, guard, identify_with, seed, shown)

        remembered = treat_with.remember(data, guard)

        def treat(causes: np.ndarray) -> Params:
            after = treated(data, np.sort(causes), query, guard, treat_with, shown, keeping, remembered)
            if isinstance(after, Ensemble) and after.centre is None:
                raise BadInput(
                    "an ensemble of models repairs to several models; repair, treat_with; use amends.treat for it"
                )
            return after.mean

        order = np.argsort(-found.scores, kind="stable")
        curve = Curve(treat, order, query, judged, guard, judge, keeping, seed)
        shown.say("control: nothing removed")
        points = [curve.nothing()]
        floors = floors_of(points[0], floor, [share(f, start) for f in (guard, judge, *keeping)])
        if asked is None:
            counts = sizes(len(data), min(int((found.scores > 0).sum()), len(data) - 1))
            shown.say("trying how many to remove")
            points += curve.causes(counts)
            chosen = smallest_good(points[1:], floors.guard, floors.keep)
        else:
            counts = [asked]
            chosen = curve.at(order[:asked], CAUSES)
            points.append(chosen)
        shown.say("control: as many removed at random")
        points += curve.random(counts)

    after = start if chosen is None else chosen.theta
    totals = len(failed), 0 if rest is None else len(rest)
    metrics = _judge(query, judged, judge, start, after, *totals)
    metrics["p_value"] = chance(judged if len(judged) else query, points[0].theta, after)
    verdict, reason = verdict_of(metrics, floors, chosen, points, bool(counts), treat_with.learn)
    if verdict == NOT:
        after = start
        metrics |= _judge(query, judged, judge, start, after, *totals)
    removed = order[: chosen.removed] if chosen is not None and verdict != NOT else order[:0]
    metrics |= {
        "removed": len(removed),
        "verdict": verdict,
        "reason": reason,
        "controls": {
            p.by: {"removed": p.removed, **_row(p)}
            for p in points if p.by != CAUSES and (chosen is None or p.removed in (0, chosen.removed))
        },
        "curve": [{"by": p.by, "removed": p.removed, **_row(p)} for p in points],
        "groups": _by_group(judged, named[at_holdout], after),
        "keep": {name: {"before": share(given[name], start), "after": share(given[name], after)} for name in kept},
        "seed": seed,
    }  # fmt: skip
    repaired = data.network.module_with(after, model)
    return Repair(repaired, metrics, found, removed, tuple(points), after, at_query, named[at_query])


def _removal(remove: Any, size: int) -> int | None:
    """A count, a share of train, or None to let the curve decide."""
    if remove is None:
        return None
    if isinstance(remove, numbers.Integral) and not isinstance(remove, bool):
        return len(top(np.zeros(size), int(remove)))
    if isinstance(remove, numbers.Real) and not isinstance(remove, bool):
        return len(fraction(np.zeros(size), float(remove)))
    raise BadInput(f"remove is {remove!r}; remove; give a count, a share of train, or None")


def _treatment(given: Method | Default | None, learn: bool | None, seed: int) -> Method:
    method = (given or Default()).treating(seed) if given is None or isinstance(given, Default) else given
    if not isinstance(method, Method):
        raise BadInput(f"treat_with is {given!r}; repair; pass one that treats, for example amends.methods.newton()")
    return method if learn is None else method._replace(learn=bool(learn))


def _groups(failed: Factor, start: Params, group_by: Any) -> np.ndarray:
    if group_by is None:
        return groups(failed, predicted(failed, start))
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


def _halves(rest: Factor | None, seed: int) -> tuple[Factor | None, Factor | None]:
    """What guards the choice does not judge it."""
    if rest is None or len(rest) < 2:
        return None, rest
    y = rest.examples.y.cpu().numpy()
    a, b = split(y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(rest)), 0.5, seed)
    return rest[a], rest[b]


def _judge(
    query: Factor, judged: Factor, judge: Factor | None, start: Params, after: Params, failures: int, right_ones: int
) -> dict[str, Any]:
    q, h = (Judged(right(f, start), right(f, after)) for f in (query, judged))
    r = None if judge is None else Judged(right(judge, start), right(judge, after))
    out: dict[str, Any] = {
        "query": q.summary,
        "holdout": h.summary,
        "remaining": None if r is None else r.summary,
        "overall": overall(h if len(judged) else q, r, failures, right_ones),
        "fixed": h.fixed,
        "newly_broken": 0 if r is None else r.broken,
    }
    sets = {"query": q, "holdout": h} | ({} if r is None else {"remaining": r})
    out["intervals"] = {name: interval(float(s.after.mean()), len(s.after)) for name, s in sets.items() if len(s.after)}
    return out


def _row(point: CurvePoint) -> dict[str, Any]:
    return {"query": point.query, "holdout": point.holdout, "guard": point.guard, "remaining": point.remaining}


def _by_group(judged: Factor, named: np.ndarray, after: Params) -> dict[str, dict[str, Any]]:
    ok = right(judged, after)
    return {str(g): {"n": int((named == g).sum()), "after": float(ok[named == g].mean())} for g in np.unique(named)}
