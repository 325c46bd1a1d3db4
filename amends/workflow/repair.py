"""The whole of Algorithm 1, and the choices a user should not have to make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from amends.algorithm.choose import alike
from amends.algorithm.curve import CurvePoint, share
from amends.algorithm.cut import Cut, Groups, cuts
from amends.algorithm.identify import Identified, Influence, identified
from amends.algorithm.rounds import (
    Plan,
    Round,
    least_of,
    loss_allowed,
    others,
    removal,
    suspects_of,
    together,
    treatment_of,
)
from amends.algorithm.verdict import TELLING, Keep
from amends.editors import Relabel
from amends.errors import BadInput
from amends.evaluation.statistics import harmed
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.evidence.prepare import entry, needed, prepare, whole
from amends.methods import Default, Method, Scorer
from amends.nearness.neighbours import duplicates
from amends.progress import Progress

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
    cut: Cut  # which failures were searched with, and which judged
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

        from amends.tables.frames import causes_frame

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
        from amends.workflow.store import save_repair

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
    query decide. `learn` also learns from the query and the right examples that guard (True), only
    forgets (False), or learns where that does as much and what worked does not suffer (None). Failures
    are grouped by (true, predicted), in "clusters" of the model's features, or as `group_by` names
    each; `group_by=Groups(only="1→7")` repairs one of the groups alone, or several one after the
    other. `keep` are further labelled sets, in a dict or a sequence, whose accuracy must hold: within a point
    of what it was, or at least .95 with `Keep(data, .95)`.
    """
    keep = (keep,) if isinstance(keep, Keep) else keep
    sets = {f"keep[{name!r}]": k for name, k in (keep.items() if isinstance(keep, Mapping) else enumerate(keep))}
    kept = {name: least_of(name, k) for name, k in sets.items()}
    named = {name: k.data if isinstance(k, Keep) else k for name, k in sets.items()}
    given = prepare(
        model, likelihood, device, batch_size, train=train, failures=needed(failures), remaining=remaining, **named
    )
    seed = whole(seed)
    failed, start = given["failures"], given["train"].network.params
    wanted = group_by if isinstance(group_by, Groups) else Groups(group_by)
    cut, asked = cuts(given, wanted, holdout, seed)
    taken = removal(remove, len(given["train"]), given["train"].examples.names())
    loss_allowed(floor)
    if len(asked) > 1 and isinstance(taken, np.ndarray):
        raise BadInput("positions to remove, but several groups in turn; remove; repair one group, or give a count")
    data = given["train"]
    plan = Plan(
        identify_with, *treatment_of(treat_with, learn, seed, len(data)), taken, floor, seed,
        others(treat_with, seed, data),
    )  # fmt: skip
    if plan.learning and not alike(given["train"], failed):
        raise BadInput("labels of train and of the failures are of two kinds; learn; give both in one, or learn=False")
    rounds, theta, gone = [], start, np.zeros(0, dtype=np.int64)
    with Progress.shown(progress) as shown:
        for part in asked:
            here = {k: replace(f, network=replace(f.network, params=theta)) for k, f in given.items()}
            made = plan(here, kept, part, gone, shown, rounds[0].floors if rounds else None)
            rounds.append(made.since(rounds, part.sets(given)) if rounds else made)
            theta, gone = made.after, np.concatenate([gone, made.removed])
    every = cut.only({name for r in rounds for name in r.groups} if wanted.only is not None else None)
    sets = every.sets(given)
    made = rounds[0] if len(rounds) == 1 else together(rounds, sets)
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
        "warnings": [*_warnings(every, "remaining" in given), *_of_suspects(suspects, len(every.query), failed)],
        "seed": seed,
    }
    for at, positions in (("fixed_at", every.holdout), ("broken_at", every.judge)):
        metrics[at] = positions[metrics[at]].tolist()
    repaired = given["train"].network.module_with(theta, model)
    return Repair(
        repaired, metrics, made.found, gone, tuple(made.points), theta, tuple(rounds), given, every,
        isinstance(plan.method.editor, Relabel),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """What the first half of a repair ends with: the influence of train on the failures searched with."""

    influence: Influence
    cut: Cut  # positions in the given failures and right examples
    given: dict[str, Factor]
    suspects: np.ndarray  # of the failures searched with, those whose own label looks wrong

    @property
    def query(self) -> np.ndarray:
        """Positions in the given failures."""
        return self.cut.query

    @property
    def warnings(self) -> list[str]:
        """What a person should look at before anything is removed."""
        return list(_of_suspects(self.suspects, len(self.query), self.given["failures"], "failures.csv"))

    def frame(self) -> pd.DataFrame:
        """All of train, most harmful first; `conflicts_with` holds positions in the given failures."""
        from amends.tables.frames import causes_frame

        order = np.argsort(-self.influence.scores, kind="stable")
        groups = self.cut.named[self.query]
        return causes_frame(self.influence, order, failure_groups=groups, failure_ids=self.query)


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
    given = prepare(model, likelihood, device, batch_size, train=train, failures=needed(failures), remaining=remaining)
    wanted = group_by if isinstance(group_by, Groups) else Groups(group_by)
    _, asked = cuts(given, wanted, holdout, whole(seed))
    if len(asked) > 1:
        raise BadInput("several groups are searched one after the other only in a repair; group_by; name one")
    cut = asked[0]
    guard = given["remaining"][cut.guard] if len(cut.guard) else None
    with Progress.shown(progress) as shown:
        found = identified(given["train"], given["failures"][cut.query], guard, identify_with, seed, shown)
    return Found(found, cut, given, cut.query[suspects_of(found, guard)])


def _warnings(cut: Cut, remaining: bool) -> Iterator[str]:
    holdout, right_ones = len(cut.holdout), len(cut.judge)
    if holdout < TELLING:
        yield f"{holdout} failures judge the repair, too few to be sure; failures; give {2 * TELLING} or more"
    if remaining and right_ones < TELLING:
        yield (
            f"{right_ones} right examples judge what worked, too few to be sure; remaining; give {2 * TELLING} or more"
        )


def _of_suspects(suspects: np.ndarray, query: int, failed: Factor, where: str = "metrics['suspects']") -> Iterator[str]:
    if len(suspects):
        names = failed.examples.names()
        known = "" if names is None else f" ({names[suspects[0]]})"
        yield (
            f"{len(suspects)} of the {query} failures searched with seem to have a wrong label themselves, "
            f"failures[{suspects[0]}]{known} for one; {where}; mend or drop them, and look at the others too"
        )
