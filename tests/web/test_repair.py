"""From decisions to an accepted repair: a process of its own that outlives page and server, kept and compared."""

from __future__ import annotations

import io
import shutil
import time
import zipfile

import pandas as pd
import pytest
import torch
from safetensors.torch import load

from amends.runs.manifest import damage
from amends.runs.run import Run
from tests import reported
from tests.projects import BAG, amends
from tests.web.conftest import reviewed
from tests.web.test_decisions import decide, picture, rows


def ended(page, number):
    for _ in range(1200):
        job = page.get(f"/api/jobs/{number}").json()
        if job["state"] != "running":
            return job
        time.sleep(0.1)
    raise AssertionError(job)


def contents(folder):
    """Every file a search wrote, but for causes.csv."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "causes.csv"
            and p.relative_to(folder).parts[0] not in ("review", "repairs")}  # fmt: skip


def test_decisions_become_a_repair_that_outlives_the_server_and_is_accepted(copy):
    """With rows removed, relabelled and kept, a cut, and a failure that leaves the query."""
    folder = copy("texts")
    before = contents(folder)
    with reviewed(folder) as page:
        page.post("/api/person", json={"name": "Ana"})
        listed = [row for row in rows(page, given="sad") if "rain" in row["own"]["review"]]
        relabelled, removed, kept = ([r["index"] for r in part] for part in (listed[:8], listed[8:30], listed[30:32]))
        decide(page, relabelled, "relabel", new_label="glad")
        decide(page, removed, "remove")
        decide(page, kept, "keep")
        cut = page.post("/api/cut", json={"cut": 12}).json()
        wanted = {r["index"] for r in rows(page, copies="all") if r["effective"] in ("remove", "relabel")}
        assert cut["counts"]["removed"] == len(wanted)
        failure = page.get("/api/failures").json()["rows"][0]["index"]
        page.post("/api/mark", json={"index": failure, "wrong": True})
        searched = page.get("/api/failures").json()["total"]
        answer = page.post("/api/jobs", json={"kind": "repair", "learn": False})
        assert (answer.status_code, answer.json()["state"], answer.json()["repair"]) == (202, "running", 1)
        assert page.post("/api/jobs", json={"kind": "curve"}).status_code == 409
    with reviewed(folder) as page:  # another server
        job = ended(page, 1)
        assert (job["state"], job["error"]) == ("done", None), page.get("/api/jobs/1").json()
        assert any("step" in line or "of" in line for line in page.get("/api/jobs/1").json()["lines"])
        made = Run.sound(folder / "repairs/1")
        result = page.get("/api/repairs/1").json()
        assert result["verdict"] == made.metrics["verdict"] != "not repaired", result["reason"]
        assert (result["removed"], result["marked"], result["query"]["n"]) == (len(wanted), 1, searched - 1)
        assert "left out" in made.about["run"]["rule"]
        dataset = {name: made.dataset(name) for name in ("removed", "relabelled", "kept")}
        assert set(dataset["relabelled"]["index"]) == set(relabelled)
        assert set(dataset["relabelled"]["label"]) == {"glad"}
        assert {*dataset["removed"]["index"], *dataset["relabelled"]["index"]} == wanted
        assert set(kept) <= set(dataset["kept"]["index"])
        assert made.failures().set_index("index")["part"][failure] == ""
        _accepted(page)
        _taken_away(page, made)
        _patched(page, made)
    assert contents(folder) == before  # the run itself stays as it was
    assert not list(damage(folder))
    _handed_on(folder, relabelled, removed)
    assert amends("runs", "rm", folder, "--yes") == 0
    assert not folder.exists()


def _handed_on(folder, relabelled, removed):
    """What got a new label has it in the exported data, and the repaired model takes it for that."""
    assert amends("export", folder / "repairs/1", "--to", "csv", "-o", folder.parent / "clean.csv", "--trust") == 0
    cleaned = pd.read_csv(folder.parent / "clean.csv", dtype=str).set_index("key")
    named = [f"{i:04d}" for i in relabelled]
    assert set(cleaned["mood"][named]) == {"glad"}
    assert not set(cleaned.index) & {f"{i:04d}" for i in removed}
    module: dict = {}
    exec(BAG, module)
    x = torch.stack([module["bag"](text) for text in cleaned["review"][named]])
    at = Run.open(folder).config.folder / "model.safetensors", folder / "repairs/1/repaired/model.safetensors"
    glad = []
    for path in at:
        model = module["build"]()
        model.load_state_dict(load(path.read_bytes()))
        glad.append(model(x).softmax(1)[:, 0].mean().item())
    assert glad[1] > max(0.5, glad[0] + 0.2), glad


def _accepted(page):
    assert page.get("/api/repairs").json()["rows"][0]["accepted"] is None
    for said, note in ((True, "looks right"), (None, ""), (False, "no")):
        answer = page.post("/api/accept", json={"repair": 1, "accepted": said, "note": note}).json()
        row = page.get("/api/repairs/1").json()
        assert (answer["changed"], row["accepted"], row["note"]) == (1, said, note)
    assert page.get("/api/repairs").json()["rows"][0]["accepted"] is False
    trail = page.get("/api/trail").json()["rows"]
    assert [r["text"] for r in trail[:3]] == ["repair 1 rejected: no", "repair 1 left open",
                                              "repair 1 accepted: looks right"]  # fmt: skip
    unusable = {"accepted": ["yes", 1], "note": ["x" * 3000, 3], "repair": ["1", True, -1, 7]}
    for name, value in ((name, value) for name, values in unusable.items() for value in values):
        answer = page.post("/api/accept", json={"repair": 1, "accepted": True, "note": "", name: value})
        assert answer.status_code == (404 if value == 7 else 400), (name, value)
    assert page.get("/api/trail").json()["rows"] == trail
    both = page.get("/api/compare", params={"one": 1, "other": 1}).json()
    assert both["results"] == {}
    assert page.get("/api/compare", params={"one": 1, "other": 9}).status_code == 404
    assert page.get("/api/compare", params={"one": "x", "other": 1}).status_code == 400


def _taken_away(page, made):
    weights = page.get("/export/repairs/1/weights").content
    stored = (made.folder / "repaired/model.safetensors").read_bytes()
    assert weights == stored
    assert load(weights)
    with zipfile.ZipFile(io.BytesIO(page.get("/export/repairs/1/data").content)) as packed:
        assert packed.namelist() == ["kept.csv", "relabelled.csv", "removed.csv"]
        assert packed.read("kept.csv") == (made.folder / "dataset/kept.csv").read_bytes()
    assert not list((page.review.folder / "review").glob("*.zip"))
    shown = page.get("/export/repairs/1/report.html")
    assert shown.text == (made.folder / "report.html").read_text()
    assert "sandbox" in shown.headers["content-security-policy"]
    assert page.get("/export/repairs/1/causes.csv").text == (made.folder / "causes.csv").read_text()
    for wrong in ("1/run.toml", "1/model", "2/data", "0/data"):
        assert page.get(f"/export/repairs/{wrong}").status_code == 404


def _patched(page, made):
    """The repair as a small file: the same figures as in its report, and it can be taken away."""
    assert (made.patch, page.get("/api/repairs/1").json()["patch"]) == ({}, None)
    assert page.get("/export/repairs/1/patch").status_code == 404
    for wrong in ({}, {"repair": 7}, {"repair": "1"}, {"repair": -1}):
        assert page.post("/api/jobs", json={"kind": "patch", **wrong}).status_code in (400, 404), wrong
    begun = page.post("/api/jobs", json={"kind": "patch", "repair": 1}).json()
    assert (begun["kind"], begun["repair"]) == ("patch", 1)
    job = ended(page, begun["number"])
    assert job["state"] == "done", job["error"]
    shown, told = page.get("/api/repairs/1").json()["patch"], Run.sound(made.folder).patch
    assert shown == {**told, "file": True}
    assert [layer["name"] for layer in shown["layers"]]
    assert all(0 < layer["changed"] <= 1 and layer["moved"] > 0 for layer in shown["layers"])
    stored = page.get("/export/repairs/1/patch").content
    assert (len(stored), stored[8:9]) == (shown["bytes"], b"{")
    assert "The patch" in page.get("/export/repairs/1/report.html").text
    assert page.post("/api/jobs", json={"kind": "patch", "repair": 1}).status_code == 400
    assert page.get("/api/trail").json()["rows"][0]["text"] == "the patch of repair 1 ended"


def test_a_repair_is_cancelled_and_one_that_fails_says_why_and_nothing_is_left(copy):
    folder = copy("texts")
    with reviewed(folder) as page:
        for kind, said in (("repair", "nothing is to be removed"), ("paint", "there is no job 'paint'")):
            answer = page.post("/api/jobs", json={"kind": kind})
            assert answer.status_code == 400
            assert said in answer.json()["error"]["what"]
        assert page.post("/api/jobs", json={"kind": "repair", "learn": "yes"}).status_code == 400
        page.post("/api/cut", json={"cut": 9})
        assert page.post("/api/jobs", json={"kind": "repair"}).status_code == 202
        page.post("/api/jobs/1/cancel", json={})
        job = ended(page, 1)
        assert (job["state"], job["error"], job["left"]) == ("cancelled", None, None)
        model = page.review.run.config.folder / "model.safetensors"
        kept = model.read_bytes()
        model.unlink()
        try:
            assert page.post("/api/jobs", json={"kind": "repair"}).json()["repair"] == 2
            job = ended(page, 2)
        finally:
            model.write_bytes(kept)
        assert job["state"] == "failed"
        assert "model.safetensors" in job["error"]["what"] + job["error"]["where"]
        assert job["error"]["todo"]
        assert page.get("/api/jobs/3").status_code == 404
        assert page.get("/api/repairs").json() == {"rows": []}
        assert [r["text"] for r in page.get("/api/trail").json()["rows"]][:2] == [
            "repair 2 failed", "repair 2 begun: 9 removed or relabelled",
        ]  # fmt: skip
        assert not [p for p in (folder / "repairs").glob("*") if p.is_dir()]


@pytest.fixture(scope="module")
def made_in_python(tmp_path_factory):
    return reported.saved(reported.rows(), tmp_path_factory.mktemp("python") / "run")


@pytest.fixture
def in_python(made_in_python, tmp_path):
    """A repair made in Python: no config says how to make another."""
    return shutil.copytree(made_in_python, tmp_path / "run")


def test_a_finished_run_is_shown_with_its_own_result(in_python):
    with reviewed(in_python) as page:
        about = page.get("/api/run").json()
        assert about["repair"].startswith("the run was made in Python")
        metrics = Run.open(in_python).metrics
        assert about["cut"] == about["counts"]["by_cut"] == about["total"] == metrics["removed"]
        assert page.post("/api/jobs", json={"kind": "repair"}).status_code == 400
        (own,) = page.get("/api/repairs").json()["rows"]
        assert (own["number"], own["verdict"], own["removed"]) == (0, metrics["verdict"], metrics["removed"])
        shown = page.get("/api/repairs/0").json()
        assert shown["metrics"]["confusion"] == metrics["confusion"]
        assert [r["index"] for r in shown["fixed_rows"]] == metrics["fixed_at"][:40]
        assert all(r["predicted_after"] == r["label"] != r["predicted"] for r in shown["fixed_rows"])
        assert [r["index"] for r in shown["broken_rows"]] == metrics["broken_at"][:40]
        curve = page.get("/api/curve").json()
        assert curve["chosen"] == metrics["removed"]
        assert {row["by"] for row in curve["rows"]} == {"causes", "nothing", "random"}
        assert page.get("/export/repairs/0/data").status_code == 200
        first = rows(page)[0]
        decide(page, [first["index"]], "keep")
        page.review.follow()
    table = pd.read_csv(in_python / "causes.csv", dtype=str, keep_default_na=False)
    assert table["decision"].tolist() == ["keep"] + ["remove"] * (len(table) - 1)


def test_all_that_was_done_is_undone_in_its_order_accepting_and_rejecting_too(in_python):
    """And done again, and gone back to, by a server that was started anew."""
    with reviewed(in_python) as page:
        page.post("/api/person", json={"name": "Ana"})
        first = [row["index"] for row in rows(page)]
        failure = page.get("/api/failures").json()["rows"][0]["index"]
        steps = [
            ("decide", {"indices": first[5:6], "decision": "keep"}),
            ("accept", {"repair": 0, "accepted": True, "note": "looks right", "key": "once"}),
            ("cut", {"cut": 5}),
            ("accept", {"repair": 0, "accepted": False, "note": "looks right"}),
            ("mark", {"index": failure, "wrong": True}),
            ("accept", {"repair": 0, "accepted": False, "note": "too few " * 30}),
            ("accept", {"repair": 0, "accepted": None, "note": ""}),
            ("restore", {"to": 2}),
            ("decide", {"indices": first[6:8], "decision": "remove"}),
        ]  # fmt: skip
        pictures = [judged(page)]
        for route, body in steps:
            answer = page.post(f"/api/{route}", json=body)
            assert (answer.status_code, answer.json()["changed"] > 0) == (200, True), answer.text
            assert judged(page) != pictures[-1], body
            pictures.append(judged(page))
        assert pictures[8] == pictures[2]
        assert page.post("/api/accept", json=steps[1][1]).json()["changed"] == 1  # its answer was lost; it counts once
        assert page.post("/api/accept", json={"repair": 0, "accepted": True, "note": "looks right"}).json()[
            "changed"] == 0  # fmt: skip
        assert judged(page) == pictures[-1]
    with reviewed(in_python) as page:
        said = [page.get("/api/run").json()["undo"]]
        for before in reversed(pictures[:-1]):
            said.append(page.post("/api/undo", json={}).json()["undo"])
            assert judged(page) == before
        assert page.post("/api/undo", json={}).status_code == 409
        short = f"the run itself rejected: {'too few ' * 9}too …"
        assert [s for s in said if s and s.startswith("the run")] == [
            "the run itself left open", short, "the run itself rejected: looks right",
            "the run itself accepted: looks right",
        ]  # fmt: skip
        for after in pictures[1:]:
            assert page.post("/api/redo", json={}).status_code == 200
            assert judged(page) == after
        for line, was in enumerate(pictures):
            page.post("/api/restore", json={"to": line})
            assert judged(page) == was, line


def judged(page):
    """All that can be decided, and what was said of the result."""
    row = page.get("/api/repairs/0").json()
    return picture(page), row["accepted"], row["note"], row["by"]
