"""Groups, classes, calibration, sets to keep and rounds."""

from __future__ import annotations

from amends.report.markup import share
from amends.report.tables import members
from amends.report.view import View
from tests import reported
from tests.report.html import changed


def test_groups_classes_calibration_and_keep(page, result):
    m = result.metrics
    groups = page.table(page.section("groups"), "by group")
    largest = max(m["groups"].values(), key=lambda row: row["n"])
    assert groups[1][1:4] == [str(largest["n"]), share(largest["before"]), share(largest["after"])]
    assert len(page.all("tr", page.section("groups"))) >= 1 + len(m["groups"])
    classes = {r[0]: r[1:] for r in page.table(page.section("classes"), "true class")}
    for name, row in m["classes"].items():
        assert classes[name][:3] == [str(row["n"]), share(row["before"]), share(row["after"])]
    errors = page.table(page.section("calibration"), "confidence")[1]
    assert errors[1:] == [f"{m['calibration'][k]['error']:.3f}" for k in ("before", "after")]
    (name,) = m["keep"]
    kept = page.table(page.section("keep"), "must hold")[1]
    assert kept[:3] == [name, share(m["keep"][name]["before"]), share(m["keep"][name]["after"])]


def test_classes_stand_in_the_order_of_the_matrices_and_one_that_was_harmed_is_marked(copy):
    page = changed(copy, harmed=["four"])
    named = [row[0] for row in page.table(page.section("classes"), "true class")[1:]]
    assert named == [n if n != "four" else "four ▼ harmed" for n in reported.DIGITS]
    matrix = page.table(page.section("confusion"), "Before")
    assert [row[0] for row in matrix[1:]] == list(reported.DIGITS)
    assert "Accuracy fell beyond chance (5% level over all classes) on: four." in page.text(page.section("classes"))


def test_groups_repaired_in_turn_have_a_table(copy):
    row = {"groups": ["9→4"], "verdict": "repaired", "reason": "good", "fixed": 3, "n": 5, "removed": 9}
    row |= {"learned": True, "p_value": 0.01}
    page = changed(copy, rounds=[row, row | {"groups": ["1→7"]}])
    table = page.table(page.section("curve"), "one after the other")
    assert [r[0] for r in table[1:]] == ["9→4", "1→7"]
    assert table[1][2] == "3 of 5"
    assert not page.all("line", class_="chosen")


def test_the_table_of_members_says_what_its_numbers_are():
    rows = [{"name": "ewc", "found": 0.25, "unseen": 0.5, "weight": 1.0, "refused": ""}]
    made = members(View("", {}, {}, [], [], 0, {}, rows))
    assert "share of train above right labels" in made
    assert "25.0%" in made
