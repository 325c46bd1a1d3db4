"""How a run was made, and how to make it again."""

from __future__ import annotations

import re

from amends.report.page import report
from tests.report.html import Page


def test_settings_versions_and_how_to_make_it_again(copy):
    path = copy / "run.toml"
    path.write_text(
        path.read_text() + '\n[config.repair]\nmethod = "ewc"\nholdout = 0.5\n[config.model]\noptions = { a = "<b>" }\n'
    )
    text = report(copy)
    page = Page(text)
    part = page.section("method")
    settings = dict(page.table(part, "as they were used")[1:])
    assert settings == {"repair.method": "ewc", "repair.holdout": "0.5", "model.options.a": "<b>"}
    about = dict(page.table(part, "The run")[1:])
    assert {"amends", "torch", "Python", "device", "seed"} <= set(about)
    assert re.fullmatch(r"[0-9a-f]{64}", next(r for r in page.table(part, "made from") if r[0] == "train")[2])
    assert "amends repair digits/run.toml -o digits-again" in page.text(page.all("pre", part)[0])
    assert "amends report digits" in page.text(page.all("pre", part)[0])
    assert "not a privacy guarantee" in page.text(page.all("footer")[0])
