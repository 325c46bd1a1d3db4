"""Step II: q(θ) / p(C|θ), Eq. approx_data_deletion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from torch import nn

from amends.algorithm.decisions import corrected, new_labels
from amends.algorithm.identify import held_out
from amends.algorithm.selection import indices
from amends.editors import PATIENCE, Adam, Editor, Guard, Mode, Right, Watch, finer, follow, harmless, open_ended
from amends.errors import BadInput, NonFinite
from amends.evidence.averaged import Averaged
from amends.evidence.factor import Factor
from amends.evidence.finite import LOG_P, finite
from amends.evidence.params import Params, large
from amends.evidence.prepare import entry, prepare, whole
from amends.likelihoods import Categorical
from amends.methods import Default, Method
from amends.posteriors import Ensemble, Posterior
from amends.progress import Progress

FLOOR = 0.02  # how far the guard of a deletion lets the share that is right fall
FINER_TRIES = 3  # how often a deletion whose every step costs more than that is tried again in shorter steps
LATER = 50  # the seed number of a fit that is continued; refits have 0, 1 and 2


class Fitted(Protocol):
    """Called for every fit in turn, with bytes that identify its inputs: makes the fit, or returns a stored one."""

    def __call__(self, of: bytes, fit: Callable[[], Params]) -> Params: ...


def at_once(of: bytes, fit: Callable[[], Params]) -> Params:
    return fit()


def again(method: Method, number: int) -> Method:
    """The same treatment with other random numbers; the same object where it has none."""
    editor = _reseeded(method.editor, number) if number and is_dataclass(method.editor) else method.editor
    return method if editor is method.editor else method._replace(editor=editor)


def shortened(method: Method, share: float) -> Method:
    """The same treatment in fewer passes over D; the same object where it does not count passes."""
    editor = method.editor
    climb = getattr(editor, "climb", None)
    if share == 1 or not isinstance(editor, Mode) or not isinstance(climb, Adam):
        return method
    return method._replace(editor=replace(editor, climb=replace(climb, epochs=share * climb.epochs)))


def going_on(method: Method, share: float) -> Method:
    """The method that continues a treatment where it ended, in a share of its passes, with other random numbers."""
    return again(shortened(method, share), LATER + method.learn)


def _reseeded(part: Any, number: int) -> Any:
    changes = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if field.name == "seed":
            changes["seed"] = value + 1009 * number
        elif is_dataclass(value) and not isinstance(value, type):
            inner = _reseeded(value, number)
            if inner is not value:
                changes[field.name] = inner
    return replace(part, **changes) if changes else part


def treatment(
    q: Posterior,
    editor: Editor,
    causes: Factor,
    watch: Watch | None = None,
    learn: Factor | None = None,
    progress=None,
    patience: int = PATIENCE,
) -> Posterior:
    """Delete the causes; with `learn`, insert that evidence in the same edit."""
    evidence = -causes if learn is None else (-causes) + learn
    return follow(editor(q, evidence), watch, patience=patience, progress=progress)


@entry
def treat(
    model: nn.Module,
    train: Any,
    causes: Any,
    *,
    failures: Any = None,
    remaining: Any = None,
    method: Method | Default | None = None,
    likelihood: Any = None,
    seed: int = 0,
    device: Any = None,
    batch_size: int = 256,
    progress: bool | None = None,
) -> nn.Module:
    """A copy of the model that has forgotten the causes.

    `causes` are positions in train, a mask over it, or a table such as `result.causes`, whose decisions are followed:
    `remove`, `keep`, or `relabel` with a `new_label`. Deletion without an
    optimum is guarded: it goes no further than `remaining` (or what is kept of train) allows, and if `failures`
    are given it ends where most of them are right. Only a method with `learn` also learns from them.
    Without a `method` the model trains further on what is kept, at a lower rate where the usual one makes it
    forget what is kept.
    """
    given = prepare(model, likelihood, device, batch_size, train=train, failures=failures, remaining=remaining)
    data = given["train"]
    at, labels = indices(causes, len(data), data.examples.names()), new_labels(causes, data, "causes")
    with Progress.shown(progress) as shown:
        ways = [corrected(m, labels, data) if isinstance(m, Method) else m for m in _ways(method, seed, data)]
        sets = given.get("failures"), given.get("remaining")
        ends = [partial(treated, data, at, *sets, way, shown) for way in ways]
        kept = data.without(data.ids[at])
        try:
            after = harmless(ends, kept)
        except NonFinite:
            finite(kept.per_example(data.network.params), LOG_P, kept)  # names the example, where it was so before
            raise
    network = data.network
    if isinstance(after, Ensemble) and after.centre is None:
        if not isinstance(model, nn.Module):
            raise BadInput(f"several models cannot go back into one {type(model).__name__}; model; pass its module")
        models = [network.module_with(member.mean, model) for member in after.members]
        return Averaged(models, classes=isinstance(network.likelihood.family, Categorical)).train(model.training)
    return network.module_with(after.mean, model)


def _ways(method: Any, seed: int, train: Factor) -> list[Any]:
    """The methods to try in turn: the one named; or the default's, at its usual rate and then at lower ones."""
    if method is not None and not isinstance(method, Default):
        return [method]
    method, of = method or Default(), (whole(seed), len(train), large(train.network.params))
    return [method.treating(*of), *method.shorter(*of)]


def treated(
    train: Factor,
    causes: np.ndarray,
    failures: Factor | None,
    remaining: Factor | None,
    method: Method,
    progress: Progress,
    keep: tuple[Factor, ...] = (),
) -> Posterior:
    """`treat`, once model and data have been made into evidence."""
    if not isinstance(method, Method):
        raise BadInput(
            f"method is {method!r}, which does not treat; pass an object of amends.methods that does, such as "
            "amends.methods.newton()"
        )
    if len(causes) == len(train):
        raise BadInput("causes are all of train; nothing is left to learn from; keep at least one example")
    if method.learn and (failures is None or not len(failures)):
        raise BadInput("the method learns from the failures; there are none; pass failures")
    forgotten = train[causes] if method.forget else train[causes][:0]
    learned = failures if method.learn else None
    counter = progress.counter(f"forgetting {len(causes)}")
    q = method.remember(train, remaining)
    watch = None
    if open_ended(method.editor, q, -forgotten):
        kept = [remaining] if remaining is not None and len(remaining) else [train + (-forgotten)]
        watch = _watch(method, q, failures, [*kept, *keep])
    editor = method.editor
    after = treatment(q, editor, forgotten, watch, learned, counter, method.patience)
    for _ in range(FINER_TRIES):
        editor = finer(editor) if isinstance(watch, Guard) and after is q else None
        if editor is None:
            break
        after = treatment(q, editor, forgotten, watch, learned, counter, method.patience)
    for k, v in after.mean.items():
        if not v.isfinite().all():
            raise NonFinite(f"NaN or infinity in the repaired weights; {k}; use a smaller step or another method")
    return after


def _watch(method: Method, q: Posterior, failures: Factor | None, kept: list[Factor]) -> Watch:
    """When a deletion stops: once most failures are right, within the guard; or, as printed, by held-out failures."""
    if method.guarded:
        return Guard.since(q, kept, FLOOR, Right(failures) if failures is not None and len(failures) else None)
    if failures is None:
        raise BadInput("the method holds out failures to know when to stop; there are none; pass failures")
    return held_out(failures, method.hold)[1]
