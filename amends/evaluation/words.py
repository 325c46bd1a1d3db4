"""What each accuracy of a result is over, in words."""

from __future__ import annotations

OVER = {
    "query": "failures searched with",
    "holdout": "failures that only judge",
    "remaining": "examples that were right and only judge",
    "overall": "of holdout and remaining, in the proportion given",
    "evaluation": "held-out examples given, including those searched with, chosen by and learned from",
}
