"""Who may come in: a token in the address once, then a cookie; only known hosts and our own page; nothing inline."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from amends.errors import BadInput

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors {}"
)
READING = ("GET", "HEAD")
NAME = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")  # of a host
SOURCE = re.compile(r"https?://[A-Za-z0-9.\[\]:*-]+")  # of a page that may hold ours in a frame
ONWARD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>amends</title><meta http-equiv="refresh" content="0; url=./"></head>
<body><p><a href="./">Go on to the review</a></p></body></html>
"""


def token_of(folder: Path) -> str:
    """The token of a run's review: 256 bits that only the user can read, kept so that open pages still
    work when the server is started again."""
    path = folder / "token"
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        kept = path.read_text(encoding="ascii").strip()
        if re.fullmatch(r"[0-9a-f]{64}", kept):
            return kept
        path.unlink()
        return token_of(folder)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(32))
    return token_of(folder)


@dataclass(frozen=True)
class Doors:
    """`hosts` are allowed names other than loopback; `frames` are pages that may show ours in a frame; `prefix` is the
    path of the page behind a proxy."""

    token: str
    port: int
    hosts: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    prefix: str = ""

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not NAME.fullmatch(_apart(host)[0]):
                raise BadInput(f"{host!r} is not the name of a host; --allow-host; give one such as lab.example.org")
        for page in self.frames:
            if not SOURCE.fullmatch(page):
                raise BadInput(
                    f"{page!r} is not an address; --frame-ancestor; give one such as https://lab.example.org"
                )
        if self.prefix and not re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+", self.prefix):
            raise BadInput(f"{self.prefix!r} is not a path; --root-path; give one such as /review")

    @property
    def cookie(self) -> str:
        """The name of the cookie. All ports of a host share cookies, so each review has a name of its own."""
        return f"amends-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    @property
    def pass_word(self) -> str:
        return hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every answer."""
        ancestors = " ".join(("'self'", *self.frames)) if self.frames else "'none'"
        return {
            "content-security-policy": POLICY.format(ancestors), "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer", "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin", "cache-control": "no-store",
            **({} if self.frames else {"x-frame-options": "DENY"}),
        }  # fmt: skip

    def knows_host(self, hosts: Sequence[str]) -> bool:
        """Exactly one Host: loopback at our port, or an allowed one (at any port if none was named)."""
        if len(hosts) != 1:
            return False
        name, port = _apart(hosts[0].lower())
        if name in LOOPBACK:
            return port == str(self.port) or (not port and self.port == 80) or self._allowed(name, port)
        return self._allowed(name, port)

    def _allowed(self, name: str, port: str) -> bool:
        return any(_apart(host.lower()) in ((name, port), (name, "")) for host in self.hosts)

    def knows_origin(self, origins: Sequence[str], host: str) -> bool:
        """Exactly one Origin: the page the request goes to. Behind a proxy the scheme may be another."""
        if len(origins) != 1:
            return False
        parts = urlsplit(origins[0])
        return parts.scheme in ("http", "https") and f"{parts.scheme}://{host}".lower() == origins[0].lower()

    def has_token(self, query: bytes) -> bool:
        tokens = parse_qs(query.decode("latin-1")).get("token", [])
        return len(tokens) == 1 and hmac.compare_digest(tokens[0].encode(), self.token.encode())

    def has_cookie(self, lines: Sequence[str]) -> bool:
        return any(hmac.compare_digest(c.encode(), self.pass_word.encode()) for c in cookies(lines, self.cookie))


def cookies(lines: Sequence[str], name: str) -> list[str]:
    """The values of a cookie in the headers of a request."""
    try:
        return [jar[name].value for jar in (SimpleCookie(line) for line in lines) if name in jar]
    except CookieError:
        return []


def _apart(host: str) -> tuple[str, str]:
    """Name and port."""
    inside = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?", host)
    return (inside[1], inside[2] or "") if inside else (host, "")


class Guard:
    """ASGI middleware before every route: a request that may not come in is answered here and goes no further."""

    def __init__(self, app: Any, doors: Doors):
        self.app, self.doors = app, doors

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None  # no web sockets here
        bare = bool(self.doors.prefix) and scope["path"] == self.doors.prefix
        scope = self._below(scope)
        headers = _headers(scope)
        refused = self._refusal(scope, headers)
        if refused:
            return await self._answer(send, 403, json.dumps({"error": _refused(refused)}).encode(), "application/json")
        if bare and scope["method"] in READING:  # addresses in the page count from the slash
            query = b"?" + scope["query_string"] if scope["query_string"] else b""
            location = [(b"location", f"{self.doors.prefix}/".encode() + query)]
            return await self._answer(send, 307, b"", "text/plain", location)
        if scope["path"] == "/" and b"token" in scope["query_string"] and self.doors.has_token(scope["query_string"]):
            return await self._answer(send, 200, ONWARD.encode(), "text/html; charset=utf-8", self._cookie())
        if not self.doors.has_cookie(headers.get("cookie", [])):
            what = "this page needs the address that amends review printed, with its token"
            return await self._answer(send, 403, json.dumps({"error": _refused(what)}).encode(), "application/json")
        return await self.app(scope, receive, self._with_headers(send))

    def _below(self, scope: Any) -> Any:
        """The scope without the prefix, if a proxy left it in the path."""
        prefix, path = self.doors.prefix, scope["path"]
        if prefix and (path == prefix or path.startswith(prefix + "/")):
            return {**scope, "path": path[len(prefix) :] or "/", "raw_path": None, "root_path": ""}
        return {**scope, "root_path": ""}

    def _refusal(self, scope: Any, headers: Mapping[str, list[str]]) -> str:
        """Why a request may not come in; empty if it may."""
        hosts, reading = headers.get("host", []), scope["method"] in READING
        if not self.doors.knows_host(hosts):
            return "the request names a host that this page does not have; allow it with --allow-host"
        if not reading and not self.doors.knows_origin(headers.get("origin", []), hosts[0]):
            return "the request comes from another page"
        site, mode = (headers.get(f"sec-fetch-{k}", [""])[0] for k in ("site", "mode"))
        opening = reading and mode == "navigate" and scope["path"] == "/"
        if site in ("cross-site", "same-site") and not opening:
            return "the request comes from another page"
        return ""

    def _cookie(self) -> list[tuple[bytes, bytes]]:
        d = self.doors
        value = f"{d.cookie}={d.pass_word}; Path={d.prefix or ''}/; HttpOnly; SameSite=Strict; Max-Age=2592000"
        return [(b"set-cookie", value.encode())]

    async def _answer(self, send: Any, status: int, body: bytes, kind: str, more: Any = ()) -> None:
        headers = {**self.doors.headers, "content-type": kind, "content-length": str(len(body))}
        pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": [*pairs, *more]})
        await send({"type": "http.response.body", "body": body})

    def _with_headers(self, send: Any) -> Any:
        ours = [(k.encode(), v.encode()) for k, v in self.doors.headers.items()]

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {k.lower() for k, _ in message["headers"]}
                message = {**message, "headers": [*message["headers"], *(p for p in ours if p[0] not in present)]}
            await send(message)

        return sent


def _headers(scope: Any) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _refused(what: str) -> dict[str, str]:
    return {"what": what, "where": "", "todo": "open the address that amends review printed"}
