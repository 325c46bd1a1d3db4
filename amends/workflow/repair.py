"""`amends.repair`: the whole of Algorithm 1, with every choice made for the user, and the `Repair` it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from amends.algorithm.curve import CurvePoint, share
from amends.algorithm.decisions import relabelled
from amends.algorithm.identify import Identified, Influence
from amends.algorithm.options import Options, sets_to_keep
from amends.algorithm.problem import Problem
from amends.algorithm.rounds import Plan, Round, gone_in, together
from amends.algorithm.split import Split
from amends.config.decisions import REMOVE
from amends.errors import BadInput
from amends.evaluation.statistics import by_label, harmed
from amends.evaluation.words import OVER, forgetting_alone, over
from amends.evidence.factor import Factor
from amends.evidence.params import Params, large
from amends.evidence.prepare import entry, needed, prepare
from amends.likelihoods import Gaussian
from amends.methods import Default, Method, Scorer
from amends.nearness.copies import duplicates
from amends.progress import Progress
from amends.workflow.chosen import chosen
from amends.workflow.stages import stages
from amends.workflow.warned import anyway_fixed, risks, warnings_of

if TYPE_CHECKING:
    import pandas as pd

    from amends.patches.patch import Patch


@dataclass(frozen=True, eq=False, repr=False)
class Repair:
    """A repaired copy of the model and the evidence that it is one.

    `metrics` is what `metrics.json` holds. When the verdict is "not repaired", `model` is an
    unchanged copy and nothing counts as removed. Groups repaired one after the other are `rounds`;
    `influence` and `curve` are those of the last.
    """

    model: nn.Module
    metrics: dict[str, Any]
    removed: np.ndarray
    after: Params
    rounds: tuple[Round, ...]
    given: dict[str, Factor]
    split: Split  # which failures were searched with, and which judged
    new_labels: Mapping[int, Any] = field(default_factory=dict)  # of the causes that came back, by position in train
    floor: float | None = None  # as the user gave it, like the least accuracies of the sets to keep
    kept: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return self.metrics["verdict"]

    @property
    def influence(self) -> Influence:
        return self.rounds[-1].search.influence

    @property
    def curve(self) -> tuple[CurvePoint, ...]:
        return tuple(self.rounds[-1].points)

    @property
    def query_positions(self) -> np.ndarray:
        """Positions of the failures that were searched with."""
        return np.concatenate([r.search.part.query for r in self.rounds])

    @cached_property
    def causes(self) -> pd.DataFrame:
        """The causes C, most harmful first; `conflicts_with` holds positions in the given failures. Where nothing was
        removed, all of train as the search ranked it, with an empty `decision`."""
        import pandas as pd

        from amends.tables.frames import with_new_labels

        if not len(self.removed):
            return self.rounds[0].search.frame()
        frames = [r.search.rows(r.removed, self.after, REMOVE) for r in self.rounds]
        frame = pd.concat([f for f in frames if len(f)], ignore_index=True)
        return with_new_labels(frame.assign(rank=np.arange(1, len(frame) + 1)), self.new_labels)

    def save(self, folder: Any) -> None:
        """A run folder: the report, causes, metrics, repaired weights, cleaned data (docs/reference/run-folder.md)."""
        from amends.workflow.store import save_repair

        save_repair(self, folder)

    def patch(self, *, exact: bool = False, beside: Sequence[Patch] = (), progress: bool | None = None) -> Patch:
        """The repair as a small file beside the model: `.save(path)` writes it, `amends.apply` puts it on.

        As small as it can be while the verdict stands: its size is chosen by what guarded the repair, then it is
        judged again. With `exact` it leads to the weights of `model` to the bit. It may be
        put on weights without the patches `beside` it, or with them, if it holds there: that is judged as well.
        `progress` shows how far it is; None means on a terminal only.
        """
        from amends.workflow.patched import patch_of_repair

        return patch_of_repair(self, exact, beside, progress)

    def _repr_html_(self) -> str:
        """In a notebook: verdict, before and after, curve, strongest causes."""
        from amends.report.notebook import repair_html

        return repair_html(self)

    def __repr__(self) -> str:
        m = self.metrics
        lines = [f"{m['verdict']}: {m['reason']}"]
        for name in OVER:
            row = m[name]
            if row is None or not row["n"]:
                continue
            low, high = m["intervals"].get(name, (None, None))
            span = " " * 16 if low is None else f"[{low:.3f}, {high:.3f}]"
            lines.append(
                f"  {name:<10} {row['before']:.3f} → {row['after']:.3f}  {span}  {over(name, row['n'], m['learned'])}"
            )
        counts = f"fixed {m['fixed']}" + ("" if m["remaining"] is None else f", newly broken {m['newly_broken']}")
        lines.append(f"  {counts}, removed {m['removed']} of {len(self.influence)}")
        if (alone := forgetting_alone(m)) is not None and alone["holdout"] is not None:
            lines.append(f"  forgetting alone, nothing learned from the failures: holdout {alone['holdout']:.3f}")
        for name, row in m["controls"].items():
            if row["holdout"] is not None:
                lines.append(f"  control, {row['removed']} removed ({name}): holdout {row['holdout']:.3f}")
        lines += [f"  offer: {m['offer']}"] if m["offer"] else []
        lines += [f"  left out with budget {m['budget']}: {m['left_out']}"] if m["left_out"] else []
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
    broken_costs: float = 1.0,
    anyway: bool = False,
    budget: str | float = "default",
    likelihood: Any = None,
    seed: int = 0,
    device: Any = None,
    batch_size: int = 256,
    progress: bool | None = None,
) -> Repair:
    """Find the causes of the failures, forget them, and judge the result on what was not searched with.

    `failures` are split into query (searched with) and holdout (judged with), each group in
    proportion; `remaining` into a half that guards the choices and a half that judges. `remove` is
    a count, a share of train, positions in train or a mask over it, a table of causes with decisions
    (`remove`, `keep`, `relabel` with a `new_label`), or None to let a curve over the query decide.
    `learn` also learns from the query and the right examples that guard (True), only forgets (False),
    or learns if the examples that judge show a gain over forgetting (None). Failures are grouped by
    (true, predicted), in "clusters" of the model's features, or as `group_by` names each;
    `group_by=Groups(only="1→7")` repairs one of the groups alone, or several one after the other.

    Choices and the verdict go by fixed − `broken_costs` · broken, with failures and right examples in the proportion
    given: with 1 that is overall accuracy. `floor` is how far accuracy on `remaining` may fall at most.
    `keep` are further labelled sets, in a dict or a sequence, whose accuracy must hold: within a point of what it
    was (or `floor`), or at least .95 with `Keep(data, .95)`. `budget` is "quick", "default", "thorough", or seconds:
    the largest of these that should end in time.

    Where model and data do not seem to belong together, BadInput says why, and nothing is computed; `anyway` goes on.
    """
    sets, least = sets_to_keep(keep)
    if absent := [name for name, data in sets.items() if data is None]:
        raise BadInput(f"{absent[0]} is None; pass labelled examples, or leave it out")
    options = Options(
        identify_with, treat_with, learn, remove, holdout, group_by, floor, broken_costs, seed, budget, least, anyway
    )
    given = prepare(
        model, likelihood, device, batch_size, train=train, failures=needed(failures), remaining=remaining, **sets
    )
    problem = Problem.of(given, options)
    with Progress.shown(progress) as shown:
        rounds = [stage for stage in stages(problem, shown) if isinstance(stage, Round)]
    return concluded(problem, rounds, model)


def concluded(problem: Problem, rounds: Sequence[Round], model: Any) -> Repair:
    """The repaired model, judged as a whole; `model` is what the caller gave."""
    given, split, start, theta, plan = problem.given, problem.repaired(), problem.start, rounds[-1].after, problem.plan
    whole = together(rounds, split.sets(given))
    outcome, gone = whole.outcome, gone_in(rounds)
    assert outcome is not None, "the last round is never read back from a folder"
    changed = relabelled(plan.method.editor, given["train"], gone, theta)
    metrics = outcome.metrics(plan.seed)
    for at, positions in (("fixed_at", split.holdout), ("broken_at", split.judge)):
        metrics[at] = positions[metrics[at]].tolist()
    worse = harmed(classes := outcome.classes())
    suspects = np.unique(np.concatenate([r.search.suspects for r in rounds]))
    known = [*problem.setup.alarms, *risks(problem.allowed)]
    metrics |= {
        "p_value": whole.p_value,
        "removed": len(gone),
        "relabelled": len(changed),
        "chosen": chosen(plan, rounds),
        "verdict": whole.verdict,
        "reason": "; ".join([whole.reason, *_fell(worse), *anyway_fixed(whole.controls, outcome.sets.judged_on)]),
        "learned": any(r.learned for r in rounds),
        **_asked(plan, start),
        "offer": whole.offer,
        "controls": whole.controls,
        "curve": [p.row() for p in whole.points],
        "evaluation": outcome.evaluation(split.unmeasured(given)),
        "already_right": len(split.already),
        "groups": by_label(split.group[np.concatenate([split.holdout, split.other_groups])], outcome.failed),
        "rounds": [r.row() for r in rounds],
        "classes": classes,
        "harmed": worse,
        **outcome.confusion(),
        "calibration": outcome.calibration(),
        "keep": {n: {"before": share(given[n], start), "after": share(given[n], theta)} for n in plan.kept},
        "suspects": suspects.tolist(),
        "duplicates": duplicates(given["train"], gone),
        "identified_with": [h.row() for h in whole.search.influence.members],
        "setup": {**problem.setup.right, "alarms": list(problem.setup.alarms)},
        "allowed": list(problem.allowed),
        "warnings": [*known, *warnings_of(split, given, metrics, suspects, plan.identify_with)],
        "seed": plan.seed,
    }
    metrics["reason"] += _right_is(given["train"])
    repaired = given["train"].network.module_with(theta, model)
    return Repair(repaired, metrics, gone, theta, tuple(rounds), given, split, changed, plan.floor, plan.kept)


def _asked(plan: Plan, start: Params) -> dict[str, Any]:
    """What a broken example costs, the budget, and what the budget leaves out."""
    less = plan.settings.left_out(large(start))
    return {"broken_costs": plan.broken_costs, "budget": plan.budget, "left_out": less}


def _right_is(train: Factor) -> str:
    """What a right prediction is, where targets are numbers."""
    family = train.network.likelihood.family
    return f"; right is within {family.within:g} of the target" if isinstance(family, Gaussian) else ""


def _fell(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [f"accuracy on {'class' if len(names) == 1 else 'classes'} {', '.join(names)} fell"]
