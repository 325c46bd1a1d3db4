"""`amends.review`: the review page in a notebook, for a result in memory or a run folder."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import ExitStack
from html import escape
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from amends.errors import BadInput, kind_of
from amends.runs.run import Run
from amends.web.review import Review, opened
from amends.web.server import Where, installed, keep_address, uvicorn_of

if TYPE_CHECKING:
    import pandas as pd

STARTING = 30.0  # seconds the server may take to start
ASKED = 3.0  # seconds the notebook's server may take to answer
HIGH = 760  # pixels of a frame


class Page:
    """A review page that is being served. It shows itself in a notebook: inside it where the notebook's own server
    hands it on, else as a link above the report of the run. `folder` is the run folder with the decisions, `address`
    where the page is."""

    def __init__(self, folder: Path, given: Any = None, port: int = 0):
        installed()
        self.folder, self._notebook = folder, notebook()
        self._open = ExitStack()
        try:
            hosts, frames = ((), ()) if self._notebook is None else _of_notebook(self._notebook)
            where = Where(port=port, hosts=hosts, frames=frames)
            sock = self._open.enter_context(where.socket())
            self.port: int = sock.getsockname()[1]
            self._review: Review = self._open.enter_context(opened(folder, given=given))
            self.address = where.address(self._review.token, self.port)
            keep_address(folder, self.address)
            self._server = uvicorn_of(self._review, where.doors(self._review.token, self.port))
            self._thread = threading.Thread(target=self._server.run, args=([sock],), daemon=True)
            self._thread.start()
            self._started()
        except BaseException:
            self._open.close()
            raise

    def _started(self) -> None:
        end = time.monotonic() + STARTING
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise BadInput("the page was not served in time; review; try again, or run amends review RUN")
            time.sleep(0.02)

    def decisions(self) -> pd.DataFrame:
        """causes.csv as the page has written it: the table for `amends.repair(..., remove=table)`."""
        self._review.follow()
        return Run.open(self.folder).causes()

    def close(self) -> None:
        """Stops serving; the decisions stay in the run folder."""
        self._server.should_exit = True
        self._thread.join()
        self._open.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return self.address

    def _repr_html_(self) -> str:
        """The page in a frame only where the notebook's server hands it on from its own address: the cookie of the page
        does not cross from one address to another, and a frame from elsewhere would stay empty."""
        link = f'<p><a href="{escape(self.address)}" target="_blank" rel="noreferrer">Open the review</a></p>'
        if self._notebook is None:
            return link + self._report()
        path = urlsplit(self._notebook).path.rstrip("/")
        source = escape(f"{path}/proxy/{self.port}/?token={self._review.token}")
        return f'<iframe src="{source}" width="100%" height="{HIGH}" title="amends review"></iframe>{link}'

    def _report(self) -> str:
        """report.html as a whole, in a frame that loads nothing and runs nothing."""
        path = self.folder / "report.html"
        if not path.is_file():
            return ""
        text = escape(path.read_text(encoding="utf-8"))
        return f'<iframe sandbox srcdoc="{text}" width="100%" height="{HIGH}" title="amends report"></iframe>'


def review(result: Any, folder: Any = None, *, port: int = 0) -> Page:
    """The review page of a result, or of a run folder: see the causes, decide, compare.

    A result is saved first, to `folder` or to a temporary one. The page shows itself in a notebook; elsewhere open its
    `address`. `decisions()` is the table a person has decided in, for `amends.repair(..., remove=table)`; `close()`
    ends it.
    """
    if isinstance(result, str | os.PathLike):
        if folder is not None:
            raise BadInput("the run has a folder already; folder; leave it out")
        return Page(Path(result), port=port)
    if not hasattr(result, "save") or not hasattr(result, "given"):
        raise BadInput(f"{kind_of(result)} cannot be reviewed; review; give what amends.repair returned, or a run")
    home = Path(tempfile.mkdtemp(prefix="amends-")) / "run" if folder is None else Path(folder)
    result.save(home)
    given = {name: data.examples for name, data in result.given.items()}
    return Page(home, given, port)


def notebook() -> str | None:
    """The address of the notebook server that runs this kernel, if it can proxy pages; else None."""
    try:
        from jupyter_server.serverapp import list_running_servers  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    ours = [s for s in list_running_servers() if str(s.get("pid")) == os.environ.get("JPY_PARENT_PID")]
    return str(ours[0]["url"]) if ours and _hands_on(str(ours[0]["url"])) else None


def _hands_on(address: str) -> bool:
    """Whether a notebook server has addresses below proxy/. It may run in another environment than the kernel, so it is
    asked: without a login it answers 404 if it has none, and else with its login page."""
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = kind(parts.hostname or "localhost", parts.port, timeout=ASKED)
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/proxy/1/favicon.svg")
            return connection.getresponse().status != 404
        finally:
            connection.close()
    except (OSError, HTTPException):
        return False


def _of_notebook(address: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Host names of the notebook, and the address of its pages, which may show ours in a frame."""
    parts = urlsplit(address)
    names = {"localhost", "127.0.0.1", parts.hostname or "localhost"}
    return tuple(sorted(names)), (f"{parts.scheme}://{parts.netloc}",)
