"""A list that stands still while one decides: its order by positions, its rows by position, many decisions at once."""

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
    """All of a list, as positions in train."""
    review, asked = review_of(request), dict(request.query_params)
    with review.table.lock:
        if asked.get("order") == "worth" and review.table.setting("worth") != review.table.cut:
            stopping.order_by_worth(review.table)
        found = listing.Listing.of(asked, review.table.cut).positions(review.table)
        version = review.table.setting("version", 0)
    return JSONResponse({"total": len(found), "version": version, "indices": found})


def rows(request: Request) -> Response:
    """Some causes by their positions in train, in the order asked for; what is no cause is left out."""
    review, said = review_of(request), request.query_params.get("indices", "").split(",")
    if len(said) > listing.MOST or not all(_position(word) for word in said):
        raise BadInput(f"indices are not positions; the request; give up to {listing.MOST}, with commas between them")
    with review.table.lock:
        found = [row for word in said if (row := listing.cause(review.table, int(word))) is not None]
    return JSONResponse({"rows": [row | {"look": review.seen.look("train", row["index"])} for row in found]})


def counted(request: Request) -> Response:
    """What the counts would be with another cut; nothing is changed."""
    review, said = review_of(request), request.query_params.get("cut", "")
    if not _position(said):
        raise BadInput(f"the cut is {said!r}; the request; give a whole number from 0 on")
    with review.table.lock:
        return JSONResponse({"cut": int(said), "counts": counts(review.table, int(said))})


def several(review: Review, said: dict[str, Any], person: str) -> dict[str, Any]:
    """One decision, or many in their order, each a step of its own. Of many, one that cannot be made is named, and
    the others are made."""
    many = said.get("decisions")
    if many is None:
        return decide(review, said, person)
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
