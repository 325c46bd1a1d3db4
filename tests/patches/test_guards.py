"""What a short form of a patch costs, by what guarded the repair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from amends.evaluation.predictions import right
from amends.patches import guards as guarding
from amends.patches import make
from amends.patches.guards import Guards, crossings, margins
from amends.progress import Progress
from tests.patches.test_small import of


def test_each_half_is_looked_at_with_what_was_fitted_to_the_other(result, monkeypatch):
    """Against a count by hand, of every margin with every shift: with the model as it came for one half, and the
    repaired weights for the other."""
    split, given = result.split, dict(result.given)
    sets = [given["failures"][split.query], split.guarding(given)]
    share, start = split.sets(given).share, given["train"].network.params
    guards = Guards(*sets, share, result.after)
    monkeypatch.setattr(guarding, "CHANGED", 1.0)
    assert guards.cost([result.after] * 2).small
    for fitted, unseen in (([start, result.after], slice(1, None, 2)), ([result.after, start], slice(0, None, 2))):
        loss = variance = changed = 0.0
        for data, weight in zip(sets, (share, 1 - share), strict=True):
            was, now = margins(data, result.after), margins(data, result.after)
            now[unseen] = margins(data[unseen], start)
            for sign in (1, -1):
                pairs = [[sign * (a + d) < 0 for d in (now - was)[sign * was > 0]] for a in was[sign * was > 0]]
                if pairs:
                    table, part = np.array(pairs, dtype=float), weight * len(pairs) / len(data)
                    loss += sign * part * table.mean()
                    changed += part * table.mean()
                    variance += part**2 * (table.mean(0).var() + table.mean(1).var()) / len(pairs)
        assert loss > 0.005
        cost = guards.cost(fitted)
        assert (cost.loss, cost.error, cost.changed) == pytest.approx((loss, variance**0.5, changed))
        for limit, holds in ((loss + variance**0.5 + 1e-9, True), (loss + variance**0.5 - 1e-9, False)):
            monkeypatch.setattr(guarding, "LOSS", limit)
            assert guards.cost(fitted).small == holds


def test_failures_of_other_groups_count_as_well(result):
    """Of a repair of one group: those of the others that neither searched nor judge, each as much as one of its own,
    and a loss on them in full, since none of them was learned."""
    part = result.split.only({"1→7"})
    given, share = dict(result.given), result.split.sets(dict(result.given)).share
    assert set(part.unasked) == set(result.split.query) - set(part.query)
    assert not set(part.unasked) & {*part.holdout, *part.other_groups}
    assert len(result.split.unasked) == 0
    assert set(part.without(part.query[:1]).unasked) == set(part.unasked)
    guards = of(result, split=part).shorter.guards
    assert guards.unasked is not None
    start = given["train"].network.params
    few, whole = (replace(guards, counts=counts).cost([start] * 2) for counts in (0.0, 1.0))
    at = np.concatenate([part.query, part.unasked])
    right_now, was = (right(given["failures"][part.unasked], theta) for theta in (start, result.after))
    assert was.mean() > 0.2
    assert right_now.mean() == 0
    assert few.loss == pytest.approx(share * len(part.unasked) / len(at) * was.mean(), rel=0.2)  # by pairs, not counted
    assert few.loss < whole.loss


def test_what_was_learned_by_heart_does_not_count(result):
    """Of the four failures in ten and the right examples that count six: forgetting gained 4/10 · .5 − 6/10 · .1, and
    with learning 4/10 · .8 − 6/10 · .05. A loss on them counts as much less; what is chance in it, and an answer that
    changes, do not."""
    rows = [{"by": by, "removed": 5, "query": query, "guard": guard, "holdout": 0.0, "remaining": 0.0}
            for by, query, guard in (("nothing", 0.1, 1.0), ("causes", 0.5, 0.9),
                                     ("causes, failures learned", 0.8, 0.95))]  # fmt: skip
    metrics = {**result.metrics, "removed": 5, "learned": True, "curve": [*rows, {**rows[1], "removed": 9}]}
    assert make.not_by_heart(metrics, 0.4) == pytest.approx(0.14 / 0.29)
    assert make.not_by_heart({**metrics, "learned": False}, 0.4) == 1.0
    assert make.not_by_heart(result.metrics, 0.4) == 1.0
    alone = [{**row, "guard": None} for row in rows]
    assert make.not_by_heart({**metrics, "curve": alone}, 0.4) == pytest.approx(5 / 8)
    guards = of(result, metrics=metrics).shorter.guards
    assert guards.counts == make.not_by_heart(metrics, guards.share)
    start = result.given["train"].network.params
    less, all_of_it = (one.cost([start, start]) for one in (guards, replace(guards, counts=1.0)))
    assert all_of_it.loss > 0.1
    assert less.loss == pytest.approx(guards.counts * all_of_it.loss)
    assert (less.error, less.changed) == (all_of_it.error, all_of_it.changed)


def test_one_half_is_enough_to_see_that_a_form_is_large(result, monkeypatch):
    """Fits that end where they began: with nothing moved one is made, with the longest form two."""
    from amends.patches import small as form

    made, fits = of(result).shorter, []
    monkeypatch.setattr(form, "refitted", lambda start, moves, teacher, on_step: fits.append(teacher) or moves)
    assert made.cost({}, Progress()).large
    assert len(fits) == 1
    assert made.cost(made.levels()[-1], Progress()).small
    assert len(fits) == 3


def test_a_margin_says_whether_an_answer_is_right(result):
    """And by how much, against the log-probabilities themselves."""
    data = result.given["remaining"]
    for theta in (result.after, data.network.params):
        found = margins(data, theta)
        assert ((found > 0) == right(data, theta)).all()
        logs = data.network.outputs(theta, data.examples.x).double().log_softmax(1).detach().numpy()
        for i in range(0, len(data), 40):
            true = int(data.examples.y[i])
            assert found[i] == pytest.approx(logs[i, true] - np.delete(logs[i], true).max())


def test_all_pairs_say_as_much_with_less_noise():
    """1,000 draws of 300 answers of which 1 % change: the same mean as by counting, less spread, and a standard
    error that fits the spread."""
    rng = np.random.default_rng(0)
    counted, paired, errors = [], [], []
    for _ in range(1000):
        margin, shift = rng.exponential(1.0, 300), rng.normal(0, 0.025, 300)
        counted.append((margin + shift < 0).mean())
        share, error = crossings(margin, shift)
        paired.append(share)
        errors.append(error)
    assert np.mean(paired) == pytest.approx(np.mean(counted), abs=3 * np.std(counted) / 1000**0.5)
    assert np.std(paired) < 0.85 * np.std(counted)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(paired), rel=0.15)
