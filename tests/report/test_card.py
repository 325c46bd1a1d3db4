"""The model card beside the repaired weights."""

from __future__ import annotations

import pytest

from amends.evaluation.words import of
from amends.report.card import card


def made(metrics, **changed):
    return card({**metrics, **changed}, version="1.2", rule="the 27 highest scores").splitlines()


def test_it_says_what_failed_what_was_removed_and_what_came_of_it(result):
    m = result.metrics
    lines = made(m)
    assert lines[:5] == ["---", "tags:", "- amends", "- repaired", "---"]
    assert f"**{m['verdict'].capitalize()}.** {m['reason']}." in lines
    assert f"{m['removed']} training examples, by this rule: the 27 highest scores." in lines
    for name in ("holdout", "remaining", "overall", "evaluation"):
        row = m[name]
        assert f"| {name}: {of(name, m['learned'])} | {row['before']:.3f} | {row['after']:.3f} | {row['n']} |" in lines
    for learned, said in (
        (True, "including those it learned from |"),
        (False, "including those used to search |"),
    ):
        assert any(said in line for line in made(m, learned=learned))
    assert f"Fixed: {m['fixed']}. Newly broken: {m['newly_broken']}." in lines
    nothing = m["controls"]["nothing"]["holdout"]
    assert f"- nothing removed: accuracy {nothing:.3f} on the holdout failures" in lines
    assert not any("fell" in line or "also learned" in line or "Warning" in line for line in lines)


def test_what_got_worse_and_what_to_mind_is_said(result):
    lines = made(result.metrics, harmed=["four", "two"], learned=True, warnings=["too few; failures; give 40"])
    assert "Accuracy fell on: four, two." in lines
    assert "Warning: Too few; failures; give 40." in lines
    assert any(line.startswith("The model also learned from the query failures") for line in lines)


@pytest.mark.parametrize(("reason", "end"), [("were they swapped?", "were they swapped?"), ("good", "good.")])
def test_a_sentence_ends_once(reason, end, result):
    line = next(line for line in made(result.metrics, reason=reason) if line.startswith("**"))
    assert line.lower().endswith(f"** {end}")
