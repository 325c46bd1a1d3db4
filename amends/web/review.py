"""One run under review: its folder, its decisions, how its examples look, and its repairs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from amends.errors import AmendsError, Locked
from amends.runs.disk import locked, on_disk, writable
from amends.runs.run import Run
from amends.web import causes
from amends.web.doors import token_of
from amends.web.jobs import Jobs
from amends.web.load import load
from amends.web.seen import Seen
from amends.web.table import FOLDER, Table, counts
from amends.web.trail import next_words

PAUSE = 0.3  # seconds between two looks at causes.csv and at what runs


class Review:
    """While it is open, a thread keeps causes.csv and the decisions the same."""

    def __init__(self, folder: Path, *, given: Mapping[str, Any] | None = None, trust: bool = False):
        self.run = Run.sound(folder, but=("report.html",)).trusting(trust)
        self.folder = folder
        with on_disk(folder):
            (folder / FOLDER).mkdir(exist_ok=True)
            writable(folder / FOLDER)
            self.token = token_of(folder / FOLDER)
        self.table = Table(folder)
        self.seen = Seen(self.run, self.table, given)
        self.jobs = Jobs(self.table, folder, trust)
        self._fill()
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="review", daemon=True)
        self._keeper.start()

    def _fill(self) -> None:
        if self.table.setting("file") is None:
            causes.read_now(self.table)
        looks = self.seen.looks
        self.table.set("classes", [str(c) for c in looks.get("classes") or ()])
        load(self.table, self.run)

    def close(self) -> None:
        """Writes the decisions to causes.csv, and closes. A repair that runs goes on."""
        self._closed.set()
        self._keeper.join()
        self.seen.close()
        self.follow()
        self.table.close()

    def follow(self) -> None:
        """Reads causes.csv if another tool changed it, and writes it if the page did."""
        if causes.changed(self.table):
            causes.take_in(self.table)
        causes.write(self.table)

    def _keep(self) -> None:
        while not self._closed.wait(PAUSE):
            try:
                self.follow()
                self.jobs.running()
            except (AmendsError, OSError) as e:
                causes.say_trouble(self.table, str(e))

    def state(self, person: str = "") -> dict[str, Any]:
        """What every answer to a change includes."""
        with self.table.lock:
            return {
                "version": self.table.setting("version", 0), "cut": self.table.cut, "counts": counts(self.table),
                **next_words(self.table), "person": person, "told": self.table.setting("told"),
            }  # fmt: skip

    def about(self, person: str = "") -> dict[str, Any]:
        about, looks, table = self.run.about, self.seen.looks, self.table
        return {
            "name": str(about["run"].get("name") or self.run.name), "folder": str(self.folder), "state": self.run.state,
            "made": about["run"].get("made", ""), "kind": self.seen.kind, "classes": table.setting("classes", []),
            "features": [str(f) for f in looks.get("features") or ()], "columns": self._own(),
            **table.setting("names", {}), "train": about.get("data", {}).get("train", {}).get("n"),
            "total": table.setting("total", 0), "pictures": self.seen.all, "repair": self._unrepairable(),
            **self.state(person),
        }  # fmt: skip

    def _own(self) -> list[str]:
        from amends.config.decisions import NEW
        from amends.tables.columns import COLUMNS

        return [c for c in self.table.setting("columns", []) if c not in (*COLUMNS, NEW)]

    @cached_property
    def by_pairs(self) -> bool:
        """Whether a group of failures is named by its label and the prediction."""
        try:
            return self.run.config.repair("group_by") is None
        except AmendsError:
            return False

    def _unrepairable(self) -> str:
        """Why a repair cannot be made from here, in one line."""
        try:
            _ = self.run.config
        except AmendsError as e:
            return str(e)
        return ""


@contextmanager
def opened(folder: Path, **how: Any) -> Iterator[Review]:
    """A review that nobody else has open."""
    Run.open(folder)
    home = folder / FOLDER
    with on_disk(folder):
        home.mkdir(exist_ok=True)
    address = home / "address"
    try:
        with locked(home / "open"):
            review = Review(folder, **how)
            try:
                yield review
            finally:
                review.close()
                address.unlink(missing_ok=True)
    except Locked:
        at = address.read_text(encoding="utf-8") if address.exists() else "another page"
        raise Locked(f"this run is under review already; {folder}; go on at {at}") from None
