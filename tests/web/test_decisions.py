"""What a person decides on the page: once each, undone and done again, on record, and never lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from amends.web.load import load
from tests.web.conftest import client_of, opened, reviewed

WAYS = ("remove", "keep", "clear")


def rows(page, **asked):
    answer = page.get("/api/causes", params={"limit": 200, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def decide(page, indices, decision, **more):
    answer = page.post("/api/decide", json={"indices": indices, "decision": decision, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def picture(page):
    """All that can be decided, of every row, the cut and the failures."""
    table = page.review.table
    causes = table.all("select at, decision, new_label, person, seen from causes order by at")
    marks = table.all("select at from failures where marked order by at")
    return [tuple(r) for r in causes], table.cut, [r[0] for r in marks]


def steps(page):
    """One of every kind of change, as (route, body)."""
    first = [row["index"] for row in rows(page)]
    failure = page.get("/api/failures").json()["rows"][0]["index"]
    return [
        ("decide", {"indices": first[:3], "decision": "remove"}),
        ("decide", {"indices": [first[1]], "decision": "keep"}),
        ("decide", {"indices": [first[3]], "decision": "relabel", "new_label": "d1"}),
        ("decide", {"indices": [first[4]], "decision": "skip"}),
        ("decide", {"indices": [first[0]], "decision": "clear"}),
        ("decide", {"filter": {"given": "d4"}, "decision": "keep"}),
        ("decide", {"filter": {"group": "d1→d7"}, "range": [2, 5], "order": "score", "decision": "remove"}),
        ("cut", {"cut": 25}),
        ("mark", {"index": failure, "wrong": True}),
        ("restore", {"to": 2}),
        ("decide", {"indices": first[9:12], "decision": "remove"}),
    ]


def test_every_kind_of_change_is_undone_and_done_again(page):
    pictures = [picture(page)]
    for route, body in steps(page):
        answer = page.post(f"/api/{route}", json=body)
        assert answer.status_code == 200, answer.text
        assert picture(page) != pictures[-1], route
        pictures.append(picture(page))
    for before in reversed(pictures[:-1]):
        assert page.post("/api/undo", json={}).status_code == 200
        assert picture(page) == before
    assert page.post("/api/undo", json={}).status_code == 409
    assert page.get("/api/run").json()["undo"] is None
    for after in pictures[1:]:
        assert page.post("/api/redo", json={}).status_code == 200
        assert picture(page) == after
    assert page.post("/api/redo", json={}).status_code == 409


def test_after_something_new_what_was_undone_is_gone(page):
    first = [row["index"] for row in rows(page)]
    decide(page, first[:1], "remove")
    page.post("/api/undo", json={})
    decide(page, first[1:2], "keep")
    assert page.get("/api/run").json()["redo"] is None
    assert page.post("/api/redo", json={}).status_code == 409


@pytest.mark.parametrize("seed", range(3))
def test_any_line_of_the_trail_can_be_gone_back_to(page, seed):
    """Whatever was undone and done again in between."""
    draw, then = np.random.default_rng(seed), {0: picture(page)}
    for _ in range(40):
        kind = draw.choice(["decide", "undo", "redo", "cut", "restore"], p=[0.4, 0.25, 0.15, 0.1, 0.1])
        body = {
            "decide": {"indices": draw.choice(300, 4).tolist(), "decision": WAYS[draw.integers(3)]},
            "cut": {"cut": int(draw.integers(100))}, "restore": {"to": int(draw.choice(list(then)))},
        }.get(kind, {})  # fmt: skip
        assert page.post(f"/api/{kind}", json=body).status_code in (200, 409)
        then[page.review.table.one("select coalesce(max(id), 0) from actions")] = picture(page)
    for line, was in then.items():
        page.post("/api/restore", json={"to": line})
        assert picture(page) == was, line


def test_the_trail_says_what_when_and_by_whom(page):
    assert page.post("/api/person", json={"name": "Ana Müller"}).json()["person"] == "Ana Müller"
    first, named = rows(page)[0]["index"], rows(page)[0]["id"]
    decide(page, [first], "relabel", new_label="d1")
    page.post("/api/undo", json={})
    trail = page.get("/api/trail").json()
    assert [(r["kind"], r["text"], r["by"], r["undone"]) for r in trail["rows"]] == [
        ("undo", f"undo: relabel {named} as d1", "Ana Müller", False),
        ("decide", f"relabel {named} as d1", "Ana Müller", True),
    ]  # fmt: skip
    assert all(r["when"].endswith("+00:00") for r in trail["rows"])
    page.post("/api/redo", json={})
    assert rows(page)[0]["by"] == "Ana Müller"
    decide(page, [row["index"] for row in rows(page)][:3], "keep")
    assert page.get("/api/trail").json()["rows"][0]["text"] == "keep 3 examples"


def test_two_hundred_keys_in_a_second_count_once_each(page):
    """Even where half of them are sent again because their answer was lost."""
    chosen = [row["index"] for row in rows(page)]
    ways = ["remove", "keep", "skip", "clear"]
    sent = [(i, at) for i, at in enumerate(chosen)] + [(i, at) for i, at in enumerate(chosen) if i % 2]
    with ThreadPoolExecutor(8) as hands:
        done = list(hands.map(lambda s: decide(page, [s[1]], ways[s[0] % 3], key=f"k{s[0]}")["changed"], sent))
    assert done == [1] * len(sent)
    assert page.get("/api/trail").json()["total"] == len(chosen) == 200
    found = {row["index"]: row["decision"] for row in rows(page)}
    assert [found[at] for at in chosen] == [{"skip": ""}.get(ways[i % 3], ways[i % 3]) for i in range(200)]
    assert page.get("/api/run").json()["counts"]["seen"] == 200


def test_two_tabs_see_each_other(page):
    other = client_of(page.review)
    at = rows(other)[0]["index"]
    version = other.get("/api/run").json()["version"]
    decide(page, [at], "remove")
    assert other.get("/api/run").json()["version"] == version + 1
    assert rows(other)[0]["decision"] == "remove"
    assert other.post("/api/undo", json={}).json()["done"] == f"remove {rows(page)[0]['id']}"
    assert rows(page)[0]["decision"] == ""


def test_seen_is_apart_from_decided(page):
    at = [row["index"] for row in rows(page)]
    page.post("/api/seen", json={"indices": at[:5]})
    counts = decide(page, at[5:6], "keep")["counts"]
    assert (counts["seen"], counts["keep"], counts["undecided"]) == (6, 1, 299)
    page.post("/api/decide", json={"filter": {"given": "d0"}, "decision": "keep"})
    assert page.get("/api/run").json()["counts"]["seen"] == 6  # a whole filter was not looked at
    assert {row["index"] for row in rows(page, seen="yes")} == set(at[:6])


def test_near_copies_are_one_card_and_are_decided_once(copy):
    folder = copy()
    with reviewed(folder) as page:
        chosen = [row["index"] for row in rows(page)][:4]
        looks = json.loads((folder / "looks.json").read_text())
        (folder / "looks.json").write_text(json.dumps(looks | {"copies": [chosen]}))
        page.review.table.set("stamp", "of an earlier stage")
        load(page.review.table, page.review.run)
        first = rows(page)[0]
        assert (first["index"], first["copies"]) == (chosen[0], chosen[1:])
        assert page.get("/api/causes").json()["total"] == 297
        assert page.get("/api/causes", params={"copies": "all"}).json()["total"] == 300
        answer = decide(page, [chosen[2]], "remove")
        assert (answer["changed"], answer["indices"], answer["counts"]["remove"]) == (4, chosen, 4)
        page.post("/api/undo", json={})
        assert page.get("/api/run").json()["counts"]["remove"] == 0


@pytest.mark.parametrize(("body", "said"), [
    ({"indices": [1], "decision": "drop"}, "decision is 'drop'"),
    ({"indices": [1], "decision": "relabel"}, "no new label is given"),
    ({"indices": [1], "decision": "relabel", "new_label": "d99"}, "there is no class 'd99'"),
    ({"indices": [1, 999], "decision": "keep"}, "index 999 is not among the causes"),
    ({"indices": ["1"], "decision": "keep"}, "indices holds something else"),
    ({"indices": [True], "decision": "keep"}, "indices holds something else"),
    ({"indices": {}, "decision": "keep"}, "indices is not a list"),
    ({"filter": {"colour": "red"}, "decision": "keep"}, "no filter 'colour'"),
    ({"filter": {}, "range": [1], "decision": "keep"}, "range is not two places"),
    ({"indices": [1], "decision": "keep", "key": 7}, "key is not a short text"),
])  # fmt: skip
def test_what_cannot_be_decided_is_said_and_changes_nothing(page, body, said):
    before = picture(page)
    answer = page.post("/api/decide", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["what"]
    assert answer.json()["error"]["todo"]
    assert picture(page) == before


def test_a_number_is_a_new_label_where_there_are_no_classes(copy):
    with reviewed(copy("rows")) as page:
        at = rows(page)[0]["index"]
        assert decide(page, [at], "relabel", new_label="1")["counts"]["relabel"] == 1
        answer = page.post("/api/decide", json={"indices": [at], "decision": "relabel", "new_label": "one"})
        assert "is not a number" in answer.json()["error"]["what"]


def test_the_cut_counts_and_a_person_counts_more(page):
    at = [row["index"] for row in rows(page)]
    decide(page, at[:2], "keep")
    decide(page, at[30:33], "remove")
    decide(page, at[3:4], "relabel", new_label="d1")
    counts = page.post("/api/cut", json={"cut": 20}).json()["counts"]
    assert (counts["by_cut"], counts["removed"], counts["keep"]) == (17, 17 + 3 + 1, 2)
    assert {row["index"] for row in rows(page, decision="cut")} == {*at[2:3], *at[4:20]}
    assert [row["effective"] for row in rows(page)][:4] == ["keep", "keep", "remove", "relabel"]
    odd = {row["index"] for row in rows(page, disagrees="yes")}
    assert odd == {*at[:2], *at[30:33]} | ({at[3]} if rows(page)[3]["suggested"] != "d1" else set())
    assert counts["disagrees"] == len(odd)
    for wrong in (-1, 301, True, "3", None, 2.5):
        assert page.post("/api/cut", json={"cut": wrong}).status_code == 400


def test_nothing_is_lost_when_the_review_is_closed(copy):
    folder = copy()
    with reviewed(folder) as page:
        for route, body in steps(page):
            page.post(f"/api/{route}", json=body)
        was = picture(page)
    with opened(folder) as review:
        page = client_of(review)
        page.review = review
        assert picture(page) == was
        assert page.post("/api/undo", json={}).status_code == 200
