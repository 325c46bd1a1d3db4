"""The names of the columns of every table of a run, in their order."""

COLUMNS = [
    "id", "index", "rank", "score", "given", "predicted", "predicted_after", "p_given", "p_given_after",
    "suggested", "group", "conflicts_with", "decision",
]  # fmt: skip
FAILURES = ["id", "index", "part", "group", "suspect", "learned", "given", "predicted", "predicted_after"]
