"""Columns of a person's own reach the tables of a run, whatever their cells hold."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import amends
from amends.data.records import of_one_kind
from tests.worlds import lines

DAY = datetime.date(2026, 1, 1)
COLUMNS = {
    "texts": (["a", None, "b"], ["a", None, "b"]),
    "numbers": ([1, 2.5, None], [1, 2.5, None]),
    "dates": ([DAY, DAY, None], [DAY, DAY, None]),
    "prices": ([Decimal("1.50"), Decimal("2"), None], [Decimal("1.50"), Decimal("2"), None]),
    "numbers and texts": ([1, "a", None], ["1", "a", None]),
    "yes, no and a number": ([True, 2, None], ["True", "2", None]),
    "dates and texts": ([DAY, "a", None], ["2026-01-01", "a", None]),
    "a number too large": ([2**70, 1, None], [str(2**70), "1", None]),
    "half a surrogate pair": (["\ud800", "a", None], ["\\ud800", "a", None]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_cells_of_several_kinds_become_texts(name):
    cells, wanted = COLUMNS[name]
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    assert of_one_kind(column).tolist() == wanted


def test_complex_numbers_become_texts():
    assert of_one_kind(np.array([1j])).tolist() == ["1j"]
    plain = np.array([1, 2])
    assert of_one_kind(plain) is plain


@pytest.mark.parametrize("name", ["id", "note"])
@pytest.mark.parametrize("cells", ["numbers and texts", "a number too large", "half a surrogate pair"])
def test_a_run_with_such_a_column_is_saved_and_read(tmp_path, name, cells):
    """Once the result of a whole repair was lost here."""
    model, (x, y), failures, remaining = lines()
    first, *_ = COLUMNS[cells][0]
    column = [first if i == 0 else f"row {i}" if "number" not in cells or i % 2 else i for i in range(len(y))]
    table = pd.DataFrame(x.numpy(), columns=[f"x{i}" for i in range(x.shape[1])]).assign(label=y.numpy())
    table[name] = pd.Series(column, dtype=object)
    made = amends.repair(model, table, failures, remaining, remove=5, treat_with=amends.methods.fine_tune(epochs=1))
    made.save(tmp_path / "run")
    saved = pd.read_parquet(tmp_path / "run" / "causes.parquet")
    wanted = of_one_kind(table[name].to_numpy())
    assert saved.set_index("index")[name].sort_index().tolist() == [wanted[i] for i in sorted(saved["index"])]


def test_json_lines_with_such_a_column(tmp_path):
    model, (x, y), failures, remaining = lines()
    rows = [
        {f"x{j}": float(v) for j, v in enumerate(values)}
        | {"id": i if i % 2 else f"r{i}", "note": "a" if i % 3 else i, "label": int(label)}
        for i, (values, label) in enumerate(zip(x, y, strict=True))
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    train = amends.data.read(path, label="label", id="id", features=[f"x{j}" for j in range(x.shape[1])])
    amends.repair(model, train, failures, remaining, remove=5).save(tmp_path / "run")
    saved = pd.read_parquet(tmp_path / "run" / "causes.parquet")
    assert set(saved["id"]) <= {str(row["id"]) for row in rows}
