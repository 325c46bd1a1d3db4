"""Which causes are listed: every filter and every order beside the same thing done by hand."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.web.conftest import reviewed
from tests.web.test_decisions import decide, rows


def every(page, **asked):
    """All pages of a list."""
    found, total = [], None
    while total is None or len(found) < total:
        answer = page.get("/api/causes", params={"limit": 70, "offset": len(found), **asked}).json()
        total = answer["total"]
        found += answer["rows"]
        assert answer["rows"] or not total
    return found


@pytest.fixture
def decided(copy):
    with reviewed(copy("texts")) as page:
        at = [row["index"] for row in rows(page)]
        decide(page, at[:5], "remove")
        decide(page, at[7:9], "keep")
        decide(page, at[9:10], "relabel", new_label="glad")
        page.post("/api/cut", json={"cut": 8})
        yield page


FILTERS = {
    "group": ({"group": "glad→sad"}, lambda r: r["group"] == "glad→sad"),
    "given": ({"given": "sad"}, lambda r: r["given"] == "sad"),
    "suggested": ({"suggested": "glad", "given": "glad"}, lambda r: r["suggested"] == r["given"] == "glad"),
    "decision": ({"decision": "remove"}, lambda r: r["decision"] == "remove"),
    "relabel": ({"decision": "relabel"}, lambda r: r["decision"] == "relabel"),
    "none": ({"decision": "none"}, lambda r: r["decision"] == ""),
    "any": ({"decision": "decided"}, lambda r: r["decision"] != ""),
    "cut": ({"decision": "cut"}, lambda r: r["decision"] == "" and r["rank"] <= 8),
    "seen": ({"seen": "yes"}, lambda r: r["seen"]),
    "unseen": ({"seen": "no"}, lambda r: not r["seen"]),
    "score": ({"low": 0, "high": 5.0}, lambda r: 0 <= r["score"] <= 5),
    "disagrees": ({"disagrees": "yes"}, lambda r: r["decision"] == "keep" and r["rank"] <= 8),
    "differs": ({"differs": "yes"}, lambda r: r["suggested"] != r["given"]),
    "same": ({"differs": "no"}, lambda r: r["suggested"] == r["given"]),
    "text": ({"text": "RAIN"}, lambda r: "rain" in r["own"]["review"]),
    "odd text": ({"text": "%_' \""}, lambda r: False),
    "id": ({"id": "0119"}, lambda r: r["id"] == "0119"),
    "index": ({"id": "119"}, lambda r: r["index"] == 119),
    "failure": ({"failure": 16}, lambda r: 16 in r["conflicts_with"]),
    "two": ({"given": "sad", "decision": "none", "text": "rain"},
            lambda r: r["given"] == "sad" and r["decision"] == "" and "rain" in r["own"]["review"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_lists_what_it_says(decided, name):
    asked, holds = FILTERS[name]
    everything = every(decided, copies="all")
    assert [r["index"] for r in every(decided, copies="all", **asked)] == [r["index"] for r in everything if holds(r)]


ORDERS = {
    "rank": lambda r: r["rank"], "score": lambda r: (-r["score"], r["index"]),
    "id": lambda r: (r["id"], r["index"]), "given": lambda r: (r["given"], r["rank"]),
    "p_given": lambda r: (r["p_given"], r["index"]), "group": lambda r: (r["group"], r["rank"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_what_it_says_both_ways_and_every_row_has_its_place(decided, name):
    listed = every(decided, order=name, copies="all")
    expected = [r["index"] for r in sorted(listed, key=ORDERS[name])]
    assert [r["index"] for r in listed] == expected
    assert [r["index"] for r in every(decided, order=name, down=1, copies="all")] == expected[::-1]
    for place in (0, 7, 100):
        answer = decided.get("/api/place", params={"index": expected[place], "order": name, "copies": "all"})
        assert answer.json() == {"offset": place}
    assert decided.get("/api/place", params={"index": expected[0], "given": "nothing"}).json() == {"offset": None}


@pytest.mark.parametrize("asked", [
    {"order": "rank; drop table causes"}, {"decision": "x"}, {"seen": "1"}, {"low": "many"}, {"limit": 201},
    {"limit": 0}, {"offset": -1}, {"offset": "x"}, {"failure": "1 or 1"}, {"colour": "red"}, {"limit": "9" * 30},
])  # fmt: skip
def test_what_cannot_be_listed_is_said(page, asked):
    answer = page.get("/api/causes", params=asked)
    assert answer.status_code == 400
    assert answer.json()["error"]["todo"]


def test_a_card_has_the_failures_it_conflicts_with_and_each_its_causes(page):
    row = rows(page)[0]
    card = page.get(f"/api/causes/{row['index']}").json()
    assert [f["index"] for f in card["failures"]] == row["conflicts_with"]
    first = card["failures"][0]
    assert first["label"] != first["predicted"]
    assert first["group"] == f"{first['label']}→{first['predicted']}"
    listed = every(page, failure=first["index"])
    assert row["index"] in [r["index"] for r in listed]
    assert len(listed) == first["causes"]
    assert page.get("/api/causes/99999").status_code == 404
    assert page.get(f"/api/causes/{2**70}").status_code == 404


def test_failures_by_group_are_those_that_were_searched_with(page):
    told = pd.read_csv(page.review.folder / "failures.csv", dtype=str, keep_default_na=False)
    query = told[told["part"] == "query"]
    found = page.get("/api/failures", params={"limit": 200}).json()
    assert {f["index"] for f in found["rows"]} == set(query["index"].astype(int))
    assert {g["name"]: g["n"] for g in found["groups"]} == query["group"].value_counts().to_dict()
    assert all(f["group"] == f"{f['label']}→{f['predicted']}" for f in found["rows"])
    order = list(dict.fromkeys(f["group"] for f in found["rows"]))
    assert (
        order
        == [g["name"] for g in found["groups"]]
        == sorted(order, key=lambda g: (-list(query["group"]).count(g), g))
    )
    for group in found["groups"][:3]:
        mine = set(query.loc[query["group"] == group["name"], "index"].astype(int))
        assert group["causes"] == sum(bool(mine & set(r["conflicts_with"])) for r in every(page, copies="all"))
    name = found["groups"][0]["name"]
    some = page.get("/api/failures", params={"group": name}).json()
    assert {f["group"] for f in some["rows"]} == {name}
    page.post("/api/mark", json={"index": some["rows"][0]["index"], "wrong": True})
    marked = page.get("/api/failures", params={"marked": "yes"}).json()
    assert [f["index"] for f in marked["rows"]] == [some["rows"][0]["index"]]
    holdout = int(told[told["part"] == "holdout"]["index"].iloc[0])
    assert page.post("/api/mark", json={"index": holdout, "wrong": True}).status_code == 400
    for wrong in ({"index": 1}, {"index": "1", "wrong": True}, {"index": 1, "wrong": "yes"}):
        assert page.post("/api/mark", json=wrong).status_code == 400


@pytest.mark.parametrize("cell", ["rubbish", "[1, 2", "3", "[-1]", '["a"]', ""])
def test_a_cell_that_somebody_spoilt_costs_its_own_row_alone(copy, cell):
    """Which failures an example conflicts with is a list in causes.csv."""
    folder = copy("rows")
    frame = pd.read_csv(folder / "causes.csv", dtype=str, keep_default_na=False)
    kept = frame["conflicts_with"][1]
    frame.loc[0, "conflicts_with"] = cell
    frame.to_csv(folder / "causes.csv", index=False)
    with reviewed(folder) as page:
        spoilt, sound = rows(page, copies="all")[:2]
        assert (spoilt["conflicts_with"], sound["conflicts_with"]) == ([], json.loads(kept))
        listed = every(page, failure=sound["conflicts_with"][0], copies="all")
        assert sound["index"] in [r["index"] for r in listed]
        assert spoilt["index"] not in [r["index"] for r in listed]
        decide(page, [spoilt["index"]], "remove")
        page.review.follow()
    assert pd.read_csv(folder / "causes.csv", dtype=str, keep_default_na=False)["conflicts_with"][0] == cell


def test_any_example_is_shown_whatever_it_is(copy):
    with reviewed(copy()) as page:
        last = every(page)[-1]
        for where in ("", "?size=full"):
            answer = page.get(f"/{last['look']['image']}{where}")
            assert answer.headers["content-type"] == "image/png"
            with Image.open(io.BytesIO(answer.content)) as image:
                assert image.size == (8, 8)
        path = page.review.run.config.folder / "photos/train" / last["own"]["path"]
        with Image.open(path) as stored, Image.open(io.BytesIO(answer.content)) as sent:
            assert stored.convert("RGB").tobytes() == sent.convert("RGB").tobytes()
        failure = page.get("/api/failures").json()["rows"][-1]
        assert page.get(f"/{failure['look']['image']}").status_code == 200
        for wrong in ("train/300", "train/99999999999999999999", "other/1", "remaining/1"):
            assert page.get(f"/api/pictures/{wrong}.png").status_code == 404
    with reviewed(copy("texts")) as page:
        row = every(page)[-1]
        assert row["look"] == {"text": row["own"]["review"]}
    with reviewed(copy("rows")) as page:
        row = every(page)[-1]
        x = np.load(page.review.run.config.folder / "train.npz")["x"].astype(float)
        at = row["index"]
        assert row["look"]["row"] == pytest.approx(x[at], rel=1e-4)
        away = (x[at] - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), np.inf)
        assert row["look"]["deviations"][0] == pytest.approx(away[np.abs(away).argmax()], abs=0.01)
