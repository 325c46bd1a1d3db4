"""The routes of the review: each reads a request, asks the review, and answers in JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from amends.errors import BadInput
from amends.web import causes, decisions, listing, results, stopping, trail
from amends.web.doors import cookies
from amends.web.review import Review
from amends.web.seen import SETS, SIDES
from amends.web.table import Missing

LARGEST = 8 * 2**20  # bytes of a request
LONGEST = 100  # characters of a person's name
BEAT = 15.0  # seconds of silence on a stream of events
PAUSE = 0.5


class TooLarge(BadInput):
    """More was sent than is taken."""


class WrongKind(BadInput):
    """The body is of another type."""


def review_of(request: Request) -> Review:
    return request.app.state.review


def person_of(request: Request) -> str:
    names = cookies(request.headers.getlist("cookie"), "amends-person")
    return unquote(names[0])[:LONGEST] if names else ""


async def body_of(request: Request, kind: str) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise WrongKind(f"the body is not {kind}; the request; send it as that")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            raise TooLarge(f"more than {LARGEST // 2**20} MB were sent; the request; send less at once")
        parts.append(part)
    return b"".join(parts)


async def json_of(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await body_of(request, "application/json") or b"{}")
    except (ValueError, RecursionError) as e:
        if isinstance(e, BadInput):
            raise
        raise BadInput("the body is not JSON; the request; send an object") from None
    if not isinstance(body, dict):
        raise BadInput("the body is not an object; the request; send one")
    return body


def change(work: Callable[[Review, dict[str, Any], str], dict[str, Any] | None]) -> Callable[..., Any]:
    """A route that changes something. Changes are made one at a time, in the order of requests; the answer is the
    state."""

    async def route(request: Request) -> Response:
        body, review, person = await json_of(request), review_of(request), person_of(request)
        async with request.app.state.turn:
            done = await run_in_threadpool(work, review, body, person)
            state = await run_in_threadpool(review.state, person)
        return JSONResponse({**state, **(done or {})})

    return route


def key_of(body: Mapping[str, Any]) -> str | None:
    key = body.get("key")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= 200):
        raise BadInput("key is not a short text; the request; leave it out, or send another")
    return key


def decide(review: Review, body: dict[str, Any], person: str) -> dict[str, Any]:
    table, wanted, looked = review.table, body.get("indices"), True
    if "filter" in body:
        looked = False
        chosen, between = body["filter"], body.get("range")
        if not isinstance(chosen, dict) or "indices" in body:
            raise BadInput("filter is not an object, or stands beside indices; the request; send one of the two")
        pair = isinstance(between, list) and len(between) == 2 and all(type(b) is int and b >= 0 for b in between)
        if between is not None and not pair:
            raise BadInput("range is not two places; the request; send the first and the last")
        params = {**chosen, "order": body.get("order"), "down": body.get("down", 0)}
        listed = listing.Listing.of(params, table.cut)
        wanted = listed.positions(table, None if between is None else (between[0], between[1]))
    if not isinstance(wanted, list):
        raise BadInput("indices is not a list; the request; send the positions in train")
    way, label = str(body.get("decision")), str(body.get("new_label") or "")
    return decisions.decide(table, wanted, way, label, person=person, key=key_of(body), looked=looked)


def seen(review: Review, body: dict[str, Any], person: str) -> None:
    at = body.get("indices")
    if not isinstance(at, list) or not all(type(i) is int and 0 <= i < 2**62 for i in at):
        raise BadInput("indices is not a list of positions; the request; send those that were on screen")
    decisions.seen(review.table, at)


def cut(review: Review, body: dict[str, Any], person: str) -> dict[str, Any]:
    return decisions.cut_at(review.table, body.get("cut", -1), person=person, key=key_of(body))


def mark(review: Review, body: dict[str, Any], person: str) -> dict[str, Any]:
    at, wrong = body.get("index"), body.get("wrong")
    if type(at) is not int or type(wrong) is not bool or not 0 <= at < 2**62:
        raise BadInput("index or wrong is missing; the request; send a position and true or false")
    return decisions.mark(review.table, at, wrong, person=person, key=key_of(body))


def worth(review: Review, body: dict[str, Any], person: str) -> None:
    stopping.order_by_worth(review.table)


async def upload(request: Request) -> Response:
    body, review, person = await body_of(request, "text/csv"), review_of(request), person_of(request)
    async with request.app.state.turn:
        done = await run_in_threadpool(causes.upload, review.table, body, person)
        state = await run_in_threadpool(review.state, person)
    return JSONResponse({**state, **done})


async def person(request: Request) -> Response:
    name = (await json_of(request)).get("name")
    if not isinstance(name, str) or len(name) > LONGEST or not name.isprintable():
        raise BadInput(f"the name cannot be used; the request; give up to {LONGEST} characters")
    answer = JSONResponse(await run_in_threadpool(review_of(request).state, name))
    path = f"{request.app.state.doors.prefix}/"
    answer.set_cookie("amends-person", quote(name), max_age=31536000, path=path, httponly=True, samesite="strict")
    return answer


def about(request: Request) -> Response:
    return JSONResponse(review_of(request).about(person_of(request)))


def listed(request: Request) -> Response:
    review, params = review_of(request), dict(request.query_params)
    offset, limit = listing.page_of(params)
    with review.table.lock:
        if params.get("order") == "worth" and review.table.setting("worth") != review.table.cut:
            stopping.order_by_worth(review.table)
        selection = listing.Listing.of(params, review.table.cut)
        total, rows = selection.count(review.table), selection.rows(review.table, offset, limit)
        version = review.table.setting("version", 0)
    for row in rows:
        row["look"] = review.seen.look("train", row["index"])
    return JSONResponse({"total": total, "offset": offset, "version": version, "rows": rows})


def cause(request: Request) -> Response:
    review, at = review_of(request), request.path_params["index"]
    row = listing.cause(review.table, at) if at < 2**62 else None
    if row is None:
        raise Missing
    against = [f for j in row["conflicts_with"] if (f := listing.failure(review.table, j)) is not None]
    return JSONResponse(
        {**row, "look": review.seen.look("train", at), "failures": [_shown(review, f) for f in against]}
    )


def place(request: Request) -> Response:
    params = dict(request.query_params)
    index = params.pop("index", "")
    if not (index.isascii() and index.isdigit() and len(index) < 18):
        raise BadInput("index is missing; the request; give a position in train")
    review = review_of(request)
    offset = listing.Listing.of(params, review.table.cut).place(review.table, int(index))
    return JSONResponse({"offset": offset})


def failures(request: Request) -> Response:
    review = review_of(request)
    page = listing.failures(review.table, dict(request.query_params))
    return JSONResponse({**page, "rows": [_shown(review, row) for row in page["rows"]]})


def _shown(review: Review, row: dict[str, Any]) -> dict[str, Any]:
    """A failure with its look. Before a repair its label and prediction come from looks.json, or from the name of its
    group if groups are named by them."""
    facts = review.seen.facts("failures", row["index"])
    pair = str(row["group"]).split("→")
    if facts["label"] is None and review.by_pairs and len(pair) == 2:
        facts |= {"label": pair[0], "predicted": pair[1]}
    values = {k: row[k] if row[k] not in (None, "") else facts[k] for k in facts}
    texts = {k: None if v is None else str(v) for k, v in values.items()}
    return {**row, **texts, "look": review.seen.look("failures", row["index"])}


def history(request: Request) -> Response:
    offset, limit = listing.page_of(dict(request.query_params))
    return JSONResponse(trail.lines(review_of(request).table, offset, limit))


def curve(request: Request) -> Response:
    from amends.runs.run import Run

    review = review_of(request)
    run = Run.open(review.folder)
    chosen = run.metrics["removed"] if run.done else None
    return JSONResponse({"rows": results.plain_of(run.curve), "chosen": chosen, "cut": review.table.cut})


def estimate(request: Request) -> Response:
    return JSONResponse(stopping.estimate(review_of(request).table))


def picture(request: Request) -> Response:
    name, at = request.path_params["name"], request.path_params["index"]
    size = request.query_params.get("size", "")
    sound = name in SETS and size in SIDES and at < 2**62
    png = review_of(request).seen.picture(name, at, size) if sound else None
    if png is None:
        raise Missing
    return Response(png, media_type="image/png", headers={"cache-control": "private, max-age=3600"})


def events(request: Request) -> Response:
    """Sends the state whenever it changes, and the running job; a comment line if nothing happens for long."""
    review, person_ = review_of(request), person_of(request)
    review.seen.warm()

    async def stream() -> AsyncIterator[str]:
        version, job, quiet = None, None, 0.0
        while not request.app.state.closing.is_set():
            quiet += PAUSE
            now = await run_in_threadpool(review.table.setting, "version", 0)
            if now != version:
                version, quiet = now, 0.0
                yield _event("state", await run_in_threadpool(review.state, person_))
            last = await run_in_threadpool(_last_job, review)
            if last != job and (last is not None):
                job, quiet = last, 0.0
                yield _event("job", last)
            if quiet >= BEAT:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(PAUSE)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _last_job(review: Review) -> dict[str, Any] | None:
    last = review.table.one("select max(number) from jobs")
    return None if last is None else review.jobs.get(last)


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


def turned(way: trail.Turn) -> Callable[..., Any]:
    return change(lambda review, body, person: trail.turn(review.table, way, person, key_of(body)))


def restore(review: Review, body: dict[str, Any], person: str) -> dict[str, Any]:
    return trail.restore(review.table, body.get("to", -1), person, key_of(body))


ROUTES = [
    Route("/api/run", about),
    Route("/api/causes", listed),
    Route("/api/causes/{index:int}", cause),
    Route("/api/place", place),
    Route("/api/failures", failures),
    Route("/api/trail", history),
    Route("/api/curve", curve),
    Route("/api/estimate", estimate),
    Route("/api/events", events),
    Route("/api/pictures/{name}/{index:int}.png", picture),
    Route("/api/seen", change(seen), methods=["POST"]),
    Route("/api/cut", change(cut), methods=["POST"]),
    Route("/api/mark", change(mark), methods=["POST"]),
    Route("/api/worth", change(worth), methods=["POST"]),
    Route("/api/undo", turned(trail.BACK), methods=["POST"]),
    Route("/api/redo", turned(trail.FORTH), methods=["POST"]),
    Route("/api/restore", change(restore), methods=["POST"]),
    Route("/api/person", person, methods=["POST"]),
    Route("/api/upload", upload, methods=["POST"]),
]
