"""The server itself: a port, one printed line with the address, and a browser."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amends.errors import BadInput, DiskError
from amends.web.doors import Doors
from amends.web.review import opened
from amends.web.table import FOLDER

HOME = "127.0.0.1"
NEEDED = "the review page needs Starlette and uvicorn; amends review; run: pip install 'amends[review]'"
OPEN_TO_ALL = (
    "warning: {} is not loopback: whoever reaches this port and has the address can read the training data, decide and "
    "start repairs; nothing is encrypted"
)


@dataclass(frozen=True)
class Where:
    """How the page is reached."""

    host: str = HOME
    port: int = 0
    prefix: str = ""
    hosts: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()

    @property
    def loopback(self) -> bool:
        return self.host in (HOME, "localhost", "::1")

    def socket(self) -> socket.socket:
        """Bound, so that the port is known before anything is served."""
        kind = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        sock = socket.socket(kind, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((self.host, self.port))
            sock.listen(100)  # a browser that is faster than the server waits
        except (OSError, OverflowError) as e:
            sock.close()
            raise BadInput(f"port {self.port} of {self.host} cannot be taken ({e}); --port; give another") from None
        return sock

    def doors(self, token: str, port: int) -> Doors:
        name = f"[{self.host}]" if ":" in self.host else self.host
        own = () if self.loopback or self.host in ("0.0.0.0", "::") else (f"{name}:{port}",)
        return Doors(token, port, (*own, *self.hosts), self.frames, self.prefix.rstrip("/"))

    def address(self, token: str, port: int) -> str:
        name = HOME if self.host in ("0.0.0.0", "localhost") else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{port}{self.prefix.rstrip('/')}/?token={token}"


def installed() -> None:
    """BadInput where the extra is missing."""
    try:
        import starlette
        import uvicorn  # noqa: F401

        _ = starlette
    except ImportError:
        raise BadInput(NEEDED) from None


def serve(folder: Path, where: Where, *, browser: bool = True, trust: bool = False) -> None:
    """Serves the page until it is interrupted."""
    installed()
    sock = where.socket()
    try:
        port = sock.getsockname()[1]
        with opened(folder, trust=trust) as review:
            doors = where.doors(review.token, port)
            address = where.address(review.token, port)
            keep_address(folder, address)
            if not where.loopback:
                print(OPEN_TO_ALL.format(where.host), file=sys.stderr)
            print(address, flush=True)
            if browser:
                import webbrowser

                webbrowser.open(address)
            uvicorn_of(review, doors).run(sockets=[sock])
    finally:
        sock.close()


def keep_address(folder: Path, address: str) -> None:
    """Stores the address for a second review of the run to name; only the user can read it."""
    import os

    path = folder / FOLDER / "address"
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write(address)
    except OSError as e:
        raise DiskError(f"{e.strerror}; {path}; check the permissions of the folder") from None


def uvicorn_of(review: Any, doors: Doors, log: str = "error", headers: Sequence[tuple[str, str]] = ()) -> Any:
    """A server that sends no header about itself."""
    import uvicorn

    from amends.web.app import app_of

    config = uvicorn.Config(
        app_of(review, doors), log_level=log, access_log=False, server_header=False, proxy_headers=False,
        headers=list(headers), timeout_graceful_shutdown=2, lifespan="on",
    )  # fmt: skip
    return uvicorn.Server(config)
