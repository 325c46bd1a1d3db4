"""What to do next, after a search, a repair and a refusal."""

from __future__ import annotations

from amends.report.page import report
from amends.report.then import next_steps
from tests.report.html import Page, changed

PLAIN = {"config": {"model": {"function": "my_model:build"}}}
DONE = {"removed": 30, "relabelled": 0}


def test_after_a_repair_the_weights_the_patch_the_list_and_the_next_training():
    load, ship, drop, train = next_steps(DONE, PLAIN, "runs/a b")
    assert load.line == "safetensors.torch.load_model(model, 'runs/a b/repaired/model.safetensors')"
    assert ship.line == "amends patch 'runs/a b' -o 'a b.safetensors'"
    assert drop.line == "amends export 'runs/a b' --to csv"
    assert "dataset/removed.csv" in drop.words
    assert "relabelled" not in drop.words
    assert "on what is kept" in train.words
    assert "new labels of 4" in next_steps(DONE | {"relabelled": 4}, PLAIN, "runs/a")[2].words


def test_a_directory_is_loaded_as_it_was():
    for model, what in (({"huggingface": "bert"}, "model"), ({"huggingface": "bert", "adapter": "lora"}, "adapter")):
        load = next_steps(DONE, {"config": {"model": model}}, "runs/a")[0]
        assert f"the repaired {what}: load the directory repaired/" in load.words
        assert not load.line


def test_after_a_refusal_a_person_may_decide():
    _, again = next_steps({"removed": 0}, PLAIN, "runs/a")
    assert again.line == "amends treat runs/a --approved -o runs/a-approved"
    _, again = next_steps({"removed": 0}, {}, "runs/a")
    assert again.line.startswith("amends.repair(model, train, failures, remaining, remove=pandas.read_csv(")


def test_the_report_ends_with_it(page, copy, result):
    assert [s[1]["id"] for s in page.all("section")][-1] == "next"
    assert "repaired/model.safetensors" in page.text(page.section("next"))
    refused = changed(copy, verdict="not repaired", reason="so", removed=0, fixed_at=[], broken_at=[])
    assert "write remove, keep or relabel" in refused.text(refused.section("next"))


def test_the_report_says_how_many_were_removed_and_why(folder, result):
    page = Page(report(folder))
    n = result.metrics["removed"]
    assert f"Removed: the {n} highest scores, as many as were asked for." in page.text(page.section("curve"))
