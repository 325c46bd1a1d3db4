"""Why so many were removed, in words a person understands."""

from __future__ import annotations

import re

import amends
from tests.worlds import cheaply, nonsense_digits


def test_a_curve_says_what_it_tried_and_what_decided(result):
    tried = sorted({row["removed"] for row in result.metrics["curve"] if row["by"] == "causes"})
    said = result.metrics["chosen"]
    assert result.metrics["removed"] in tried
    assert said.startswith(f"the {result.metrics['removed']} highest scores of 300: of the {len(tried)} numbers tried")
    assert re.search(r"\(([\d, ]+)\)", said)[1] == ", ".join(map(str, tried))
    assert "clearly better on the failures searched with and the right examples that guard" in said


def test_what_was_asked_for_or_picked_is_said_so(planted, result):
    quick = {"learn": False, "treat_with": amends.methods.fine_tune(epochs=2)}
    asked = amends.repair(*planted[:4], **cheaply(result, **quick))
    assert asked.metrics["chosen"] == "the 45 highest scores, as many as were asked for"
    picked = amends.repair(*planted[:4], **cheaply(result, **quick, remove=result.removed))
    assert picked.metrics["chosen"] == f"the {len(result.removed)} examples picked by a person"


def test_a_refusal_says_that_nothing_was_removed():
    quick = {"treat_with": amends.methods.fine_tune(epochs=1), "learn": False, "remove": 10, "anyway": True}
    refused = amends.repair(*nonsense_digits(), identify_with=amends.methods.random(0), **quick)
    assert refused.verdict == "not repaired"
    said = "nothing, though this was tried: the 10 highest scores, as many as were asked for; see the verdict"
    assert refused.metrics["chosen"] == said
