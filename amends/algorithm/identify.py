"""Step I: what each training example loses when the failures are inserted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from amends.algorithm.budget import announce_search
from amends.algorithm.selection import fraction, positive, top
from amends.committee.decide import MemberWeight, Scored, committee, decide
from amends.committee.evaluated import Evaluated
from amends.committee.rows import Rows
from amends.data.splits import split
from amends.editors import HeldOut, follow
from amends.editors.tangent import Linearised
from amends.errors import BadInput, many
from amends.evidence.factor import Factor
from amends.evidence.finite import LOG_P, SCORE, finite
from amends.evidence.params import Params, flatten, plus
from amends.evidence.prepare import entry, needed, prepare, whole
from amends.evidence.targets import together
from amends.methods import BY_NAME, Default, Method, Scorer
from amends.methods import scores as scores_from_elsewhere
from amends.methods.ratio import first_order, in_one_reading
from amends.posteriors import Gaussian, Point, Posterior
from amends.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

HALVINGS = 16  # lengths tried along a tangent, from that of the weights on


@dataclass(frozen=True, eq=False)
class Identified:
    """An influence without model and data: what a run folder holds, and all that is needed to continue from it."""

    scores: np.ndarray
    raw: np.ndarray
    before: np.ndarray
    edited: Params | None = None
    members: tuple[MemberWeight, ...] = ()
    unseen: np.ndarray | None = None

    def of(self, train: Factor, failures: Factor) -> Influence:
        """The influence, with the data it was computed on."""
        searched = len(failures) if self.unseen is None else len(self.unseen)
        if len(self.scores) == len(train) and searched > len(failures):
            raise BadInput(
                f"these scores were found with {searched} failures, but {len(failures)} are searched with, so that "
                "others can judge; identify_with; leave it out, or pass result.influence.identified of a repair"
            )
        if (len(self.scores), searched) != (len(train), len(failures)):
            raise BadInput(
                f"scores of {len(self.scores)} examples from {searched} failures, but train has {len(train)} and "
                f"{many(len(failures), 'failure is', 'failures are')} searched with; identify_with; "
                "pass the sets it was made for"
            )
        start = Point(train.network.params)
        edited = None if self.edited is None else Point(train.network.weights({**start.mean, **self.edited}, "edited"))
        known = (self.scores, self.raw, self.before)
        return Influence(*known, train, failures, start, edited, self.members, self.unseen)


@dataclass(frozen=True, eq=False, repr=False)
class Influence:
    """Scores of D, in its order: higher is more harmful to the failures.

    `raw` is r̃ in nats, before any weighing; `before` is log p(z|θ̂) of each example. By default
    several `members` scored them; `unseen` is then the probability of each failure's own label under
    edits that were not shown it.
    """

    scores: np.ndarray
    raw: np.ndarray
    before: np.ndarray
    train: Factor
    failures: Factor
    start: Posterior
    edited: Posterior | None = None
    members: tuple[MemberWeight, ...] = ()
    unseen: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def wrong(self) -> int:
        """How many of D must be wrong, as far as members that count show it; 0 where they do not."""
        return round(len(self) * max((m.wrong for m in self.members if m.weight), default=0))

    @property
    def identified(self) -> Identified:
        """What is worth keeping of it."""
        weights = None if self.edited is None else self.leaning
        return Identified(self.scores, self.raw, self.before, weights, self.members, self.unseen)

    def _repr_html_(self) -> str:
        """In a notebook: the strongest causes, beside the failures they conflict with."""
        from amends.report.notebook import influence_html

        return influence_html(self)

    @cached_property
    def leaning(self) -> Params:
        """The weights with the failures inserted, which give the label the model then leans to. A tangent has a
        direction and no length: the length that makes the failures most likely is taken."""
        start = self.start.mean
        if not isinstance(self.edited, Linearised):
            return start if self.edited is None else self.edited.mean
        along = self.edited.direction
        far = float(flatten(start).norm() / flatten(along).norm().clamp(min=1e-30)) or 1.0
        ways = [plus(start, along, far * 2.0**-k) for k in range(HALVINGS)]
        likely = [float(self.failures.per_example(way).double().sum()) for way in ways]
        return ways[int(np.nanargmax(likely))]

    def __repr__(self) -> str:
        first = ", ".join(f"{i}: {self.scores[i]:.3g}" for i in np.argsort(-self.scores, kind="stable")[:5])
        harmful = int((self.scores > 0).sum())
        on = f"{many(len(self), 'example')} on {many(len(self.failures), 'failure')}"
        return f"Influence of {on}; {harmful} above 0; highest {first}"

    def top(self, k: int) -> np.ndarray:
        """Indices of the k most harmful, most harmful first."""
        return top(self.scores, k)

    def fraction(self, share: float) -> np.ndarray:
        """Indices of the most harmful share of D, most harmful first."""
        return fraction(self.scores, share)

    def positive(self) -> np.ndarray:
        """Indices of all with a positive score: Algorithm 1 as printed, about half of D; by default nearly all."""
        return positive(self.scores)

    @property
    def flat(self) -> int | None:
        """In how many directions of the parameters D has no curvature; None where the method does not measure that."""
        return self.start.precision.flat if isinstance(self.start, Gaussian) else None

    def frame(self) -> pd.DataFrame:
        """All of D, most harmful first, with what the model says before and after the edit."""
        from amends.tables.frames import causes_frame

        return causes_frame(self, np.argsort(-self.scores, kind="stable"))


@entry
def identify(
    model: nn.Module,
    train: Any,
    failures: Any,
    remaining: Any = None,
    *,
    method: Method | Scorer | Default | ArrayLike | None = None,
    likelihood: Any = None,
    seed: int = 0,
    device: Any = None,
    batch_size: int = 256,
    progress: bool | None = None,
) -> Influence:
    """Which training examples stand behind the failures: a score for each, higher = more harmful.

    `remaining` are held-out examples the model gets right. `method` may also be scores from
    elsewhere, one for each training example. The model and the data stay as they are.
    """
    given = prepare(model, likelihood, device, batch_size, train=train, failures=needed(failures), remaining=remaining)
    train, failed, right = given["train"], given["failures"], given.get("remaining")
    if method is None or isinstance(method, Default):
        for known in (failed, right):
            together(train, known)
    with Progress.shown(progress) as shown:
        for note in train.network.notes:
            shown.note(note)
        announce_search(method, train, len(failed), 0 if right is None else len(right), shown)
        return identified(train, failed, right, method, whole(seed), shown)


def identified(
    train: Factor, failures: Factor, remaining: Factor | None,
    method: Method | Scorer | Default | Identified | ArrayLike | None, seed: int, progress: Progress,
) -> Influence:  # fmt: skip
    """`identify`, once model and data have been made into evidence; in the precision of the weights."""
    if isinstance(method, Identified):
        return method.of(train, failures)
    if isinstance(method, Influence):
        raise BadInput(
            "an influence was found with all of its failures, and a repair needs others that judge; identify_with; "
            "pass its scores if these are other failures, or leave it out"
        )
    if isinstance(method, list) or hasattr(method, "__array__"):
        method = scores_from_elsewhere(method)
    with torch.autocast(train.network.device.type, enabled=False):
        if method is None or isinstance(method, Default):
            known, shown = Evaluated.of(train), Evaluated.of(failures)
            finite(shown.log_p, LOG_P, failures)
            before = finite(known.log_p, LOG_P, train)
            scored = by_default(method or Default(), known, shown, remaining, seed, progress)
        else:
            finite(failures.per_example(failures.network.params), LOG_P, failures)
            if isinstance(method, Method):
                scored, log_p = by_edit(method, train, failures, remaining, seed, progress)
                before = finite(log_p, LOG_P, train)
            else:
                before = finite(train.per_example(train.network.params), LOG_P, train)
                scored = _by_scorer(method, train, failures)
    scores = finite(scored.scores, SCORE, train)
    raw = scores if scored.raw is scored.scores else finite(scored.raw, SCORE, train)
    return Influence(scores, raw, before, train, failures, scored.start, scored.edited, scored.members, scored.unseen)


def by_default(
    default: Default, train: Evaluated, failures: Evaluated, remaining: Factor | None, seed: int, progress: Progress,
    known: Rows | None = None,
) -> Scored:  # fmt: skip
    members, settings = committee(default, train.data, remaining)
    return decide(members, train, failures, remaining, seed, progress, settings, known)


def by_edit(
    method: Method,
    train: Factor,
    failures: Factor,
    remaining: Factor | None,
    seed: int,
    progress: Progress,
    part: slice | None = None,
) -> tuple[Scored, Tensor]:
    """Scores by a method that edits, and log p(z|θ̂), of D or of a part of it."""
    progress.say("remembering")
    q = method.remember(train, remaining)
    shown, watch = failures, None
    if method.hold:
        shown, watch = held_out(failures, method.hold, seed)
    counter = progress.counter("inserting the failures")
    evidence = method.evidence(train, shown)
    edited = follow(method.editor(q, evidence), watch, patience=method.patience, progress=counter)
    progress.say("scoring")
    here = train if part is None else train[part]
    if method.score is first_order:
        log_p, raw = in_one_reading(q, edited, here)
    else:
        log_p, raw = here.per_example(here.network.params), method.score(q, edited, here)
    ceiling = here.network.likelihood.ceiling(here.examples.y).to(log_p)
    return Scored(method.weigh(raw, (ceiling - log_p).clamp(min=0)), raw, q, edited), log_p


def held_out(failures: Factor, hold: float, seed: int = 0) -> tuple[Factor, HeldOut]:
    """The failures an edit is shown, and a watch on the others."""
    fit, held = split(np.zeros(len(failures)), hold, seed)
    if not len(held) or not len(fit):
        raise BadInput(
            f"{many(len(failures), 'failure')} cannot be split to hold out {hold:.0%}; failures; pass more of them"
        )
    return failures[fit], HeldOut(failures[held])


def _by_scorer(scorer: Any, train: Factor, failures: Factor) -> Scored:
    ours = isfunction(scorer) and scorer.__module__.startswith("amends.methods")
    if ours or isinstance(scorer, type | torch.nn.Module) or not callable(scorer):
        named, known = getattr(scorer, "__name__", repr(scorer)), ", ".join(f"{k}()" for k in BY_NAME)
        raise BadInput(f"method is {named}; it is not an object of amends.methods; pass one of {known}")
    scores = torch.as_tensor(scorer(train, failures))
    if scores.shape != (len(train),):
        raise BadInput(
            f"the method returns {list(scores.shape)}, not [{len(train)}]; method; return one score per example"
        )
    return Scored(scores, scores, Point(train.network.params), None)
