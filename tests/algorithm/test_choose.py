"""How to forget, how many to remove, and whether to learn from the failures as well."""

from __future__ import annotations

import json
from dataclasses import replace

import amends
from amends.algorithm import choose
from amends.algorithm.curve import CAUSES, LEARNED, NOTHING, NOTHING_LEARNED, RANDOM, Rule
from amends.algorithm.objective import Objective
from amends.data import split
from amends.errors import NotConverged
from amends.settings import DEFAULT, Learning
from tests.algorithm.points import kinds_of_points
from tests.worlds import TRAIN, cheaply, same_weights


def choosing(monkeypatch, usual, *others):
    monkeypatch.setattr(amends.methods.Default, "treating", lambda self, *_: usual)
    monkeypatch.setattr(amends.methods.Default, "otherwise", lambda self, *_: others)


def refusing(train, remaining):
    raise NotConverged("not today; newton; try another")


def test_the_way_to_forget_is_the_one_that_fixes_most(planted, result, monkeypatch):
    works, still = amends.methods.fine_tune(epochs=10), amends.methods.fine_tune(rate=0.0, epochs=1)
    plain = amends.repair(*planted[:4], **cheaply(result, learn=False, treat_with=works))
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
        plain = amends.repair(*planted[:4], **options, treat_with=works)
        choosing(monkeypatch, works, by_heart)
        assert same_weights(amends.repair(*planted[:4], **options).model, plain.model)
        monkeypatch.undo()


def test_what_was_fitted_to_choose_how_is_not_fitted_again(planted, result, monkeypatch):
    fitted = []
    treating = choose.treated

    def noting(train, causes, failures, remaining, method, *rest):
        fitted.append((causes.tobytes(), method.editor.climb.rate, method.editor.climb.seed))
        return treating(train, causes, failures, remaining, method, *rest)

    monkeypatch.setattr(choose, "treated", noting)
    for usual, other in ((1e-3, 0.0), (0.0, 1e-3)):
        choosing(monkeypatch, *(amends.methods.fine_tune(rate, epochs=1) for rate in (usual, other)))
        fitted.clear()
        amends.repair(*planted[:4], identify_with=result.influence.scores, learn=False)
        assert len(fitted) == len(set(fitted)) > 10


def test_only_forgetting(planted, result):
    repair = amends.repair(*planted[:4], **cheaply(result, learn=False, floor=0.1))
    assert repair.metrics["learned"] is False
    assert kinds_of_points(repair) == {NOTHING, CAUSES, RANDOM}


def test_learning_as_well(planted, result):
    repair = amends.repair(*planted[:4], **cheaply(result, learn=True, floor=0.1))
    assert kinds_of_points(repair) == {NOTHING, CAUSES, RANDOM, LEARNED, NOTHING_LEARNED}
    assert repair.verdict != "not repaired", repair
    assert repair.metrics["learned"] is True
    (forgot,) = (row for row in repair.metrics["curve"] if row["by"] == CAUSES)
    assert repair.metrics["query"]["after"] > forgot["query"]
    assert repair.metrics["controls"][NOTHING_LEARNED]["removed"] == 0


def test_learning_where_nobody_said_so_must_be_safe(planted, result, monkeypatch):
    monkeypatch.setattr(Rule, "safe", lambda self, point: point.by != LEARNED)
    kept = amends.repair(*planted[:4], **cheaply(result))
    assert kinds_of_points(kept) == {NOTHING, CAUSES, RANDOM}
    only = amends.repair(*planted[:4], **cheaply(result, learn=False))
    assert json.dumps(kept.metrics) == json.dumps(only.metrics)
    assert LEARNED in kinds_of_points(amends.repair(*planted[:4], **cheaply(result, learn=True)))


def test_learning_where_nobody_said_so_must_do_as_much_as_forgetting_within_an_error(planted, result, monkeypatch):
    monkeypatch.setattr(Rule, "safe", lambda self, point: True)
    monkeypatch.setattr(Objective, "error", lambda self, *_: 0.01)
    for lead, expected in ((0.009, True), (0.011, False), (-1.0, True)):
        monkeypatch.setattr(Rule, "worth", lambda self, p, lead=lead: (
            lead * (getattr(p, "by", CAUSES) == CAUSES) + float(getattr(p, "removed", 1) > 0)))  # fmt: skip
        repair = amends.repair(*planted[:4], **cheaply(result))
        assert (LEARNED in kinds_of_points(repair)) is expected


def test_a_large_model_is_fitted_less_often(planted, result, monkeypatch):
    """Once at every size, with a random control beside the chosen one alone, and learning at two sizes."""
    monkeypatch.setattr(amends.evidence.params, "LARGE", 1)
    tried = []
    trying = choose.Chooser._learned_by_halves
    monkeypatch.setattr(
        choose.Chooser, "_learned_by_halves", lambda self, causes: tried.append(len(causes)) or trying(self, causes)
    )
    known = {"identify_with": result.influence.scores, "treat_with": amends.methods.fine_tune()}
    repair = amends.repair(*planted[:4], **known, learn=True)
    curve = repair.metrics["curve"]
    assert {row["refits"] for row in curve} == {1}
    sizes = [row["removed"] for row in curve if row["by"] == CAUSES]
    (control,) = (row["removed"] for row in curve if row["by"] == RANDOM)
    assert control in sizes
    assert tried == [0, *[k for k in sizes if k <= control][-2:]]


def test_right_examples_that_guard_are_learned_with_the_failures(planted, result, monkeypatch):
    """Halves of both as heavy as the whole, then the whole, a right one twice a failure; never what judges."""
    settings, taught = replace(DEFAULT, learning=Learning(failure=3.0, right=6.0, sizes=1)), []
    monkeypatch.setattr(amends.methods.Default, "settings_for", lambda self, large: settings)
    treating = choose.treated

    def noting(train, causes, failures, remaining, method, *rest):
        if method.learn:
            taught.append((set(failures.ids.tolist()), float(failures.weights.sum()) / 3))
        return treating(train, causes, failures, remaining, method, *rest)

    monkeypatch.setattr(choose, "treated", noting)
    repair = amends.repair(*planted[:4], **cheaply(result, learn=True, treat_with=amends.methods.fine_tune(epochs=1)))
    given, query = repair.given, repair.rounds[0].search.part.query
    guard = given["remaining"].ids[split(planted[3][1].numpy(), 0.5, 0)[0]]
    every = {*given["failures"].ids[query].tolist(), *guard.tolist()}
    halves, whole, heavy = taught[:4], taught[4:], len(query) + 2 * len(guard)
    assert len(whole) == 3 + 1  # what is handed back three times, its control once
    assert all(seen == every and weight == heavy for seen, weight in whole)
    for (one, a), (other, b) in (halves[:2], halves[2:]):
        assert one | other == every
        assert not one & other
        assert a + b == 2 * heavy
    taught.clear()
    settings = replace(DEFAULT, learning=Learning(failure=3.0, right=6.0, sizes=1, most=0.1))
    amends.repair(*planted[:4], **cheaply(result, learn=True, treat_with=amends.methods.fine_tune(epochs=1)))
    assert taught[-1][1] == len(query) + 2 * (TRAIN // 10)
    assert sum(weight for _, weight in taught[:2]) == 2 * taught[-1][1]
