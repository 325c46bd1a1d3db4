"""What judges a repair: failures that are none, copies of one another, or too few."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import amends
from amends.errors import BadInput
from tests import projects
from tests.worlds import cheaply, right

CHEAP = {"treat_with": amends.methods.fine_tune(epochs=2), "learn": False}


def joined(*sets):
    return tuple(torch.cat(parts) for parts in zip(*sets, strict=True))


def part(data, at):
    return tuple(v[at] for v in data)


def test_what_is_right_already_is_no_failure(planted, result):
    """15 right examples among 45 failures are neither searched with nor counted as fixed."""
    net, train, failures, remaining, _ = planted
    mixed = joined(part(remaining, slice(15)), part(failures, slice(30)))
    repair = amends.repair(net, train, mixed, part(remaining, slice(15, None)), **cheaply(result, **CHEAP))
    m = repair.metrics
    assert m["already_right"] == 15
    assert m["query"]["before"] == m["holdout"]["before"] == 0.0
    assert m["query"]["n"] + m["holdout"]["n"] == 30
    assert set(m["fixed_at"]) <= set(range(15, 45))
    assert m["fixed"] == round(m["holdout"]["after"] * m["holdout"]["n"])
    assert "the model already gets 15 of the 45 failures right" in m["warnings"][0]
    share = 30 / (30 + len(remaining[0]) - 15)
    assert m["overall"]["before"] == pytest.approx(1 - share)


def test_failures_that_are_all_right_are_refused(planted):
    net, train, failures, remaining, _ = planted
    with pytest.raises(BadInput, match=r"gets all of the \d+ failures right; failures; .* swapped\?") as caught:
        amends.repair(net, train, remaining, failures)
    assert "\n" not in str(caught.value)


def test_the_whole_evaluation_set_is_told_whatever_was_named(tmp_path, monkeypatch, capsys, planted):
    """Ten of 77 failures are named; the user's accuracy is over all 500."""
    projects.digits_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = Path("amends.toml").read_text() + 'method = "grad_dot"\ntop = 30\nlearn = false\n'
    named = np.flatnonzero(planted[2][1].numpy() == 1)[:10].tolist()
    Path("amends.toml").write_text(f"{text}\n[failures]\nindices = {named}\n")
    assert projects.amends("repair", "-o", "run", "-q", "--json") == 0
    m = json.loads(capsys.readouterr().out)
    assert m["evaluation"]["n"] == 500
    assert m["evaluation"]["before"] == pytest.approx(423 / 500)
    assert m["overall"]["before"] > 0.95
    assert any(w.startswith("the model gets 67 more examples of the evaluation set wrong") for w in m["warnings"])


def test_all_that_was_given_is_the_evaluation_set(planted, result):
    net, _, failures, remaining, _ = planted
    both = joined(failures, remaining)
    n = len(both[0])
    shares = {"before": right(net, both).mean(), "after": right(result.model, both).mean()}
    assert result.metrics["evaluation"] == {**shares, "n": n}
    assert f"{n} held-out examples, including" in repr(result)


def test_copies_of_one_failure_are_one_witness(planted, result):
    """Once this was repaired with p = 7e-12."""
    net, train, failures, remaining, _ = planted
    fixed = result.metrics["fixed_at"][0]
    many = part(failures, torch.full((77,), fixed))
    repair = amends.repair(net, train, many, remaining, **cheaply(result, **CHEAP))
    m = repair.metrics
    assert repair.verdict == "not repaired"
    assert m["reason"].startswith("cannot tell: ")
    assert m["p_value"] >= 0.5 - 1e-9
    assert m["witnesses"]["holdout"] == 1
    assert any("76 are copies or near copies of others" in w for w in m["warnings"])
    assert m["intervals"]["holdout"][1] > 0.5


def test_copies_judge_together_or_not_at_all(planted, result):
    """A copy of what was searched with, or nearly, does not judge."""
    net, train, failures, remaining, _ = planted
    n = len(failures[0])
    near = failures[0] + 1e-3 * torch.rand(failures[0].shape, generator=torch.Generator().manual_seed(0))
    twice = joined(failures, (near, failures[1]))
    repair = amends.repair(net, train, twice, remaining, **cheaply(result, **CHEAP))
    assert repair.metrics["witnesses"]["query"] + repair.metrics["witnesses"]["holdout"] == n
    query = set(repair.query_positions.tolist())
    assert all((i in query) == (i + n in query) for i in range(n))


@pytest.mark.parametrize("number", [2, 7])
def test_with_few_failures_nobody_can_tell(planted, result, number):
    net, train, failures, remaining, _ = planted
    few = part(failures, slice(number))
    repair = amends.repair(net, train, few, remaining, **cheaply(result, **CHEAP))
    assert repair.verdict == "not repaired"
    reason, judging = repair.metrics["reason"], repair.metrics["holdout"]["n"]
    assert reason.startswith("cannot tell: ")
    assert reason.endswith(f"only {judging} failure{'s judge' if judging > 1 else ' judges'}; give 40 or more")


def test_what_is_random_does_not_help_and_that_is_said(planted, result):
    """With 38 failures to judge with."""
    scores = np.random.default_rng(0).permutation(result.influence.scores)
    repair = amends.repair(*planted[:4], **cheaply(result, identify_with=scores, **CHEAP))
    assert repair.verdict == "not repaired"
    assert repair.metrics["reason"].startswith("the examples found do not help: ")


def test_what_would_break_something_is_said(planted, result):
    net, train, failures, remaining, _ = planted
    with torch.no_grad():
        stubborn = (failures[0], net(failures[0]).argmax(1))
    repair = amends.repair(net, train, failures, remaining, keep=[stubborn], **cheaply(result, **CHEAP))
    assert repair.verdict == "not repaired"
    assert repair.metrics["reason"].startswith("something would be broken: accuracy on keep[0] would be ")
