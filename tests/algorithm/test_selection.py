"""Causes picked from scores, or given as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import amends
from amends.algorithm import selection
from amends.errors import BadInput
from amends.tables.cells import write_table
from tests.worlds import TRAIN, same_weights


def test_a_table_of_causes_finds_them_by_id_wherever_they_stand(planted, result):
    """In the order of another day, without one that somebody decided to keep."""
    net, (x, y) = planted[0], planted[1]
    names = np.array([f"case {i}" for i in range(TRAIN)], dtype=object)
    table = result.causes.assign(id=names[result.causes["index"]])
    table.loc[0, "decision"] = "keep"
    order = np.random.default_rng(1).permutation(TRAIN)
    moved = amends.data.Records(x[order], y[order], {"id": names[order]})
    wanted = np.flatnonzero(np.isin(order, table["index"][1:]))
    assert selection.indices(table, TRAIN, names[order]).tolist() == wanted.tolist()
    forgotten = amends.treat(net, moved, causes=table)
    assert same_weights(forgotten, amends.treat(net, moved, causes=wanted))
    with pytest.raises(BadInput, match="no training example has the id 'case 400'; causes; give a table made of"):
        amends.treat(net, moved, causes=table.assign(id="case 400"))
    twice = np.array([f"pair {i // 2}" for i in range(TRAIN)], dtype=object)
    own = result.causes.assign(id=twice[result.causes["index"]])
    assert selection.indices(own, TRAIN, twice).tolist() == sorted(result.removed), "where they stood, they still stand"
    numbered = pd.DataFrame({"id": [3, 4], "index": [3, 4]})
    assert selection.indices(numbered, 5, np.arange(5)[::-1]).tolist() == [0, 1]
    plain = result.causes.drop(columns="decision")
    assert selection.indices(plain, TRAIN, names).tolist() == sorted(result.removed), (
        "without ids of its own: by position"
    )


def as_read(table, tmp_path):
    """Every cell as text, as the page on reviewing reads causes.csv."""
    write_table(table, tmp_path / "causes.csv")
    return pd.read_csv(tmp_path / "causes.csv", dtype=str, keep_default_na=False)


@pytest.mark.parametrize("prefix", ["", "=", "-", "@", "'+"])
def test_a_table_read_back_as_text_says_the_same(tmp_path, prefix):
    names = np.array([f"{prefix}A{i}" for i in range(6)], dtype=object)
    table = pd.DataFrame({"id": names[[4, 1]], "index": [4, 1], "decision": ["remove", "keep"]})
    read = as_read(table, tmp_path)
    assert selection.indices(read, 6, names).tolist() == [4]
    assert selection.indices(read.drop(columns="index"), 6, names).tolist() == [4]
    assert selection.indices(read.drop(columns="id"), 6).tolist() == [4]
    with pytest.raises(BadInput, match="a cell of the column index is not a whole number"):
        selection.indices(read[:1].drop(columns="id").assign(index="four"), 6)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_examples_without_an_id_are_found_by_position(missing):
    names = np.array(["a", missing, "c", missing], dtype=object)
    table = pd.DataFrame({"id": names[[3, 0]], "index": [3, 0]})
    assert selection.indices(table, 4, names).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("decisions", "why"),
    [(["keep", "", ""], "no row says remove or relabel"), (["remove"] * 3, "every row of the table removes")],
)
def test_a_table_of_all_of_train_must_say_what_goes(decisions, why):
    """Of a part of train, rows without a decision go; of all of it, nearly everything would."""
    table = pd.DataFrame({"index": [0, 1, 2], "decision": decisions})
    with pytest.raises(BadInput, match=why):
        selection.indices(table, 3)
    part = selection.indices(table, 4)
    assert part.tolist() == [i for i, word in enumerate(decisions) if word != "keep"]


def test_selection_is_stable_and_takes_masks():
    scores = np.array([1.0, 3.0, 3.0, -1.0])
    assert selection.top(scores, 3).tolist() == [1, 2, 0]
    assert selection.top(scores, np.int64(1)).tolist() == [1]
    assert selection.positive(scores).tolist() == [1, 2, 0]
    assert selection.fraction(scores, 0.5).tolist() == [1, 2]
    assert selection.indices(np.array([False, True, False, True]), 4).tolist() == [1, 3]
    assert selection.indices(torch.tensor([3, 0, 3]), 4).tolist() == [0, 3]
    assert selection.indices([], 4).tolist() == []
