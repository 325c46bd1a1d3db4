"""The list by positions, and many decisions in one request."""

from __future__ import annotations


def decide(page, *decisions):
    return page.post("/api/decide", json={"decisions": list(decisions)}).json()


def one(index, key, decision="remove", **more):
    return {"indices": [index], "decision": decision, "key": key, **more}


def test_the_order_and_the_rows_are_those_of_the_list(page):
    listed = page.get("/api/causes", params={"limit": 200}).json()
    order = page.get("/api/order").json()
    assert order["total"] == listed["total"] == len(order["indices"]) > 200
    assert order["indices"][:200] == [row["index"] for row in listed["rows"]]
    asked = order["indices"][7:2:-1]
    rows = page.get("/api/rows", params={"indices": ",".join(map(str, asked))}).json()["rows"]
    assert rows == [next(r for r in listed["rows"] if r["index"] == at) for at in asked]
    group = listed["rows"][0]["group"]
    assert page.get("/api/order", params={"group": group}).json()["total"] < order["total"]


def test_what_is_no_position_is_refused_and_what_is_no_cause_left_out(page):
    first = page.get("/api/order").json()["indices"][0]
    assert [r["index"] for r in page.get(f"/api/rows?indices=99999,{first}").json()["rows"]] == [first]
    for wrong in ("", "a", "1,,2", "-1", ",".join(["1"] * 201), "1" * 30):
        assert page.get("/api/rows", params={"indices": wrong}).status_code == 400, wrong
    for wrong in ("", "-1", "x", "9" * 30):
        assert page.get("/api/counts", params={"cut": wrong}).status_code == 400, wrong


def test_many_decisions_are_steps_of_their_own_and_one_that_cannot_be_made_stops_no_other(page):
    a, b, c = page.get("/api/order").json()["indices"][:3]
    label = page.get("/api/run").json()["classes"][0]
    done = decide(page, one(a, "k1"), one(b, "k2", "relabel", new_label="no such class"), one(99999, "k3"),
                  one(c, "k4", "relabel", new_label=label))  # fmt: skip
    assert (done["counts"]["remove"], done["counts"]["relabel"]) == (1, 1)
    assert {a, c} <= set(done["indices"])
    assert [f["key"] for f in done["failed"]] == ["k2", "k3"]
    assert "no class" in done["failed"][0]["error"]["what"]
    again = decide(page, one(a, "k1"), one(c, "k4", "relabel", new_label=label))
    assert again["version"] == done["version"]
    assert page.post("/api/undo", json={}).json()["counts"]["relabel"] == 0
    assert page.post("/api/undo", json={}).json()["counts"]["remove"] == 0
    for wrong in ("x", [1], [{}] * 501):
        assert page.post("/api/decide", json={"decisions": wrong}).status_code == 400


def test_an_undo_that_is_sent_twice_is_done_once(page):
    a, b = page.get("/api/order").json()["indices"][:2]
    decide(page, one(a, "k1"), one(b, "k2"))
    for _ in range(2):
        assert page.post("/api/undo", json={"key": "u1"}).json()["counts"]["remove"] == 1
    for _ in range(2):
        assert page.post("/api/redo", json={"key": "u2"}).json()["counts"]["remove"] == 2


def test_the_counts_of_another_cut_change_nothing(page):
    first = page.get("/api/order").json()["indices"][0]
    before = decide(page, one(first, "k1", "keep"))
    told = page.get("/api/counts?cut=40").json()
    assert told["counts"]["by_cut"] == 40 - before["counts"]["keep"]
    assert page.get("/api/run").json()["version"] == before["version"]
    assert page.post("/api/cut", json={"cut": 40}).json()["counts"] == told["counts"]
