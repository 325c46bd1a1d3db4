"""Decisions as the table of label issues that cleanlab's Datalab gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amends.config.decisions import NEW, RELABEL
from amends.export.decisions import decisions, placed, ranks, scores, undecided
from amends.export.files import Exported, as_run, place, write_file
from amends.runs.run import DONE, Run
from amends.tables.cells import write_table

if TYPE_CHECKING:
    import pandas as pd


def to_cleanlab(run: Any, out: Any = None) -> Exported:
    """A CSV with the columns of `Datalab.get_issues("label")`; its index is the position in train.

    The names are cleanlab's. `is_label_issue` says that the example was decided to go (or got another label);
    `label_score` is (rank − 1) / (N − 1) of our score, so 0 is the most harmful and lower is worse, as there.
    `predicted_label` is what the model said before, or the new label of an example that got one; it is empty where the
    run kept no prediction.
    """
    run = as_run(run)
    target = place(run, "cleanlab", out)
    table = issues(run)
    write_file(target, lambda path: write_table(table.reset_index(), path))
    return Exported("cleanlab", target, len(table), undecided(run).removesuffix("; "))


def issues(run: Any) -> pd.DataFrame:
    """The table itself, in the order of train."""
    import pandas as pd

    run = as_run(run)
    frame = decisions(run)
    known, order = frame.set_index("index"), scores(run)
    if order is None:
        at, score = frame["index"].to_numpy(), placed(run, frame)
    else:
        at, score = np.arange(len(order)), ranks(order) / max(len(order) - 1, 1)
    table = pd.DataFrame(
        {
            "is_label_issue": known["decision"].reindex(at).isin(["remove", "relabel"]).to_numpy(),
            "label_score": score,
            "given_label": _given(run, known).reindex(at).to_numpy(),
            "predicted_label": _better(known).reindex(at).to_numpy(),
        },
        index=pd.Index(at, name="index"),
    )
    return table.sort_index()


def _better(known: pd.DataFrame) -> Any:
    """The new label of each example that got one, the model's for the others."""
    relabelled = known["decision"] == RELABEL
    return known["predicted"].astype(object).mask(relabelled, known[NEW])


def _given(run: Run, known: pd.DataFrame) -> Any:
    """Given labels of all of train: a repair keeps them in dataset/, a search in its table."""
    import pandas as pd

    if run.state != DONE:
        return known["given"]
    parts = [run.dataset(name) for name in ("removed", "relabelled", "kept")]
    return pd.concat(parts, ignore_index=True).set_index("index")["given"]
