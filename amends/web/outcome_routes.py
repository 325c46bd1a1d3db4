"""Routes for what follows the decisions: jobs, repairs, and files to download."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from amends.errors import BadInput
from amends.report.page import POLICY
from amends.web import results
from amends.web.review import Review
from amends.web.routes import change, json_of, key_of, person_of, review_of
from amends.web.table import FOLDER, Missing

PLAIN = f"{POLICY}; sandbox; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"  # report.html runs nothing
CSV, BYTES, ZIP = "text/csv; charset=utf-8", "application/octet-stream", "application/zip"


def jobs(request: Request) -> Response:
    return JSONResponse({"rows": review_of(request).jobs.all()})


def job(request: Request) -> Response:
    return JSONResponse(review_of(request).jobs.get(request.path_params["number"], lines=True))


async def start(request: Request) -> Response:
    body, review = await json_of(request), review_of(request)
    learn = body.get("learn")
    if learn not in (True, False, None):
        raise BadInput("learn is neither true nor false; the request; leave it out to let the repair choose")
    of = body.get("repair")
    if of is not None and (type(of) is not int or not 0 <= of < 10**9):
        raise BadInput("repair is not the number of one; the request; leave it out, or give one that is listed")
    async with request.app.state.turn:
        begun = await run_in_threadpool(review.jobs.start, str(body.get("kind")), person_of(request), learn, of)
    return JSONResponse(begun, status_code=202)


async def cancel(request: Request) -> Response:
    await json_of(request)
    return JSONResponse(await run_in_threadpool(review_of(request).jobs.cancel, request.path_params["number"]))


def repairs(request: Request) -> Response:
    return JSONResponse({"rows": results.repairs(review_of(request).table)})


def repair(request: Request) -> Response:
    return JSONResponse(results.repair(review_of(request).table, request.path_params["number"]))


def accept(review: Review, body: dict[str, Any], person: str) -> dict[str, Any]:
    return results.accept(review.table, body.get("repair"), body.get("accepted"), body.get("note", ""),
                          person=person, key=key_of(body))  # fmt: skip


def compare(request: Request) -> Response:
    numbers = [request.query_params.get(k, "") for k in ("one", "other")]
    if not all(s.isascii() and s.isdigit() and len(s) < 10 for s in numbers):
        raise BadInput("one and other are numbers of repairs; the request; give both")
    return JSONResponse(results.compared(review_of(request).table, int(numbers[0]), int(numbers[1])))


def causes(request: Request) -> Response:
    review = review_of(request)
    review.follow()
    return _file(review.folder / "causes.csv", CSV, "causes.csv")


def report(request: Request) -> Response:
    return _page(review_of(request).folder)


def of_repair(request: Request) -> Response:
    """A file of a finished repair, by its kind."""
    number, what = request.path_params["number"], request.path_params["what"]
    run = results.finished(review_of(request).table, number)
    named = f"repair-{number}"
    if what == "report.html":
        return _page(run.folder)
    if what == "causes.csv":
        return _file(run.folder / "causes.csv", CSV, f"{named}-causes.csv")
    if what == "data":
        return _zip(review_of(request).folder, run.folder / "dataset", f"{named}-data.zip")
    if what == "patch":
        path = results.patch_file(review_of(request).table, number)
        return _file(path, BYTES, f"{named}-patch.safetensors")
    if what == "weights":
        inside = sorted(p.name for p in (run.folder / "repaired").iterdir() if p.name != "README.md")
        if inside == ["model.safetensors"]:
            return _file(run.folder / "repaired/model.safetensors", BYTES, f"{named}.safetensors")
        return _zip(review_of(request).folder, run.folder / "repaired", f"{named}-model.zip")
    raise Missing


def _page(folder: Path) -> Response:
    """report.html, in which nothing can run."""
    if not (folder / "report.html").is_file():
        raise Missing
    return FileResponse(folder / "report.html", media_type="text/html; charset=utf-8",
                        headers={"content-security-policy": PLAIN})  # fmt: skip


def _file(path: Path, kind: str, name: str, then: Any = None) -> Response:
    if not path.is_file():
        raise Missing
    return FileResponse(path, media_type=kind, filename=name, content_disposition_type="attachment", background=then)


def _zip(home: Path, folder: Path, name: str) -> Response:
    """A folder as one zip file, made in the folder of the review and removed after it was sent."""
    handle, archive = tempfile.mkstemp(".zip", dir=home / FOLDER)
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            packed.write(path, path.relative_to(folder).as_posix())
    return _file(Path(archive), ZIP, name, BackgroundTask(Path(archive).unlink, missing_ok=True))


ROUTES = [
    Route("/api/jobs", jobs),
    Route("/api/jobs", start, methods=["POST"]),
    Route("/api/jobs/{number:int}", job),
    Route("/api/jobs/{number:int}/cancel", cancel, methods=["POST"]),
    Route("/api/repairs", repairs),
    Route("/api/repairs/{number:int}", repair),
    Route("/api/accept", change(accept), methods=["POST"]),
    Route("/api/compare", compare),
    Route("/export/causes.csv", causes),
    Route("/export/report.html", report),
    Route("/export/repairs/{number:int}/{what}", of_repair),
]
