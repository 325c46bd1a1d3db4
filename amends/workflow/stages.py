"""The one path of a repair, for Python and for the command line: a search, then a round, for each group of failures.

A caller may store each stage as it ends, and go on later from what was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from amends.algorithm.identify import Identified
from amends.algorithm.problem import Problem
from amends.algorithm.rounds import Round, Search
from amends.algorithm.treat import Fitted, at_once
from amends.progress import Progress


def stages(
    problem: Problem,
    shown: Progress,
    done: Sequence[Round] = (),
    known: Identified | None = None,
    fitted: Callable[[int], Fitted] = lambda number: at_once,
) -> Iterator[Search | Round]:
    """Every stage as it ends. Rounds that are `done` are left out, and so is the search of the next round if its result
    is `known`. `fitted(number)` gives the function that makes the fits of a round."""
    rounds = list(done)
    if not rounds and known is None:
        shown.note(problem.setup.summary)
        for note in (*problem.setup.alarms, *problem.setup.notes):
            shown.note(note)
    problem.announce(rounds, known is not None, shown)
    while len(rounds) < len(problem.parts):
        search = problem.search(rounds, shown, known)
        if known is None:
            yield search
        rounds.append(problem.treat(search, rounds, shown, fitted(len(rounds))))
        yield rounds[-1]
        known = None
