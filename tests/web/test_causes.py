"""causes.csv: written after every change, and what another tool wrote into it taken in."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from amends.web import causes
from tests.web.conftest import reviewed
from tests.web.test_decisions import decide, rows


def table(folder):
    return pd.read_csv(folder / "causes.csv", dtype=str, keep_default_na=False)


def edit(folder, change):
    """As another tool would: read, change, write."""
    frame = table(folder)
    change(frame)
    frame.to_csv(folder / "causes.csv", index=False)


def settled(page):
    """Once the keeper has looked at the file."""
    for _ in range(100):
        if not causes.changed(page.review.table):
            return page.get("/api/run").json()
        time.sleep(0.05)
    raise AssertionError("the file was never looked at")


def test_the_file_follows_every_change_word_for_word(copy):
    folder = copy("texts")
    before = table(folder)
    with reviewed(folder) as page:
        at = [row["index"] for row in rows(page)]
        decide(page, at[:1], "remove")
        decide(page, at[1:2], "relabel", new_label="glad")
        decide(page, at[4:5], "keep")
        page.post("/api/cut", json={"cut": 4})
        page.review.follow()
        now = table(folder)
        assert now["decision"].tolist()[:6] == ["remove", "relabel", "remove", "remove", "keep", ""]
        assert now["new_label"].tolist()[:3] == ["", "glad", ""]
        pd.testing.assert_frame_equal(now.drop(columns=["decision", "new_label"]), before.drop(columns="decision"))
        assert page.get("/export/causes.csv").text == (folder / "causes.csv").read_text()
        page.post("/api/restore", json={"to": 0})
        page.review.follow()
        assert set(table(folder)["decision"]) == {""}


def test_the_file_is_written_soon_after_by_itself(page):
    at = rows(page)[0]["index"]
    decide(page, [at], "remove")
    for _ in range(100):
        if table(page.review.folder)["decision"][0] == "remove":
            return
        time.sleep(0.05)
    raise AssertionError("the file was never written")


def test_what_another_tool_decides_is_taken_in_and_said_and_can_be_undone(copy):
    folder = copy("texts")
    with reviewed(folder) as page:
        at = [row["index"] for row in rows(page)]
        page.post("/api/cut", json={"cut": 3})
        decide(page, at[10:11], "keep")
        page.review.follow()

        def change(frame):
            frame.loc[5, "decision"] = " Remove"
            frame.loc[0, "decision"] = ""  # above the cut: to take remove away is to keep it
            frame["new_label"] = ""
            frame.loc[6, ["decision", "new_label"]] = ["relabel", "glad"]
            frame["checked by"] = "Ben"

        edit(folder, change)
        told = settled(page)["told"]
        assert (told["n"], told["text"], told["error"]) == (3, "3 decisions taken in from causes.csv", None)
        found = {row["index"]: row for row in rows(page)}
        assert [found[at[i]]["decision"] for i in (0, 1, 5, 6, 10)] == ["keep", "", "remove", "relabel", "keep"]
        assert found[at[6]]["new_label"] == "glad"
        assert found[at[5]]["by"] == "causes.csv"
        assert found[at[5]]["own"]["checked by"] == "Ben"
        page.post("/api/undo", json={})
        page.review.follow()
        now = table(folder)
        assert now["decision"].tolist()[:7] == ["remove"] * 3 + [""] * 4
        assert now["checked by"].tolist() == ["Ben"] * len(now)


def test_an_edit_made_while_no_page_was_open_is_taken_in_too(copy):
    folder = copy()
    with reviewed(folder) as page:
        decide(page, [rows(page)[2]["index"]], "remove")
    edit(folder, lambda frame: frame.__setitem__("decision", ["keep", *frame["decision"][1:]]))
    with reviewed(folder) as page:
        settled(page)
        assert [row["decision"] for row in rows(page)][:3] == ["keep", "", "remove"]


def test_decisions_of_both_sides_at_once_are_both_kept(page):
    """A tool read the file, the page decided meanwhile, the tool wrote: each wins where it decided."""
    folder, at = page.review.folder, [row["index"] for row in rows(page)]
    theirs = table(folder)
    decide(page, at[:1], "remove")
    page.review.follow()
    theirs.loc[1, "decision"] = "keep"
    theirs.loc[0, "decision"] = "remove"
    theirs.to_csv(folder / "causes.csv", index=False)
    settled(page)
    assert [row["decision"] for row in rows(page)][:2] == ["remove", "keep"]


def test_a_file_that_cannot_be_read_is_left_alone_and_said(page):
    folder, at = page.review.folder, [row["index"] for row in rows(page)]
    page.review.follow()
    edit(folder, lambda frame: frame.__setitem__("decision", ["remov", *frame["decision"][1:]]))
    broken = (folder / "causes.csv").read_text()
    decide(page, at[3:4], "keep")
    page.review.follow()
    told = page.get("/api/run").json()["told"]
    assert told["error"].startswith(f"decision is 'remov'; causes.csv at index {at[0]}; write remove")
    assert (folder / "causes.csv").read_text() == broken
    assert page.post("/api/jobs", json={"kind": "repair"}).status_code == 400
    edit(folder, lambda frame: frame.__setitem__("decision", ["remove", *frame["decision"][1:]]))
    settled(page)
    page.review.follow()
    assert table(folder)["decision"].tolist()[:4] == ["remove", "", "", "keep"]
    assert page.get("/api/run").json()["told"]["error"] is None


def upload(page, text):
    return page.post("/api/upload", content=text.encode(), headers={"content-type": "text/csv"})


def test_one_csv_of_decisions_can_be_sent(copy):
    with reviewed(copy("texts")) as page:
        page.post("/api/person", json={"name": "Cem"})
        first = rows(page)
        text = f"id,decision,new_label\n{first[0]['id']},remove,\n{first[1]['id']},relabel,glad\n"
        answer = upload(page, text).json()
        assert (answer["changed"], answer["counts"]["remove"], answer["counts"]["relabel"]) == (2, 1, 1)
        assert rows(page)[0]["by"] == "Cem"
        assert page.get("/api/trail").json()["rows"][0]["kind"] == "upload"
        answer = upload(page, f"\ufeffindex;decision\n{first[0]['index']};\n{first[2]['index']};KEEP\n").json()
        assert [row["decision"] for row in rows(page)][:3] == ["", "relabel", "keep"]
        page.post("/api/undo", json={})
        assert [row["decision"] for row in rows(page)][:3] == ["remove", "relabel", ""]


@pytest.mark.parametrize(("text", "said"), [
    ("decision\nkeep\n", "there is no column index or id"), ("index\n1\n", "column decision is missing"),
    ("index,decision\n999999,keep\n", "no cause has the index '999999'"),
    ("index,decision\n1,burn\n", "decision is 'burn'"), ("index,decision\n1,keep\n1,remove\n", "two rows decide"),
    ("index,decision,new_label\n1,relabel,d77\n", "there is no class 'd77'"), ("\x00\x01", "decision is missing"),
    ("", "the upload is damaged"),
])  # fmt: skip
def test_a_csv_that_cannot_be_used_changes_nothing(page, text, said):
    answer = upload(page, text)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["error"]["what"]
    assert "/" not in answer.json()["error"]["where"]
    assert page.get("/api/trail").json()["total"] == 0
