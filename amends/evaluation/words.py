"""What each accuracy of a result is over, in words."""

from __future__ import annotations

OVER = {
    "query": "failures searched with",
    "holdout": "failures that only judge",
    "remaining": "examples that were right and only judge",
    "overall": "of holdout and remaining, in the proportion given",
    "evaluation": "held-out examples given, including those searched with, chosen by and learned from",
}


def over(name: str, number: int) -> str:
    """How many, and what they are."""
    words = OVER[name]
    one = words.replace("failures that only judge", "failure that only judges").replace("failures", "failure")
    one = one.replace("examples that were right and only judge", "example that was right and only judges")
    return f"{number} {words if number != 1 else one.replace('examples', 'example')}"
