"""Counts that are told in words are the same everywhere."""

from __future__ import annotations

from amends.evaluation.words import conflicting


def test_as_many_conflict_as_members_with_a_weight_show_to_be_wrong():
    members = [{"wrong": 0.25, "weight": 0.4}, {"wrong": 0.5, "weight": 0.0}, {"wrong": 0.1, "weight": 0.6}]
    assert conflicting(40, [1.0] * 7, members) == 10


def test_where_they_show_none_it_is_what_has_a_positive_score():
    scores = [3.0, 0.5, 0.0, -1.0]
    assert conflicting(4, scores, []) == 2
    assert conflicting(4, scores, [{"wrong": 0.0, "weight": 1.0}]) == 2
