"""Every error amends raises. A message is one line: what is wrong; where; what to do.

The command line turns the class into an exit code.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LISTED = 24  # names an error lists
UNSAFE = "it holds more than numbers, and reading that could run code"


def first_line(error: BaseException) -> str:
    """The first line of another library's error, to quote inside one of ours, unless it says how to load unsafely."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return UNSAFE if any(word in line for word in ("allow_pickle", "weights_only", "trust_remote_code")) else line


def visible(text: str) -> str:
    """For a terminal: what would move the cursor, change colours or ring a bell is written out instead."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def kind_of(value: Any) -> str:
    """The type of a value with its article, such as "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def many(number: int, one: str, several: str = "") -> str:
    """A number with its noun, and a verb where there is one: 1 failure judges, 1,200 failures judge."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def nearest(name: Any, known: Iterable[Any]) -> str:
    """The end of an error about an unknown name: the name that was probably meant, or the names there are."""
    names = [str(k) for k in known]
    close = get_close_matches(str(name), names, 1)
    if close or not names:
        return f"did you mean {close[0]}?" if close else "there are none"
    return f"choose one of {', '.join(names[:LISTED])}{', ...' if len(names) > LISTED else ''}"


class AmendsError(Exception):
    """Any error amends raises on purpose: one line, also where it quotes something that takes several."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split("\n"))


class BadInput(AmendsError, ValueError):
    """Something the caller gave cannot be used as it is."""


class RunMismatch(AmendsError):
    """A run folder is damaged, or was made with other settings, another model or other data."""


class Locked(AmendsError):
    """Another process is writing the run folder."""


class DiskError(AmendsError, OSError):
    """Reading or writing failed."""


class NonFinite(AmendsError, ArithmeticError):
    """NaN or infinity where a number is needed; nothing is ranked."""


class NotConverged(AmendsError, ArithmeticError):
    """An iteration stopped before it reached its tolerance; its result would mean nothing."""


class WorkerLost(AmendsError):
    """A process that shared the work is gone; a new run continues from what was stored."""


class OutOfMemory(AmendsError, MemoryError):
    """The work does not fit; a smaller batch_size may help."""


def at_least(where: str, **given: tuple[Any, float]) -> None:
    """BadInput unless each value is a finite number of at least its bound, and whole where the bound is an int."""
    for name, (value, low) in given.items():
        kind, name_of_kind = (numbers.Integral, "whole number") if isinstance(low, int) else (numbers.Real, "number")
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= float(value) < float("inf"):
            raise BadInput(f"{name} is {value!r}; {where}; give a {name_of_kind} of {low:g} or more")
