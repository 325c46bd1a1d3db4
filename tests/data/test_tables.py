"""CSV and parquet: features, images and texts named in a table, and targets of every kind."""

from __future__ import annotations

import io

import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_breast_cancer

from amends.data import read
from amends.errors import BadInput
from tests.files import (
    FLOATS,
    LABELS,
    PIXELS,
    TEXTS,
    N,
    folder,
    lengths,
    same,
)  # fmt: skip


def test_numbers_that_can_only_be_names_of_classes_are_taken_by_name(tmp_path):
    pd.DataFrame({"a": [0.1, 0.2, 0.3], "label": [5, 10, 10]}).to_csv(tmp_path / "t.csv", index=False)
    assert read(tmp_path / "t.csv", classes=["10", "5"]).y.tolist() == [1, 0, 0]
    pd.DataFrame({"a": [0.1, 0.2, 0.3], "label": [0, 1, 1]}).to_csv(tmp_path / "t.csv", index=False)
    assert read(tmp_path / "t.csv", classes=["cat", "dog"]).y.tolist() == [0, 1, 1]
    assert read(tmp_path / "t.csv", classes=["1", "2"]).y.tolist() == [0, 1, 1]


def test_a_word_in_a_column_of_numbers_is_named(tmp_path):
    """Left out, the column would be missed by the model alone."""
    frame = pd.DataFrame({"a": range(40), "b": [*map(str, range(39)), "abc"], "label": [0, 1] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(BadInput, match=r"column b holds 'abc'; .*t.csv line 41; give numbers, or name the inputs"):
        read(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv", features=["a"]).x.shape == (40, 1)


def test_a_table_with_semicolons_is_told_from_one_with_commas(tmp_path):
    pd.DataFrame({"a": [1, 2], "label": [0, 1]}).to_csv(tmp_path / "t.csv", index=False, sep=";")
    with pytest.raises(BadInput, match=r"the columns are separated by semicolons; .*t.csv; save it with commas"):
        read(tmp_path / "t.csv")


def features_table():
    cancer = load_breast_cancer(as_frame=True)
    frame = cancer.data.iloc[:40].rename(columns=str).copy()
    return frame.assign(id=[f"p{i:02}" for i in range(40)], label=cancer.target_names[cancer.target[:40]], note="n")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet"])
def test_features(tmp_path, ending):
    frame, path = features_table(), tmp_path / f"t.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    records = read(path)
    assert records.classes == ("benign", "malignant")
    numbers = frame.drop(columns=["id", "label", "note"])
    same(
        records,
        torch.tensor(numbers.to_numpy(), dtype=torch.float32),
        (frame["label"] == "malignant").to_numpy().astype(int),
    )
    assert records.features == tuple(numbers.columns)
    assert records.columns["id"].tolist() == frame["id"].tolist()
    assert set(records.columns) == {"id", "note"}
    turned = read(path, classes=["malignant", "benign"], features=["mean area", "mean radius"], id="note")
    assert torch.equal(turned.y, 1 - records.y)
    assert torch.equal(turned.x, records.x[:, [3, 0]])
    assert turned.features == ("mean area", "mean radius")
    assert turned.columns["id"].tolist() == ["n"] * 40
    mean, std = records.x.mean(0), records.x.std(0)
    assert torch.equal(read(path, mean=mean, std=std).x, (records.x - mean) / std)


def test_images_named_in_a_table(tmp_path):
    root = folder(tmp_path)
    files = sorted(str(p.relative_to(tmp_path)) for p in root.rglob("*.png"))
    at = [int(f[-7:-4]) for f in files]
    pd.DataFrame({"file": files, "target": LABELS[at], "id": at}).to_csv(tmp_path / "t.csv", index=False)
    records = read(tmp_path / "t.csv", gray=True)
    same(records, FLOATS[at], LABELS[at])
    assert records.columns["file"].tolist() == files
    png = io.BytesIO()
    Image.fromarray(PIXELS[5]).save(png, "png")
    inside = pd.DataFrame({"image": [{"bytes": png.getvalue(), "path": None}], "label": [5]})
    inside.to_parquet(tmp_path / "t.parquet")
    same(read(tmp_path / "t.parquet", gray=True), FLOATS[5:6], [5])


def test_texts(tmp_path):
    table = pd.DataFrame({"text": TEXTS, "label": ["good", "None", "bad", "good"], "stars": [5, 1, 2, 4]})
    table.to_csv(tmp_path / "t.csv", index=False)
    records = read(tmp_path / "t.csv", encode=lengths)
    assert records.classes == ("None", "bad", "good")
    assert records.y.tolist() == [2, 0, 1, 2]
    assert records.x["input_ids"].tolist() == [[1, 4, 4], [4, 0, 0], [4, 0, 0], [2, 3, 4]]
    assert records.columns["text"].tolist() == TEXTS
    assert records.columns["stars"].tolist() == [5, 1, 2, 4]
    tokens = read(tmp_path / "t.csv", encode=lengths, target="tokens")
    assert tokens.y.tolist() == [[1, 4, 4], [4, -100, -100], [4, -100, -100], [2, 3, 4]]
    assert tokens.columns["label"].tolist() == ["good", "None", "bad", "good"]
    each = read(tmp_path / "t.csv", text="text", transform=lambda t: torch.tensor([float(len(t))]))
    assert each.x.tolist() == [[len(t)] for t in TEXTS]


def test_targets_that_are_no_classes(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0], "y": [0.5, -3.0], "red": [1, 0], "blue": [1, 1]})
    table.to_csv(tmp_path / "t.csv", index=False)
    real = read(tmp_path / "t.csv", features=["a"], target="real")
    assert real.y.tolist() == [[0.5], [-3.0]]
    assert real.y.dtype == torch.float32
    several = read(tmp_path / "t.csv", features="a", label=["red", "blue"], target="labels")
    assert several.y.tolist() == [[1, 1], [0, 1]]
    assert several.classes == ("red", "blue")
    assert several.x.tolist() == [[1], [2]]
    assert several.columns["y"].tolist() == [0.5, -3.0]


def test_arrays_inside_a_table(tmp_path):
    pd.DataFrame({"pixels": [p.reshape(64).tolist() for p in PIXELS], "label": LABELS}).to_parquet(
        tmp_path / "t.parquet"
    )
    records = read(tmp_path / "t.parquet", features="pixels")
    same(records, torch.tensor(PIXELS.reshape(N, 64)).float())


@pytest.mark.parametrize("rows", ["1.1,1.2,1,1,0\n1,2,3,4,1\n", "1.1,1.2,1,0,\n1,2,3,1,\n"])
def test_rows_with_more_cells_than_the_header_are_refused(rows, tmp_path):
    """Pandas would take the first column for names, and read every other one a column too far to the left."""
    (tmp_path / "t.csv").write_text("a,b,c,label\n" + rows)
    with pytest.raises(
        BadInput, match=r"^rows have 5 cells, but the header has 4; .*t.csv line 2; give every column a"
    ):
        read(tmp_path / "t.csv")


def test_an_index_that_pandas_wrote_is_no_input(tmp_path):
    """Nor does it matter how the ending is written."""
    frame = pd.DataFrame({"a": [0.5, 1.5], "b": [1.0, 2.0], "label": [0, 1]})
    frame.to_csv(tmp_path / "t.CSV")
    found = read(tmp_path / "t.CSV")
    assert found.features == ("a", "b")
    assert found.columns["Unnamed: 0"].tolist() == [0, 1]
