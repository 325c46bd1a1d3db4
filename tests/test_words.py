"""Plain words, and numbers that agree with their nouns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import amends
from amends.errors import many
from amends.report.page import report
from tests.report.html import Page
from tests.worlds import QUICK, lines

ROOT = Path(amends.__file__).parent.parent
OBSCURE = (
    "by then", "mend it", "mind this", "taken for whom", "of train set apart", "would do as well has p",
)  # fmt: skip
PLURALS = r"\b1 (failures|examples|right examples|classes|groups|files|rows|seconds|minutes|more are|are)\b"


@pytest.mark.parametrize("folder", ["amends", "docs"])
def test_no_words_that_a_reader_has_to_guess(folder):
    pages = [p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".md", ".pyi") and "results" not in p.parts]
    assert len(pages) > 20
    found = [f"{p.name}: {words}" for p in pages for words in OBSCURE if words in p.read_text(encoding="utf-8").lower()]
    assert found == []


def test_a_number_agrees_with_its_noun_and_its_verb():
    assert [many(n, "failure") for n in (0, 1, 2, 1200)] == ["0 failures", "1 failure", "2 failures", "1,200 failures"]
    assert [many(n, "class is", "classes are") for n in (1, 3)] == ["1 class is", "3 classes are"]


def test_one_of_everything_is_one(tmp_path, capsys):
    """Two failures, of which one judges, two right examples, and one cause."""
    net, train, (x, y), (u, v) = lines()
    few = (net, train, (x[:2], y[:2]), (u[:2], v[:2]))
    result = amends.repair(*few, **{**QUICK, "remove": 1}, anyway=True, progress=True)
    result.save(tmp_path / "run")
    said = [repr(result), capsys.readouterr().err, (tmp_path / "run/repaired/README.md").read_text()]
    page = Page(report(tmp_path / "run"))
    said.append(page.text(page.root))
    assert "1 failure judges" in said[1]
    for text in said:
        assert re.findall(PLURALS, text) == []
