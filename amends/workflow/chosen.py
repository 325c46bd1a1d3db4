"""How many examples were removed and why so many, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from amends.algorithm.curve import CAUSES
from amends.algorithm.rounds import Plan, Round
from amends.errors import many


def chosen(plan: Plan, rounds: Sequence[Round]) -> str:
    """One sentence. For several rounds one each, under the names of their groups, and without the numbers tried, as a
    round that is read back from a folder does not have them."""
    if len(rounds) == 1:
        return _of(plan, rounds[0], sorted({p.removed for p in rounds[0].points if p.by == CAUSES}))
    return "; ".join(f"{', '.join(r.search.part.names)}: {_of(plan, r, ())}" for r in rounds)


def _of(plan: Plan, ended: Round, tried: Sequence[int]) -> str:
    gone, scores = len(ended.removed), ended.search.influence.scores
    guard = " and the right examples that guard" if len(ended.search.part.guard) else ""
    harmful, shown, n = int((scores > 0).sum()), ended.search.influence.wrong, len(scores)
    if isinstance(plan.remove, np.ndarray):
        text = f"the {many(len(plan.remove), 'example')} picked by a person"
        if relabelled := len(getattr(plan.method.editor, "labels", ())):
            text += f", of which {relabelled:,} {'was' if relabelled == 1 else 'were'} relabelled"
    elif plan.remove is not None:
        text = f"the {many(plan.remove, 'highest score')}, as many as were asked for"
    elif not harmful:
        return f"none of the {n:,} training examples conflicts with the failures, so nothing was tried"
    elif not gone:
        return f"nothing; {_numbers(tried)} made no repair, see the verdict" if tried else "nothing; see the verdict"
    else:
        return (
            f"the {many(gone, 'highest score')} of {n:,}: of {_numbers(tried)}, none was clearly better on the "
            f"failures searched with{guard}{_more(gone, tried, shown or harmful)}"
        )
    return text if gone else f"nothing, though this was tried: {text}; see the verdict"


def _numbers(tried: Sequence[int]) -> str:
    if not tried:
        return "the numbers tried"
    if len(tried) == 1:
        return f"the one number tried ({tried[0]:,})"
    return f"the {len(tried)} numbers tried ({', '.join(f'{k:,}' for k in tried)})"


def _more(gone: int, tried: Sequence[int], conflicting: int) -> str:
    """If the largest number was the best: a hint that there may be more to find."""
    if not tried or gone < max(tried) or conflicting <= gone:
        return ""
    more = many(conflicting - gone, "more conflicts", "more conflict")
    return f"; it is the largest of them, and {more} with the failures"
