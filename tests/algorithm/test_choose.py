"""How to forget, how many to remove, and whether to learn from the failures as well."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import amends
from amends.algorithm import choose, fitting
from amends.algorithm.curve import CAUSES, LEARNED, NOTHING, RANDOM, Rule
from amends.data import split
from amends.errors import NotConverged
from amends.settings import DEFAULT, Curve, Learning
from tests.algorithm.points import kinds_of_points
from tests.worlds import TRAIN, cheaply, same_weights


def choosing(monkeypatch, usual, *others):
    monkeypatch.setattr(amends.methods.Default, "treating", lambda self, *_: usual)
    monkeypatch.setattr(amends.methods.Default, "otherwise", lambda self, *_: others)


def refusing(train, remaining):
    raise NotConverged("not today; newton; try another")


def test_the_way_to_forget_is_the_one_that_fixes_most(planted, result, monkeypatch):
    works, still = amends.methods.fine_tune(epochs=10), amends.methods.fine_tune(rate=0.0, epochs=1)
    choosing(monkeypatch, works)
    plain = amends.repair(*planted[:4], **cheaply(result, learn=False))
    assert plain.verdict != "not repaired"
    for usual, others in ((still, (works,)), (works, (still,)), (works, (works._replace(remember=refusing),))):
        choosing(monkeypatch, usual, *others)
        made = amends.repair(*planted[:4], **cheaply(result, learn=False))
        assert made.metrics["holdout"] == plain.metrics["holdout"]
        assert same_weights(made.model, plain.model)


def test_a_way_that_breaks_what_worked_is_not_taken(planted, result, monkeypatch):
    """It learns the failures by heart, so that more is right as a whole. Where broken examples cost more, or there is a
    floor, that is no gain."""
    works, by_heart = amends.methods.fine_tune(epochs=10), amends.methods.fine_tune(rate=3e-3, epochs=60, learn=True)
    for careful in ({"broken_costs": 10.0}, {"floor": 0.01}):
        options = cheaply(result, learn=False, **careful)
        choosing(monkeypatch, works)
        plain = amends.repair(*planted[:4], **options)
        choosing(monkeypatch, works, by_heart)
        assert same_weights(amends.repair(*planted[:4], **options).model, plain.model)
        monkeypatch.undo()


def test_what_was_fitted_to_choose_how_is_not_fitted_again(planted, result, monkeypatch):
    fitted = []
    treating = fitting.treated

    def noting(train, causes, failures, remaining, method, *rest):
        climb = method.editor.climb
        fitted.append((causes.tobytes(), climb.rate, climb.seed, climb.epochs))
        return treating(train, causes, failures, remaining, method, *rest)

    monkeypatch.setattr(fitting, "treated", noting)
    for usual, other in ((1e-3, 0.0), (0.0, 1e-3)):
        choosing(monkeypatch, *(amends.methods.fine_tune(rate, epochs=1) for rate in (usual, other)))
        fitted.clear()
        amends.repair(*planted[:4], identify_with=result.influence.scores, learn=False)
        assert len(fitted) == len(set(fitted)) >= 10


def test_only_forgetting(planted, result):
    repair = amends.repair(*planted[:4], **cheaply(result, learn=False, floor=0.1))
    assert repair.metrics["learned"] is False
    assert kinds_of_points(repair) == {NOTHING, CAUSES, RANDOM}


def test_learning_as_well(planted, result):
    repair = amends.repair(*planted[:4], **cheaply(result, learn=True, floor=0.1))
    assert kinds_of_points(repair) == {NOTHING, CAUSES, RANDOM, LEARNED}
    assert repair.verdict != "not repaired", repair
    assert repair.metrics["learned"] is True
    (forgot,) = (row for row in repair.metrics["curve"] if row["by"] == CAUSES)
    assert repair.metrics["query"]["after"] > forgot["query"]
    assert set(repair.metrics["controls"]) == {NOTHING, RANDOM}


def test_learning_where_nobody_said_so_must_be_safe(planted, result, monkeypatch):
    monkeypatch.setattr(Rule, "safe", lambda self, point: point.by != LEARNED)
    kept = amends.repair(*planted[:4], **cheaply(result))
    assert kinds_of_points(kept) == {NOTHING, CAUSES, RANDOM}
    only = amends.repair(*planted[:4], **cheaply(result, learn=False))
    assert json.dumps(kept.metrics) == json.dumps(only.metrics)
    assert LEARNED in kinds_of_points(amends.repair(*planted[:4], **cheaply(result, learn=True)))


def test_a_large_model_is_fitted_less_often(planted, result, monkeypatch):
    """Once at every size, with a random control beside the chosen one alone."""
    monkeypatch.setattr(amends.evidence.params, "LARGE", 1)
    known = {"identify_with": result.influence.scores, "treat_with": amends.methods.fine_tune()}
    curve = amends.repair(*planted[:4], **known, learn=True).metrics["curve"]
    assert {row["refits"] for row in curve} == {1}
    (control,) = (row["removed"] for row in curve if row["by"] == RANDOM)
    assert control in [row["removed"] for row in curve if row["by"] == CAUSES]


def test_what_judges_is_fitted_again_only_where_one_fit_leaves_doubt(planted, result, monkeypatch):
    """Beside all of its controls, with other random numbers; what is handed back is the first fit either way."""
    known = cheaply(result, treat_with=amends.methods.fine_tune(epochs=10), learn=True)
    first = amends.repair(*planted[:4], **known)
    assert {row["refits"] for row in first.metrics["curve"]} == {1}
    assert first.metrics["p_value"] <= DEFAULT.curve.clear
    strict = replace(DEFAULT, curve=replace(DEFAULT.curve, clear=first.metrics["p_value"] / 2))
    monkeypatch.setattr(amends.methods.Default, "settings_for", lambda self, large: strict)
    again = amends.repair(*planted[:4], **known)
    refits = {(row["by"], row["refits"]) for row in again.metrics["curve"]}
    assert refits == {(NOTHING, 2), (CAUSES, 2), (RANDOM, 2), (LEARNED, 1)}  # asked for, so that nothing is tested
    assert same_weights(again.model, first.model)
    for one, two in zip(first.metrics["curve"], again.metrics["curve"], strict=True):
        assert two["holdout_low"] <= one["holdout"] <= two["holdout_high"]
    drawn = next(row for row in again.metrics["curve"] if row["by"] == RANDOM)
    assert any(drawn[f"{name}_low"] < drawn[f"{name}_high"] for name in ("query", "guard", "holdout", "remaining"))


def test_the_default_fits_in_two_parts_and_learning_goes_on_from_there(planted, result, monkeypatch):
    """As `treat` would make them one after the other."""
    plain = replace(DEFAULT, curve=Curve(short=0.25), learning=Learning(failure=1.0, most=0.0, passes=0.5))
    monkeypatch.setattr(amends.methods.Default, "settings_for", lambda self, large: plain)
    choosing(monkeypatch, amends.methods.fine_tune(epochs=8))
    made = {learn: amends.repair(*planted[:4], **cheaply(result, learn=learn, floor=1.0)) for learn in (False, True)}
    assert all(repair.verdict != "not repaired" for repair in made.values())
    model, train, (x, y), _ = planted[:4]
    at, gone = made[True].rounds[0].search.part.query, made[True].removed
    for epochs, number in ((2, 0), (6, 50)):
        model = amends.treat(model, train, gone, method=amends.methods.fine_tune(epochs=epochs, seed=1009 * number))
    assert same_weights(made[False].model, model)
    learning = amends.methods.fine_tune(epochs=4, seed=1009 * 51, learn=True)
    model = amends.treat(model, train, gone, failures=(x[at], y[at]), method=learning)
    assert same_weights(made[True].model, model)


def test_a_method_by_name_is_that_method(planted, result):
    """Whether it is given to `repair` or to `treat`."""
    way = amends.methods.fine_tune(epochs=8)
    made = amends.repair(*planted[:4], **cheaply(result, learn=False, treat_with=way, floor=1.0))
    assert made.verdict != "not repaired"
    assert same_weights(made.model, amends.treat(*planted[:2], made.removed, method=way))


def test_sizes_are_around_the_number_that_must_be_wrong(planted, result):
    """A fifth more, half of that and twice as many, by the member that shows most of those that count; shares of D
    where none shows any."""
    known = result.influence.identified
    shown = [replace(m, wrong=0.1 if m.weight else 0.9) for m in known.members]
    fast = amends.methods.fine_tune(epochs=1)
    for members, expected in ((shown, [18, 36, 72]), ([], [6, 15, 30, 60])):
        options = {"identify_with": replace(known, members=tuple(members)), "treat_with": fast, "learn": False}
        made = amends.repair(*planted[:4], **options)
        assert made.influence.wrong == (TRAIN // 10 if members else 0)
        sizes = [row["removed"] for row in made.metrics["curve"] if row["by"] == CAUSES]
        assert sizes == expected[: len(sizes)]
        assert len(sizes) > 2


def test_right_examples_that_guard_are_learned_with_the_failures(planted, result, monkeypatch):
    """A right one twice as heavy as a failure; never what judges."""
    settings, taught = replace(DEFAULT, learning=Learning(failure=3.0, right=6.0)), []
    monkeypatch.setattr(amends.methods.Default, "settings_for", lambda self, large: settings)
    treating = fitting.treated

    def noting(train, causes, failures, remaining, method, *rest):
        if method.learn:
            taught.append((set(failures.ids.tolist()), float(failures.weights.sum()) / 3))
        return treating(train, causes, failures, remaining, method, *rest)

    monkeypatch.setattr(fitting, "treated", noting)
    repair = amends.repair(*planted[:4], **cheaply(result, learn=True, treat_with=amends.methods.fine_tune(epochs=1)))
    given, query = repair.given, repair.rounds[0].search.part.query
    guard = given["remaining"].ids[split(planted[3][1].numpy(), 0.5, 0)[0]]
    every = {*given["failures"].ids[query].tolist(), *guard.tolist()}
    assert taught == [(every, len(query) + 2 * len(guard))]
    taught.clear()
    settings = replace(DEFAULT, learning=Learning(failure=3.0, right=6.0, most=0.1))
    amends.repair(*planted[:4], **cheaply(result, learn=True, treat_with=amends.methods.fine_tune(epochs=1)))
    assert taught[-1][1] == len(query) + 2 * (TRAIN // 10)


@pytest.mark.parametrize(("wrong", "most", "size"), [(1, 90, 1), (100, 90, 90), (30, 90, 36), (0, 300, 30)])
def test_how_to_forget_is_tried_with_as_many_as_must_be_wrong(planted, result, monkeypatch, wrong, most, size):
    """Or the nearest there is; a middle size where nobody knows."""
    known, tried = result.influence.identified, []
    scores = np.where(np.arange(TRAIN) < most, 1.0 + np.arange(TRAIN)[::-1], -1.0)
    members = tuple(replace(m, wrong=wrong / TRAIN) for m in known.members)
    monkeypatch.setattr(choose.Chooser, "_once", lambda self, method, n: tried.append(n) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        amends.repair(*planted[:4], identify_with=replace(known, scores=scores, members=members))
    assert tried == [size]
