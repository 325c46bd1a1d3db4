"""Who may come in: every route, with every wrong key."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat

import pandas as pd
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from amends.errors import BadInput
from amends.web.app import app_of
from amends.web.doors import Doors, token_of
from tests.web.conftest import BASE, PORT, client_of, opened, reviewed

HOSTILE = [
    "evil.example", "127.0.0.1.evil.example", "evil.example:8321", "localhost.evil.example:8321", "127.0.0.1:80",
    "127.0.0.1:8322", "127.0.0.1", "localhost", "[::1]", "[::1]:80", "0.0.0.0:8321", "127.0.0.2:8321", "127.1:8321",
    "2130706433:8321", "0x7f.1:8321", "LOCALHOST.:8321", "127.0.0.1:8321.evil.example", "127.0.0.1:8321@evil.example",
    "evil.example@127.0.0.1:8321", "127.0.0.1:8321/evil", "127.0.0.1:08321 ", "127.0.0.1:8321,evil.example", "",
    "[::ffff:127.0.0.1]:8321", "localhost:8321#", "127.0.0.1:8321?", "null", "http://127.0.0.1:8321", "metadata:8321",
    "169.254.169.254", "rebind.example:8321",
]  # fmt: skip
ORIGINS = [
    "null", "http://evil.example", "https://127.0.0.1:8321.evil.example", "http://127.0.0.1:8322", "http://127.0.0.1",
    "http://localhost:8321", "file://", "http://127.0.0.1:8321/", "http://evil.example@127.0.0.1:8321", "",
    "ftp://127.0.0.1:8321", "http://[::1]:8321",
]  # fmt: skip


@pytest.fixture(scope="module")
def page(searched, tmp_path_factory):
    """One browser for all of these: nothing they try changes anything."""
    with reviewed(shutil.copytree(searched("pictures"), tmp_path_factory.mktemp("doors") / "run")) as client:
        yield client


def every_route(client) -> list[tuple[str, str]]:
    """Method and path of all there is, with something in each blank."""
    found = []
    for route in client.app.app.routes:
        assert isinstance(route, Route)
        path = re.sub(r"\{(\w+)(:int)?\}", lambda m: "1" if m[2] else "train", route.path)
        found += [(method, path) for method in sorted(route.methods or ())]
    return found


def bare(review) -> TestClient:
    return TestClient(app_of(review, Doors(review.token, PORT)), base_url=BASE, headers={"origin": BASE})


def state(page) -> dict:
    return page.get("/api/run").json()


def test_every_route_is_closed_without_the_token_and_with_a_wrong_one(page):
    routes = every_route(page)
    assert len(routes) > 30
    wrong = [{}, {"cookie": f"{Doors(page.review.token, PORT).cookie}=wrong"}, {"cookie": "=;;,"},
             {"authorization": f"Bearer {page.review.token}"}]  # fmt: skip
    before = state(page)
    for method, path in routes:
        for headers in wrong:
            for query in ("", "?token=", "?token=wrong", f"?token={page.review.token[:-1]}0x"):
                answer = bare(page.review).request(method, path + query, headers=headers, json={})
                assert answer.status_code == 403, (method, path, headers)
                assert "set-cookie" not in answer.headers
    assert state(page) == before


def test_the_token_opens_the_front_door_alone(page):
    """And twice in one address it opens nothing."""
    token = page.review.token
    for method, path in every_route(page):
        if path != "/":
            assert bare(page.review).request(method, f"{path}?token={token}", json={}).status_code == 403
    assert bare(page.review).get(f"/?token={token}&token={token}").status_code == 403
    answer = bare(page.review).get(f"/?token={token}")
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert token not in cookie
    assert token not in answer.text


def test_the_token_is_long_kept_for_the_next_server_and_for_the_user_alone(tmp_path):
    token = token_of(tmp_path)
    assert len(bytes.fromhex(token)) >= 16
    assert token_of(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    os.chmod(tmp_path / "token", 0o644)
    assert token_of(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    (tmp_path / "token").write_text("short")
    assert token_of(tmp_path) not in ("short", token)


def test_a_page_of_the_server_before_is_still_known(copy):
    folder = copy()
    with opened(folder) as review:
        cookies = dict(client_of(review).cookies)
    with opened(folder) as review:
        again = bare(review)
        again.cookies.update(cookies)
        assert again.get("/api/run").status_code == 200


@pytest.mark.parametrize("host", HOSTILE)
def test_no_other_host_is_served_whatever_the_method(page, host):
    before = state(page)
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        for path in ("/", "/api/run", "/api/decide", "/api/undo", f"/?token={page.review.token}"):
            answer = page.request(method, path, headers={"host": host}, json={"indices": [1], "decision": "keep"})
            assert answer.status_code == 403, (method, path)
    assert state(page) == before


def test_a_second_host_or_none_is_refused(page):
    import anyio

    async def asked(headers) -> int:
        found = []

        async def send(message):
            found.append(message.get("status"))

        async def receive():
            return {"type": "http.request", "body": b""}

        scope = {"type": "http", "method": "GET", "path": "/api/run", "query_string": b"", "headers": headers}
        await page.app(scope, receive, send)
        return found[0]

    cookie = (b"cookie", "; ".join(f"{k}={v}" for k, v in page.cookies.items()).encode())
    ours = (b"host", f"127.0.0.1:{PORT}".encode())
    assert anyio.run(asked, [cookie]) == 403
    assert anyio.run(asked, [cookie, ours, (b"host", b"evil.example")]) == 403


@pytest.mark.parametrize("origin", ORIGINS)
def test_another_page_changes_nothing(page, origin):
    before = state(page)
    for method, path in every_route(page):
        if method not in ("GET", "HEAD"):
            answer = page.request(method, path, headers={"origin": origin}, json={"indices": [1], "decision": "keep"})
            assert answer.status_code == 403, (method, path)
    assert state(page) == before


def test_a_change_without_an_origin_is_refused(page):
    before, nobody = state(page), bare(page.review)
    nobody.cookies.update(dict(page.cookies))
    del nobody.headers["origin"]
    assert nobody.get("/api/run").status_code == 200
    assert nobody.post("/api/cut", json={"cut": 3}).status_code == 403
    assert state(page) == before


def test_a_page_of_another_port_reads_nothing_and_only_opens_ours(page):
    for site in ("cross-site", "same-site"):
        asked = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        assert page.get("/api/run", headers=asked).status_code == 403
        assert page.get("/api/run", headers={**asked, "sec-fetch-mode": "navigate"}).status_code == 403
        assert page.get("/", headers={**asked, "sec-fetch-mode": "navigate"}).status_code == 200
    assert page.get("/api/run", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def traversals() -> list[str]:
    up = ["..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "..%5c..", "....//", "..;", "%252e%252e", "..%00", "~", "C:"]
    ends = ["etc/passwd", "run.toml", "review/token", "token", "index.html", "decisions.sqlite", "model.safetensors"]
    homes = ["assets", "export", "export/repairs/0", "api/pictures/train", "api/pictures", "api/causes", "api", ""]
    found = [
        f"/{home}/{'/'.join([u] * deep)}/{end}" for home in homes for u in up for deep in (1, 4) for end in ends[:3]
    ]
    return [path.replace("//", "/", 1) for path in found]


def test_no_path_leads_out_of_what_is_served(page):
    paths = traversals()
    assert len(paths) >= 500
    for path in paths:
        answer = page.get(path, follow_redirects=False)
        assert answer.status_code == 404, path
        assert page.review.token not in answer.text


def test_every_answer_says_what_it_is_and_what_may_run_in_it(page):
    answers = [page.request(m, p, json={}) for m, p in every_route(page) if p != "/api/events"]
    answers += [bare(page.review).get("/"), page.get("/nothing"), page.get(f"/?token={page.review.token}")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy or ("script-src" not in policy and "sandbox" in policy)
        assert "unsafe-inline" not in policy or "sandbox" in policy  # report.html has its style in it
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"]
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_words_of_the_data_come_out_as_json_alone(copy):
    """A script in a column, an id, a group or a person's name is text wherever it is sent."""
    folder, nasty = copy("texts"), "<script>alert(1)</script><img src=x onerror=alert(2)>"
    table = pd.read_csv(folder / "causes.csv", dtype=str, keep_default_na=False)
    for column in ("id", "given", "suggested", "group", "note", "predicted"):
        table[column] = nasty
    table.to_csv(folder / "causes.csv", index=False)
    with reviewed(folder) as page:
        page.post("/api/person", json={"name": nasty[:100]})
        for path in ("api/run", "api/causes", f"api/causes/{table['index'][0]}", "api/trail", "api/failures"):
            answer = page.get(f"/{path}")
            assert answer.headers["content-type"] == "application/json"
            assert json.loads(answer.text)
        row = page.get("/api/causes").json()["rows"][0]
        assert row["own"]["note"] == row["group"] == row["id"] == nasty
        assert page.get("/export/causes.csv").headers["content-type"].startswith("text/csv")
        assert page.get("/export/causes.csv").headers["content-disposition"].startswith("attachment")
        assert page.get("/api/causes", params={"order": nasty}).headers["content-type"] == "application/json"


def test_behind_a_proxy_the_name_the_path_and_the_frame_are_those_that_were_allowed(page):
    review = page.review
    doors = Doors(review.token, PORT, ("lab.example.org",), ("https://lab.example.org",), "/tools/review")
    client = TestClient(app_of(review, doors), base_url="https://lab.example.org")
    for path in ("/tools/review/", "/"):  # a proxy may leave the path on, or take it off
        answer = client.get(f"{path}?token={review.token}")
        assert answer.status_code == 200
        assert "Path=/tools/review/;" in answer.headers["set-cookie"]
        assert "frame-ancestors 'self' https://lab.example.org" in answer.headers["content-security-policy"]
        assert "x-frame-options" not in answer.headers
    moved = client.get("/tools/review?token=x", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (307, "/tools/review/?token=x")
    assert client.get("/tools/review/api/run").status_code == 200
    said = {"origin": "https://lab.example.org"}
    assert client.post("/tools/review/api/seen", json={"indices": []}, headers=said).status_code == 200
    assert client.post("/tools/review/api/cut", json={"cut": 4}, headers={"origin": BASE}).status_code == 403
    assert client.get("/tools/other/api/run").status_code in (403, 404)
    assert client.get("/tools/review/api/run", headers={"host": "lab.example.org.evil"}).status_code == 403


@pytest.mark.parametrize("wrong", [
    {"hosts": ("lab example",)}, {"hosts": ("a/b",)}, {"frames": ("'none'; script-src *",)},
    {"frames": ("javascript:1",)}, {"prefix": "review"}, {"prefix": "/a/../b"}, {"prefix": "/a;b"},
])  # fmt: skip
def test_what_is_allowed_is_a_host_an_address_and_a_path(wrong):
    with pytest.raises(BadInput, match="; --"):
        Doors("0" * 64, PORT, **wrong)


def test_too_much_and_the_wrong_kind_is_sent_back(page):
    before = state(page)
    large = b'{"indices": [' + b"1," * (5 * 2**20) + b"1]}"
    assert page.post("/api/decide", content=large, headers={"content-type": "application/json"}).status_code == 413
    assert page.post("/api/upload", content=b"x" * (9 * 2**20), headers={"content-type": "text/csv"}).status_code == 413
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        asked = {"content-type": kind}
        assert page.post("/api/decide", content=b'{"indices": [1]}', headers=asked).status_code == 415
        assert page.post("/api/upload", content=b"index,decision\n1,keep\n", headers=asked).status_code == 415
    for body in (b"[" * 100_000, b"{", b"[]", b"\xff\xfe", b'"x"', b"1e999"):
        answer = page.post("/api/decide", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert set(answer.json()["error"]) == {"what", "where", "todo"}
    assert state(page) == before
