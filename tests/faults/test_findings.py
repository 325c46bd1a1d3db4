"""A repair that is refused hands over what its search found."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import amends
from amends.errors import BadInput
from tests import projects
from tests.report.html import Page


@pytest.fixture(scope="module")
def refused(tmp_path_factory, planted):
    """Seven failures are enough to search with, and too few to judge: the folder of that run."""
    folder = tmp_path_factory.mktemp("refused")
    projects.digits_project(folder)
    config = folder / "amends.toml"
    named = np.flatnonzero(planted[2][1].numpy() == 1)[:7].tolist()
    config.write_text(
        config.read_text() + f'method = "ewc"\ntop = 20\nlearn = false\n\n[failures]\nindices = {named}\n'
    )
    assert projects.amends("repair", config, "-o", folder / "run", "-q") == 0
    assert json.loads((folder / "run/metrics.json").read_text())["verdict"] == "not repaired"
    return folder / "run"


def test_the_ranking_is_kept_with_nothing_decided(refused, planted):
    causes = pd.read_csv(refused / "causes.csv", keep_default_na=False)
    wrong = planted[4]
    assert len(causes) == len(wrong)
    assert set(causes["decision"]) == {""}
    assert causes["score"].is_monotonic_decreasing
    assert wrong[causes["index"][:20]].mean() > 3 * wrong.mean()
    assert (causes["p_given_after"] != causes["p_given"]).any(), "what the search learned is kept too"
    assert json.loads((refused / "metrics.json").read_text())["removed"] == 0
    assert (refused / "dataset/removed.csv").read_text().splitlines() == ["index,id,given"]


def test_the_report_shows_it_and_says_so(refused):
    page = Page((refused / "report.html").read_text())
    part = page.section("causes")
    assert "Nothing was removed: this is the ranking of all of train" in page.text(part)
    assert len(page.all("article", part)) == 60


def test_the_card_does_not_call_it_repaired(refused):
    lines = (refused / "repaired/README.md").read_text().splitlines()
    assert "- repaired" not in lines
    assert "# A model that was not repaired" in lines
    assert any(line.startswith("Nothing: the weights beside this card are those that were given.") for line in lines)


def test_exports_hand_over_the_ranking_and_say_so(refused, tmp_path, capsys):
    for kind in ("label-studio", "cleanlab"):
        assert projects.amends("export", refused, "--to", kind, "-o", tmp_path / kind) == 0
        assert "not repaired, so nothing was removed: the examples are ranked" in capsys.readouterr().err
    tasks = json.loads((tmp_path / "label-studio").read_text())
    assert [t["meta"]["rank"] for t in tasks] == list(range(1, 301))
    assert {t["meta"]["decision"] for t in tasks} == {""}


def test_in_python_too_and_it_is_not_mistaken_for_a_decision(planted, result):
    net, train, failures, remaining, _ = planted
    few = tuple(v[:4] for v in failures)
    options = {"identify_with": result.influence.scores, "remove": 20, "treat_with": amends.methods.fine_tune(epochs=1)}
    refused = amends.repair(net, train, few, remaining, **options)
    assert refused.verdict == "not repaired"
    assert refused.causes["index"].tolist() == np.argsort(-result.influence.scores, kind="stable").tolist()
    assert set(refused.causes["decision"]) == {""}
    assert "of 300" in refused._repr_html_()
    with pytest.raises(BadInput, match="the table holds all of train, and no row says remove or relabel; causes"):
        amends.treat(net, train, refused.causes)
    amends.treat(net, train, refused.causes.head(20), method=amends.methods.fine_tune(epochs=1))
