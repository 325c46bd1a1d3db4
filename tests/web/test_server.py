"""`amends review` as a process: one line with the address, nothing else, and nothing lost when it ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from tests.projects import amends

STARTS = 120  # seconds a server may take to print its address, on a machine that is very busy


@contextmanager
def served(folder, *more):
    """The command, and the address it printed. One that hangs is stopped, and says where it stood; what it complains
    of goes into a file, so that no full pipe can stop it."""
    args = [sys.executable, "-X", "faulthandler", "-m", "amends", "review", str(folder), "--no-browser", *more]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(args, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        process.said = lambda: (said.seek(0), said.read())[1]
        try:
            if not select.select([process.stdout], [], [], STARTS)[0]:
                process.send_signal(signal.SIGABRT)
                process.wait(20)
                raise AssertionError(f"no address after {STARTS} seconds: {process.said()}")
            address = process.stdout.readline().strip()
            assert address, process.said()
            yield process, address
        finally:
            process.kill()


class Browser:
    """Follows the address once, as a browser would; behind a proxy the host it names is another."""

    def __init__(self, address: str, host: str | None = None):
        self.base = address.partition("/?")[0]
        self.named = {} if host is None else {"Host": host}
        with urllib.request.urlopen(urllib.request.Request(address, headers=self.named), timeout=60) as answer:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.policy = answer.headers["content-security-policy"]

    def fetch(self, path, body=None, **headers) -> bytes:
        sent = {"Cookie": self.cookie, "Origin": self.base, "Content-Type": "application/json", **self.named, **headers}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.base}/{path}", data, sent), timeout=60) as answer:
            return answer.read()

    def ask(self, path, body=None, **headers):
        return json.loads(self.fetch(path, body, **headers))

    def listen(self):
        return urllib.request.urlopen(
            urllib.request.Request(f"{self.base}/api/events", headers={"Cookie": self.cookie}), timeout=60
        )


def told(stream) -> dict:
    """The next event, which is one of the state."""
    assert stream.readline() == b"event: state\n"
    said = json.loads(stream.readline().removeprefix(b"data: "))
    assert stream.readline() == b"\n"
    return said


def test_a_page_is_served_and_what_was_decided_outlives_the_server(copy):
    folder = copy("rows")
    with served(folder) as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{64}", address)
        browser = Browser(address)
        first = browser.ask("api/causes?limit=1")["rows"][0]
        for path in ("", "api/run"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{browser.base}/{path}", timeout=60)
            assert refused.value.code == 403
            assert refused.value.headers["server"] is None
            refused.value.close()
        with browser.listen() as stream:
            assert told(stream)["counts"]["remove"] == 0
            answer = browser.ask("api/decide", {"indices": [first["index"]], "decision": "remove"})
            assert answer["counts"]["remove"] == 1
            assert told(stream) == {k: answer[k] for k in answer if k not in ("changed", "indices")}
        process.kill()  # no time to say goodbye
        process.wait(20)
    with served(folder) as (process, address):
        again = Browser(address)
        again.cookie = browser.cookie  # of the tab that was open
        assert again.ask("api/causes?limit=1")["rows"][0]["decision"] == "remove"
        assert again.ask("api/run")["undo"] == f"remove train[{first['index']}]"
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=20)
        assert (process.returncode, printed) == (143, "")
        assert process.said() == "stopped: terminated; nothing half-written is left behind\n"
    line = (folder / "causes.csv").read_text().splitlines()[1]
    assert line.endswith(",remove")
    assert not (folder / "review/address").exists()


def test_a_second_review_of_a_run_is_told_where_the_first_is(copy, capsys):
    folder = copy("rows")
    with served(folder) as (_, address):
        assert oct(os.stat(folder / "review/address").st_mode)[-3:] == "600"
        assert amends("review", folder, "--no-browser") == 4
        assert capsys.readouterr().err == f"error: this run is under review already; {folder}; go on at {address}\n"


@pytest.mark.parametrize(("more", "said"), [
    (["--allow-host", "a b"], "'a b' is not the name of a host; --allow-host; give one such as lab.example.org"),
    (["--root-path", "x"], "'x' is not a path; --root-path; give one such as /review"),
    (["--host", "no.such.host.invalid"], "port 0 of no.such.host.invalid cannot be taken"),
])  # fmt: skip
def test_what_cannot_be_served_is_said_in_one_line(copy, capsys, more, said):
    assert amends("review", copy("rows"), "--no-browser", *more) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_another_host_than_loopback_is_opened_only_where_it_is_asked_for_and_what_that_means_is_said(copy):
    folder = copy("rows")
    with served(folder) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert process.said() == ""
    with served(folder, "--host", "0.0.0.0") as (process, address):
        assert process.said().startswith("warning: 0.0.0.0 is not loopback: whoever reaches this port and has the")
        Browser(address)


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert amends("review", tmp_path / "nothing", "--no-browser") == 2
    assert "no such run folder" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()


def test_without_the_extra_it_says_how_to_get_it(copy, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert amends("review", copy("rows")) == 2
    assert capsys.readouterr().err == (
        "error: the review page needs Starlette and uvicorn; amends review; run: pip install 'amends[review]'\n"
    )


def test_a_run_and_all_its_review_is_removed_and_nothing_of_the_users(copy, capsys):
    from tests.web.conftest import reviewed

    folder = copy("rows")
    with reviewed(folder) as page:
        page.post("/api/cut", json={"cut": 3})
    (folder / "review/notes.txt").write_text("mine")
    assert amends("runs", "rm", folder, "--yes") == 2
    assert "the folder holds review/notes.txt, which amends did not write" in capsys.readouterr().err
    (folder / "review/notes.txt").unlink()
    assert amends("verify", folder) == 0
    assert amends("runs", "rm", folder, "--yes") == 0
    assert not folder.exists()
