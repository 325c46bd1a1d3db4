"""`amends.review` in Python: a page of a result in memory, its decisions as a table, and no broken frame."""

from __future__ import annotations

import html
import re
import sys
import types
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

import amends
from amends.errors import BadInput
from tests import reported
from tests.web.test_server import Browser


@pytest.fixture(scope="module")
def result():
    return reported.pictures()


def test_a_result_is_shown_decided_about_and_handed_back(result):
    with amends.review(result) as page:
        assert repr(page) == page.address
        link, frame = page._repr_html_().split("<iframe ")
        assert link == f'<p><a href="{page.address}" target="_blank" rel="noreferrer">Open the review</a></p>'
        inside = re.fullmatch(
            r'sandbox srcdoc="([^"]*)" width="100%" height="760" title="amends report"></iframe>', frame
        )
        assert html.unescape(inside[1]) == (page.folder / "report.html").read_text()  # no frame that could stay empty
        browser = Browser(page.address)
        listed = browser.ask("api/causes?limit=200&copies=all")["rows"]
        assert [row["index"] for row in listed] == result.causes["index"].tolist()
        assert (browser.ask("api/run")["kind"], browser.ask("api/run")["pictures"]) == ("image", True)
        picture = browser.fetch(f"api/pictures/train/{listed[-1]['index']}.png")
        assert picture.startswith(b"\x89PNG")
        copies = {row["index"] for row in listed if row["copies"]}
        assert len(copies) == 2  # the pair of copies among these causes
        browser.ask("api/decide", {"indices": [min(copies)], "decision": "keep"})
        table = page.decisions()
        assert set(table.loc[table["decision"] == "keep", "index"]) == copies
        folder = page.folder
    assert not (folder / "review/address").exists()
    with amends.review(folder) as again:  # the folder it was saved in, later
        assert Browser(again.address).ask("api/run")["counts"]["keep"] == 2


@pytest.fixture
def notebook(monkeypatch):
    """A notebook server that runs this kernel, as somebody who is not logged in meets it; by the status of proxy/."""
    opened = []

    def of(status: int) -> str:
        class Server(BaseHTTPRequestHandler):
            def do_GET(self):
                known = re.fullmatch(r"/user/ana/proxy/\d+/.*", self.path)
                self.send_response(status if known else 404)
                self.end_headers()

            def log_message(self, *_):
                pass

        made = HTTPServer(("127.0.0.1", 0), Server)
        Thread(target=made.serve_forever, daemon=True).start()
        opened.append(made)
        address = f"localhost:{made.server_port}"
        server = types.ModuleType("jupyter_server.serverapp")
        server.list_running_servers = lambda: [
            {"pid": 7, "url": "http://elsewhere:1/"}, {"pid": 8, "url": f"http://{address}/user/ana/"},
        ]  # fmt: skip
        monkeypatch.setitem(sys.modules, "jupyter_server", types.ModuleType("jupyter_server"))
        monkeypatch.setitem(sys.modules, "jupyter_server.serverapp", server)
        monkeypatch.setenv("JPY_PARENT_PID", "8")
        return address

    yield of
    for made in opened:
        made.shutdown()
        made.server_close()


def test_in_a_notebook_whose_server_hands_pages_on_it_is_inside_it(result, tmp_path, notebook):
    """Through the notebook's own address, which the page then knows as its host and as what may hold it."""
    address = notebook(302)  # to log in first
    with amends.review(result, tmp_path / "run") as page:
        token = page.address.partition("token=")[2]
        assert f'<iframe src="/user/ana/proxy/{page.port}/?token={token}"' in page._repr_html_()
        browser = Browser(page.address, host=address)
        said = browser.ask("api/cut", {"cut": 3}, Origin=f"http://{address}")
        assert said["cut"] == 3
        assert f"frame-ancestors 'self' http://{address}" in browser.policy


def test_in_a_notebook_whose_server_hands_nothing_on_no_frame_is_empty(result, tmp_path, notebook, monkeypatch):
    notebook(404)
    with amends.review(result, tmp_path / "run") as page:
        assert "<iframe src" not in page._repr_html_()
    monkeypatch.setenv("JPY_PARENT_PID", "7")  # one that does not answer
    with amends.review(tmp_path / "run") as page:
        assert "<iframe src" not in page._repr_html_()


@pytest.mark.parametrize(("given", "more", "said"), [
    (7, {}, "an int cannot be reviewed"), ("runs/none", {}, "no such run folder"),
    ("runs/none", {"folder": "x"}, "the run has a folder already"),
])  # fmt: skip
def test_what_cannot_be_reviewed_is_said(given, more, said):
    with pytest.raises(BadInput, match=said):
        amends.review(given, **more)
