"""Markup in which everything is escaped, and numbers as a person reads them."""

from __future__ import annotations

import pytest

from amends.report.markup import Html, probability, tag


def test_whatever_is_not_markup_is_escaped():
    assert tag("p", "<b>", Html("<i>x</i>"), title='"&') == '<p title="&quot;&amp;">&lt;b&gt;<i>x</i></p>'
    assert tag("th", None, class_=None, hidden=True, aria_label="a") == '<th hidden aria-label="a"></th>'


@pytest.mark.parametrize(("value", "text"), [(0.0004, "<0.001"), (0.9999, ">0.999"), (1.0, "1.000"), (None, "–")])
def test_probabilities_are_never_rounded_to_certainty(value, text):
    assert probability(value) == text
