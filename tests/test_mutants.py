"""What `make mutants` changes is still there to be changed; the changes themselves take half an hour."""

from __future__ import annotations

import pytest

from tests.mutants import CHANGE_NOTHING, LISTED, ROOT, possible


@pytest.mark.parametrize("mutant", LISTED, ids=lambda mutant: mutant.name)
def test_a_listed_change_finds_its_place(mutant):
    text = (ROOT / "amends" / mutant.file).read_text(encoding="utf-8")
    assert mutant.made(text) != text


def test_changes_that_change_nothing_can_still_be_drawn():
    assert set(CHANGE_NOTHING) <= {mutant.name for mutant in possible()}
