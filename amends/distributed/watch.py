"""Notices at once which of the processes that torchrun started is lost, and names it in one line.

Every rank keeps a line open to rank 0. A process that stops with an error says so on it; one that is killed leaves it
dead, which the system notices at once, wherever it ran. Then rank 0 prints the one line there is to read and ends,
even where its own work waits for the one that is gone. Where rank 0 is lost, rank 1 does so in its place.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch.distributed as dist

from amends.distributed.group import GRACE, WATCHED, broadcast

BYE = "bye"
AGAIN = "start the same command again: what was finished is kept"


@dataclass(eq=False)
class Watch:
    """The lines to the other processes. `over` is set once this process has reported its end; whoever stops after that
    is not lost."""

    lines: list[socket.socket] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    turn: threading.Lock = field(default_factory=threading.Lock)
    listening: list[threading.Thread] = field(default_factory=list)

    def until_the_others_end(self) -> None:
        """Waits for them, but not for long. torchrun stops all processes once one ends with an error, and rank 0 has
        to print its line before that."""
        for thread in self.listening:
            thread.join(3 * GRACE)

    def say(self, text: str) -> None:
        """Sends the text over every line; lines whose other side is gone are skipped."""
        for line in self.lines:
            try:
                line.sendall(f"{text}\n".encode())
            except OSError:
                continue

    def listen(self, line: socket.socket, rank: int, host: str) -> None:
        """Until the other side says goodbye, or is lost."""
        last = ""
        try:
            for words in line.makefile(encoding="utf-8", errors="replace"):
                if words.strip() == BYE:
                    if not last:
                        return
                    break
                last = words.strip()
        except OSError:
            pass
        if last and self.over.wait(GRACE):
            return
        with self.turn:
            if self.over.is_set():
                return
            lost = f"rank {rank} was lost, killed from outside or for want of memory; {host}; {AGAIN}"
            if dist.get_rank() == 0 or (rank == 0 and dist.get_rank() == 1):
                error = f"rank {rank}: {last.removeprefix('error: ')}" if last else lost
                print(f"error: {error}", file=sys.__stderr__, flush=True)
            os._exit(1)


@contextmanager
def watched() -> Iterator[Watch]:
    """Inside, a rank that is lost ends all of them."""
    watch, rank, world = Watch(), dist.get_rank(), dist.get_world_size()
    near = os.environ.get("MASTER_ADDR", "localhost")
    server = None
    if rank == 0:
        server = socket.create_server(("127.0.0.1" if near in ("localhost", "127.0.0.1") else "", 0), backlog=world)
    mine = (server.getsockname()[1] if server else 0, secrets.token_hex(16), socket.gethostname())
    port, token, host = broadcast(mine)
    if server is not None:
        others = [_answered(server, token) for _ in range(world - 1)]
    else:
        line = socket.create_connection((near, port), timeout=60)
        line.settimeout(None)
        line.sendall(f"{token} {rank} {socket.gethostname()}\n".encode())
        others = [(line, 0, host)]
    watch.lines = [line for line, *_ in others]
    for other in others:
        watch.listening.append(threading.Thread(target=watch.listen, args=other, daemon=True))
        watch.listening[-1].start()
    WATCHED.set()
    try:
        yield watch
    finally:
        WATCHED.clear()
        with watch.turn:
            watch.over.set()
        watch.say(BYE)
        if server is not None:
            server.close()


def _answered(server: socket.socket, token: str) -> tuple[socket.socket, int, str]:
    """The next line that opens with the token, and who is on it."""
    while True:
        line, _ = server.accept()
        line.settimeout(60)
        words = line.recv(256).decode(errors="replace").split()
        if len(words) == 3 and hmac.compare_digest(words[0], token):
            line.settimeout(None)
            return line, int(words[1]), words[2]
        line.close()
