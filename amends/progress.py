"""Progress on stderr, with how much is done and how long the rest should take: one line that changes on a terminal, a
few plain lines elsewhere, and nothing if it is not wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from amends.errors import many

QUIET = 30.0  # seconds between two lines of one part of the work, off a terminal
TRUST = 0.25  # weight of the first guess of a rate against measured steps, as a share of all work of its kind


@dataclass(frozen=True)
class Part:
    """A part of the work: the name it is announced by, its steps, and the cost of a step in units of its kind. Of the
    steps in `perhaps` nobody knows beforehand whether they are needed."""

    name: str
    kind: str
    steps: int
    cost: float
    perhaps: int = 0


@dataclass
class Course:
    """How far the work is. `rates` are seconds for a unit of each kind, if known beforehand; the times of finished
    steps count more and more against them. A part that is left early counts as done."""

    parts: Sequence[Part]
    rates: Mapping[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _at: int = -1
    _step: int = 0
    _since: float = 0.0
    _more: int = 0  # steps made so far that were only perhaps needed
    _spent: dict[str, tuple[float, float]] = field(default_factory=dict)  # seconds and units of the steps that ended

    def begin(self, name: str) -> bool:
        """Begins the part of this name, also for a second time. False if there is none."""
        names = [part.name for part in self.parts]
        if name not in names:
            return False
        if self._at >= 0 and names[self._at] == name:
            return True
        self._end()
        later = names[self._at + 1 :]
        self._at = self._at + 1 + later.index(name) if name in later else names.index(name)
        self._step = 0
        return True

    def step(self) -> None:
        """The next step of this part begins."""
        self._end()
        self._step += 1
        self._since = self.clock()
        part = self.parts[self._at] if self._at >= 0 else None
        if part is not None and part.steps < self._step <= part.steps + part.perhaps:
            self._more += 1

    def _end(self) -> None:
        if self._at >= 0 and self._step:
            part = self.parts[self._at]
            seconds, units = self._spent.get(part.kind, (0.0, 0.0))
            self._spent[part.kind] = seconds + self.clock() - self._since, units + part.cost

    @property
    def number(self) -> int:
        """The number of this step among all, from 1."""
        steps = self.parts[self._at].steps if self._at >= 0 else 0
        before = sum(part.steps for part in self.parts[: max(0, self._at)])
        return max(1, before + min(max(1, self._step), steps) + self._more)

    @property
    def total(self) -> int:
        """How many steps are needed, as far as that is known."""
        known = sum(part.steps for part in self.parts) + self._more
        if not self._needed:
            return known
        part = self.parts[self._at]
        return known + max(0, part.steps + part.perhaps - max(part.steps, self._step))

    @property
    def _needed(self) -> bool:
        """Whether the steps that this part perhaps needed turned out to be needed."""
        part = self.parts[self._at] if self._at >= 0 else None
        return part is not None and part.perhaps > 0 and (self._step > part.steps or not part.steps)

    def left(self, perhaps: bool = False) -> float | None:
        """Seconds until the end, or None if that is not known yet; with `perhaps`, also of steps that may be needed."""
        seconds = 0.0
        for kind in {part.kind for part in self.parts}:
            units = self._units_left(kind, perhaps)
            rate = self._rate(kind)
            if units and rate is None:
                return None
            seconds += units * (rate or 0.0)
        if self._at >= 0 and self._step:
            current = self.parts[self._at]
            running = current.cost * (self._rate(current.kind) or 0.0)
            seconds += max(0.0, running - (self.clock() - self._since))
        return seconds

    def _units_left(self, kind: str, perhaps: bool) -> float:
        """The cost of the steps of a kind that have not begun."""

        def steps(part: Part, needed: bool) -> int:
            return part.steps + (part.perhaps if perhaps or needed else 0)

        units = sum(steps(part, False) * part.cost for part in self.parts[self._at + 1 :] if part.kind == kind)
        if self._at >= 0 and self.parts[self._at].kind == kind:
            current = self.parts[self._at]
            units += max(0, steps(current, self._needed) - self._step) * current.cost
        return units

    def _rate(self, kind: str) -> float | None:
        seconds, units = self._spent.get(kind, (0.0, 0.0))
        guess = self.rates.get(kind)
        if guess is None:
            return seconds / units if units else None
        weight = TRUST * sum(part.steps * part.cost for part in self.parts if part.kind == kind)
        return (guess * weight + seconds) / (weight + units) if weight + units else guess


def duration(seconds: float) -> str:
    """A duration in words."""
    if seconds < 90:
        return many(max(1, round(seconds)), "second")
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def between(least: float, most: float) -> str:
    """Two durations in words, the unit once; one where they are the same in words."""
    low, high = duration(least), duration(most)
    if low == high:
        return high
    number, unit = low.split()
    return f"{number if unit.rstrip('s') == high.split()[1].rstrip('s') else low} to {high}"


@dataclass
class Progress:
    """`say` shows what is being done; `counter` does too, and returns a function to call after each step. With a `plan`
    both also show how much is done and how long the rest should take."""

    bar: Any = None
    lines: bool = False
    _task: Any = None
    _course: Course | None = None
    _what: str = ""
    _shown_at: float = float("-inf")

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

            columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
            with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
                yield cls(bar=bar, _task=bar.add_task(""))

    @property
    def seen(self) -> bool:
        return self.bar is not None or self.lines

    def plan(self, parts: Sequence[Part], rates: Mapping[str, float]) -> None:
        """Sets the parts of all work from here on."""
        self._course = Course(parts, rates)

    def say(self, what: str) -> None:
        """Begins a part of the plan, or if the plan has none of this name, only shows the name."""
        self._what = what
        if self._course is not None:
            self._course.begin(what)
        self._show(what)

    def counter(self, what: str) -> Callable[[int], None]:
        """Begins the next step of the current part, or of another part if `what` is its name."""
        course = self._course
        if course is None or course.begin(what):
            self._what = what
        if course is not None:
            course.step()
        name = self._what if what == self._what else f"{self._what}, {what}"
        if course is None or what == self._what or self.bar is not None or self._quiet_for(QUIET):
            self._show(name)

        def count(i: int) -> None:
            if self.bar is not None or (self.lines and self._quiet_for(QUIET)):
                self._show(f"{name}, step {i + 1}")

        return count

    def note(self, what: str) -> None:
        """A line that stays."""
        if self.bar is not None:
            self.bar.console.print(f"note: {what}", markup=False, highlight=False)
        elif self.lines:
            print(f"note: {what}", file=sys.stderr, flush=True)

    def _show(self, what: str) -> None:
        if not self.seen:
            return
        course = self._course
        if course is not None:
            least, most = course.left(), course.left(perhaps=True)
            what = f"{course.number} of {course.total}: {what}"
            what += "" if least is None or most is None else f"; about {between(least, most)} left"
        if self.bar is not None:
            self.bar.update(self._task, description=what)
        else:
            print(what, file=sys.stderr, flush=True)
            self._shown_at = time.monotonic()

    def _quiet_for(self, seconds: float) -> bool:
        return time.monotonic() - self._shown_at >= seconds
