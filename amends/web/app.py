"""The server as one ASGI application: the routes, the built page, errors as JSON, and the doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from amends.errors import AmendsError, DiskError, Locked
from amends.web import outcome_routes, routes, still
from amends.web.doors import Doors, Guard
from amends.web.jobs import Busy
from amends.web.review import Review
from amends.web.table import Missing
from amends.web.trail import NothingThere

STATUS = (
    (Missing, 404), (NothingThere, 409), (Busy, 409), (Locked, 409), (routes.TooLarge, 413),
    (routes.WrongKind, 415), (DiskError, 507),
)  # fmt: skip
KINDS = {
    ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".png": "image/png",
}  # fmt: skip
UNBUILT = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>amends</title></head><body><p>The page is not '
    "built in this checkout: run make web.</p></body></html>"
)
FOREVER = "private, max-age=31536000, immutable"


def app_of(review: Review, doors: Doors) -> Any:
    """The application, for a server or a test."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        yield
        app.state.closing.set()

    pages = [Route("/", index), Route("/favicon.svg", icon), Route("/assets/{name}", asset)]
    app = Starlette(
        routes=[*pages, *routes.ROUTES, *still.ROUTES, *outcome_routes.ROUTES],
        exception_handlers={AmendsError: amends_error, HTTPException: http_error},
        lifespan=life,
    )
    app.state.review, app.state.doors = review, doors
    app.state.turn, app.state.closing = asyncio.Lock(), asyncio.Event()
    return Guard(app, doors)


def built() -> Path:
    """The folder of the built page."""
    return Path(str(files("amends.web").joinpath("static")))


def index(request: Request) -> Response:
    path = built() / "index.html"
    return FileResponse(path, media_type="text/html; charset=utf-8") if path.is_file() else HTMLResponse(UNBUILT)


def icon(request: Request) -> Response:
    return _static(built(), "favicon.svg", "private, max-age=3600")


def asset(request: Request) -> Response:
    return _static(built() / "assets", request.path_params["name"], FOREVER)


def _static(folder: Path, name: str, keep: str) -> Response:
    """A file of a flat folder, by its name; nothing outside the folder."""
    by_name = {p.name: p for p in folder.iterdir()} if folder.is_dir() else {}
    if name not in by_name or not by_name[name].is_file():
        raise Missing
    kind = KINDS.get(by_name[name].suffix, "application/octet-stream")
    return FileResponse(by_name[name], media_type=kind, headers={"cache-control": keep})


def amends_error(request: Request, error: Exception) -> Response:
    """An error of amends, in its three parts."""
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 400)
    what, *rest = str(error).split("; ")
    where, todo = "; ".join(rest[:-1]), rest[-1] if rest else ""
    return JSONResponse({"error": {"what": what, "where": where, "todo": todo}}, status_code=status)


def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is no such thing", 405: "this cannot be done here"}
    return _error(error.status_code, words.get(error.status_code, str(error.detail)), "load the page again")


def _error(status: int, what: str, todo: str) -> Response:
    return JSONResponse({"error": {"what": what, "where": "", "todo": todo}}, status_code=status)
