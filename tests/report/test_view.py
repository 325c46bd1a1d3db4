"""Which of the causes a report is about."""

from __future__ import annotations

import pandas as pd

from amends.report.page import report
from tests.report.html import Page


def test_only_what_was_removed_counts_as_a_cause_after_a_search(copy, result):
    frame = pd.read_csv(copy / "causes.csv")
    kept = frame.assign(decision=["remove", "keep", ""] * (len(frame) // 3) + [""] * (len(frame) % 3))
    kept.to_csv(copy / "causes.csv", index=False)
    page = Page(report(copy))
    assert len(page.all("article")) == (kept["decision"] == "remove").sum()
