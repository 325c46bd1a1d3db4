"""Progress on stderr: a spinner on a terminal, plain lines elsewhere, nothing unless asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Progress:
    """`say` shows what is being done; `counter` does too, and returns a function to call after each step."""

    bar: Any = None
    lines: bool = False
    _task: Any = None

    @classmethod
    @contextmanager
    def shown(cls, wanted: bool | None) -> Iterator[Progress]:
        """None means: on a terminal only."""
        terminal = sys.stderr.isatty()
        if wanted is False or (wanted is None and not terminal):
            yield cls()
        elif not terminal:
            yield cls(lines=True)
        else:
            from rich.console import Console
            from rich.progress import Progress as Bar
            from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
            with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
                yield cls(bar=bar, _task=bar.add_task(""))

    def say(self, what: str) -> None:
        if self.bar is not None:
            self.bar.update(self._task, description=what)
        elif self.lines:
            print(what, file=sys.stderr, flush=True)

    def note(self, what: str) -> None:
        """A line that stays."""
        if self.bar is not None:
            self.bar.console.print(f"note: {what}", markup=False, highlight=False)
        elif self.lines:
            print(f"note: {what}", file=sys.stderr, flush=True)

    def counter(self, what: str) -> Callable[[int], None]:
        self.say(what)

        def count(i: int) -> None:
            if self.bar is not None:
                self.bar.update(self._task, description=f"{what}, step {i + 1}")

        return count
