"""A table that is larger than a piece is read in pieces, and is what it would be as a whole."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn

import amends
from amends.data import read
from amends.errors import BadInput, DiskError


def pieces_of(size: int, monkeypatch) -> None:
    """From now on a table of more is read in pieces of so many bytes."""
    for name in ("PIECE", "WHOLE"):
        monkeypatch.setattr(f"amends.data.formats.pieces.{name}", size)


def table(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = {f"f{i}": rng.normal(size=n) for i in range(6)}
    named = {"label": rng.choice(["cat", "dog"], n), "note": [f"a\nb {i}" if i % 7 == 0 else f"n{i}" for i in range(n)]}
    return pd.DataFrame({**numbers, "count": rng.integers(0, 9, n), **named, "id": [f"{i:04}" for i in range(n)]})


def written(frame: pd.DataFrame, path) -> None:
    if ".parquet" in path.suffixes:
        frame.to_parquet(path, row_group_size=64)
    elif path.suffix == "":
        import datasets

        datasets.Dataset.from_pandas(frame).save_to_disk(path)
    else:
        frame.to_csv(path, index=False)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t"])
def test_in_pieces_it_is_what_it_is_as_a_whole(name, scaled, tmp_path, monkeypatch):
    path, how = tmp_path / name, {"mean": [0.5], "std": [2.0]} if scaled else {}
    written(table(), path)
    whole = read(path, **how)
    pieces_of(4000, monkeypatch)
    made = read(path, **how)
    rows = torch.arange(500)
    assert torch.equal(made.x[rows], whole.x)
    assert torch.equal(made.y, whole.y)
    assert (made.classes, made.features) == (whole.classes, whole.features)
    assert {k: v.tolist() for k, v in made.columns.items()} == {k: v.tolist() for k, v in whole.columns.items()}
    assert scaled == (made.stored is not None)
    assert not scaled or (isinstance(made.stored, np.memmap) and (made.stored == whole.stored).all())


def test_scores_are_those_of_the_table_in_memory(tmp_path, monkeypatch):
    written(table(), tmp_path / "t.parquet")
    torch.manual_seed(0)
    net, held = nn.Linear(7, 2), (torch.randn(20, 7), torch.arange(20) % 2)
    ask = {"method": amends.methods.grad_dot(), "batch_size": 64}
    whole = amends.identify(net, read(tmp_path / "t.parquet"), held, **ask)
    pieces_of(4000, monkeypatch)
    assert (amends.identify(net, read(tmp_path / "t.parquet"), held, **ask).scores == whole.scores).all()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_table(ending, tmp_path, monkeypatch):
    """20,000 rows of 64 numbers are 10 MB; read as a whole they take it three times."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20_000, 64)).round(3), columns=[f"f{i}" for i in range(64)])
    written(frame.assign(label=rng.integers(0, 3, 20_000)), tmp_path / f"t.{ending}")
    pieces_of(2**19, monkeypatch)
    tracemalloc.start()
    made = read(tmp_path / f"t.{ending}")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 6e6
    assert torch.equal(made.x[-1], torch.tensor(frame.to_numpy()[-1]).float())


@pytest.mark.parametrize(("name", "where"), [("t.csv", "t.csv line 471"), ("t.parquet", "t.parquet row 410")])
def test_a_row_far_down_is_named_by_its_place_in_the_whole_file(name, where, tmp_path, monkeypatch):
    """Cells of 59 rows before it have a line break."""
    frame = table()
    frame.loc[410, "f2"] = np.nan
    written(frame, tmp_path / name)
    pieces_of(4000, monkeypatch)
    with pytest.raises(BadInput, match=rf"column f2 is empty; .*{where}; fill it in or drop the row"):
        read(tmp_path / name)
    frame.loc[410, "f2"] = np.inf
    written(frame, tmp_path / name)
    with pytest.raises(BadInput, match=rf"the row holds NaN or infinity; .*{where}; drop it"):
        read(tmp_path / name)
    written(frame.assign(f2=1.0, label=["cat"] * 410 + ["cow"] + ["dog"] * 89), tmp_path / name)
    with pytest.raises(BadInput, match=rf"label 'cow' is not a class; .*{where}; "):
        read(tmp_path / name, classes=["cat", "dog"])


def test_a_word_far_down_a_column_of_numbers_is_named(tmp_path, monkeypatch):
    frame = table().astype({"f2": object})
    frame.loc[300, "f2"] = "abc"
    written(frame, tmp_path / "t.csv")
    pieces_of(4000, monkeypatch)
    with pytest.raises(BadInput, match=r"column f2 holds 'abc'; .*t.csv line 345; give numbers, or leave it out"):
        read(tmp_path / "t.csv")


def test_images_inside_a_table_stay_in_a_file(tmp_path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    cells = []
    for one in pixels:
        png = io.BytesIO()
        Image.fromarray(one).save(png, "png")
        cells.append({"bytes": png.getvalue(), "path": None})
    cells[7] = {"bytes": b"broken", "path": None}
    written(pd.DataFrame({"image": cells, "label": np.arange(60) % 10}), tmp_path / "t.parquet")
    pieces_of(1000, monkeypatch)
    with pytest.raises(BadInput, match=r"the image cannot be read .*t.parquet row 7;"):
        read(tmp_path / "t.parquet", gray=True)
    with pytest.warns(UserWarning, match="1 of the 60 examples"):
        made = read(tmp_path / "t.parquet", gray=True, on_error="skip")
    left = np.delete(np.arange(60), 7)
    assert torch.equal(made.x, torch.tensor(pixels[left])[:, None].float() / 255)
    assert made.columns["row"].tolist() == left.tolist()


def test_files_of_one_table_that_do_not_fit_together(tmp_path, monkeypatch):
    for i in range(2):
        written(table().rename(columns={"f1": f"g{i}"}), tmp_path / f"train-{i:05}-of-00002.parquet")
    pieces_of(4000, monkeypatch)
    with pytest.raises(BadInput, match=r"the files do not fit together; .*, train-00001-of-00002.parquet first; give"):
        read(tmp_path)


def test_no_room_for_the_file(tmp_path, monkeypatch):
    written(table(), tmp_path / "t.csv")
    pieces_of(4000, monkeypatch)
    monkeypatch.setattr("amends.data.formats.pieces.tempfile.TemporaryFile", lambda: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(DiskError, match=r"do not fit into a temporary file \(No space left on device\); .*TMPDIR"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize("whole", [True, False])
def test_a_column_is_words_everywhere_where_it_is_words_far_down(whole, tmp_path, monkeypatch):
    """Pandas would read the labels 001 of one part as 1, and those of another as 001; so with a column of one's own."""
    if not whole:
        pieces_of(2**16, monkeypatch)
    n, at = 150_000, 140_000
    lines = (f"{i},{i},{'623' if i < at else '623A'},{'001' if i < at else '01A'}\n" for i in range(n))
    (tmp_path / "t.csv").write_text("a,b,zip,label\n" + "".join(lines))
    found = read(tmp_path / "t.csv", features=["a", "b"])
    assert found.classes == ("001", "01A")
    assert np.bincount(found.y).tolist() == [at, n - at]
    assert set(found.columns["zip"][:at]) == {"623"}
    assert set(found.columns["zip"][at:]) == {"623A"}
