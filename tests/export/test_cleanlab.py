"""Decisions as label issues for cleanlab."""

from __future__ import annotations

import numpy as np
import pandas as pd

from amends import export
from tests.export.folders import at


def test_cleanlab_issues_cover_train_and_lower_is_worse(digits, tmp_path):
    export.to_cleanlab(digits / "whole", tmp_path / "issues.csv")
    found = pd.read_csv(tmp_path / "issues.csv", index_col=0)
    assert found.columns.tolist() == ["is_label_issue", "label_score", "given_label", "predicted_label"]
    with np.load(digits / "whole/identified/scores.npz") as kept, np.load(digits.parent / "train.npz") as train:
        assert found.index.tolist() == list(range(len(kept["scores"])))
        assert np.array_equal(
            np.argsort(found["label_score"], kind="stable"), np.argsort(-kept["scores"], kind="stable")
        )
        assert found["given_label"].tolist() == train["y"].tolist()
    assert (found["label_score"].min(), found["label_score"].max()) == (0, 1)
    assert found.index[found["is_label_issue"]].tolist() == sorted(at(digits / "whole", "removed").index)
    causes = pd.read_parquet(digits / "whole/causes.parquet").set_index("index")
    assert found.loc[causes.index, "predicted_label"].tolist() == causes["predicted"].tolist()
    assert export.issues(digits / "found")["predicted_label"].notna().all()
    assert not export.issues(digits / "found")["is_label_issue"].any()


def test_a_relabelled_example_has_its_new_label(texts):
    """So that it is told apart from one that goes."""
    moved, found = at(texts / "changed", "relabelled"), export.issues(texts / "changed")
    assert len(moved)
    assert found.loc[moved.index, "is_label_issue"].all()
    assert found.loc[moved.index, "predicted_label"].tolist() == moved["label"].astype(str).tolist()
