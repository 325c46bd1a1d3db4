"""`amends.review` in Python: a page of a result in memory, its decisions as a table, and no broken frame."""

from __future__ import annotations

import sys
import types

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
        assert page._repr_html_() == (
            f'<p><a href="{page.address}" target="_blank" rel="noreferrer">Open the review</a></p>'
        )
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


def test_in_a_notebook_whose_server_hands_pages_on_it_is_inside_it(result, tmp_path, monkeypatch):
    """Through the notebook's own address, which the page then knows as its host and as what may hold it."""
    server = types.ModuleType("jupyter_server.serverapp")
    server.list_running_servers = lambda: [
        {"pid": 7, "url": "http://elsewhere:1/"}, {"pid": 8, "url": "http://localhost:8888/user/ana/"},
    ]  # fmt: skip
    for name, module in (("jupyter_server", types.ModuleType("jupyter_server")), ("jupyter_server.serverapp", server),
                         ("jupyter_server_proxy", types.ModuleType("jupyter_server_proxy"))):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("JPY_PARENT_PID", "8")
    with amends.review(result, tmp_path / "run") as page:
        token = page.address.partition("token=")[2]
        assert f'<iframe src="/user/ana/proxy/{page.port}/?token={token}"' in page._repr_html_()
        browser = Browser(page.address, host="localhost:8888")
        said = browser.ask("api/cut", {"cut": 3}, Origin="http://localhost:8888")
        assert said["cut"] == 3
        assert "frame-ancestors 'self' http://localhost:8888" in browser.policy


@pytest.mark.parametrize(("given", "more", "said"), [
    (7, {}, "an int cannot be reviewed"), ("runs/none", {}, "no such run folder"),
    ("runs/none", {"folder": "x"}, "the run has a folder already"),
])  # fmt: skip
def test_what_cannot_be_reviewed_is_said(given, more, said):
    with pytest.raises(BadInput, match=said):
        amends.review(given, **more)
