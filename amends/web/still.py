"""A list that keeps its order while a person decides: the order, rows by position, many decisions at once."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from amends.errors import BadInput
from amends.web import listing, stopping
from amends.web.review import Review
from amends.web.routes import change, decide, review_of
from amends.web.table import counts
from amends.web.trail import NAMED

MOST = 500  # decisions of one request


def order(request: Request) -> Response:
    """A whole list, as positions in train."""
    review, params = review_of(request), dict(request.query_params)
    with review.table.lock:
        if params.get("order") == "worth" and review.table.setting("worth") != review.table.cut:
            stopping.order_by_worth(review.table)
        positions = listing.Listing.of(params, review.table.cut).positions(review.table)
        version = review.table.setting("version", 0)
    return JSONResponse({"total": len(positions), "version": version, "indices": positions})


def rows(request: Request) -> Response:
    """Causes by their positions in train, in the order requested; a position that is no cause is left out."""
    review, words = review_of(request), request.query_params.get("indices", "").split(",")
    if len(words) > listing.MOST or not all(_position(word) for word in words):
        raise BadInput(f"indices are not positions; the request; give up to {listing.MOST}, with commas between them")
    with review.table.lock:
        causes = [row for word in words if (row := listing.cause(review.table, int(word))) is not None]
    return JSONResponse({"rows": [row | {"look": review.seen.look("train", row["index"])} for row in causes]})


def counted(request: Request) -> Response:
    """What the counts would be with another cut; nothing is changed."""
    review, cut = review_of(request), request.query_params.get("cut", "")
    if not _position(cut):
        raise BadInput(f"the cut is {cut!r}; the request; give a whole number from 0 on")
    with review.table.lock:
        return JSONResponse({"cut": int(cut), "counts": counts(review.table, int(cut))})


def several(review: Review, body: dict[str, Any], person: str) -> dict[str, Any]:
    """One decision, or many in their order, each a step of its own. If some of many cannot be made they are named, and
    the others are made."""
    many = body.get("decisions")
    if many is None:
        return decide(review, body, person)
    if not isinstance(many, list) or len(many) > MOST or not all(isinstance(one, dict) for one in many):
        raise BadInput(f"decisions is not a list of decisions; the request; send up to {MOST} at once")
    changed, indices, failed = 0, {}, []
    with review.table.writing():
        for one in many:
            try:
                done = decide(review, one, person)
            except BadInput as e:
                what, *rest = str(e).split("; ")
                failed.append({"key": one.get("key"), "error": {"what": what, "todo": rest[-1] if rest else ""}})
                continue
            changed += done["changed"]
            indices |= dict.fromkeys(done["indices"])
    return {"changed": changed, "indices": list(indices)[:NAMED], "failed": failed}


def _position(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 18


ROUTES = [
    Route("/api/order", order),
    Route("/api/rows", rows),
    Route("/api/counts", counted),
    Route("/api/decide", change(several), methods=["POST"]),
]
