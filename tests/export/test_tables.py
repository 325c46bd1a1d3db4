"""Cleaned data as a CSV."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from amends import export
from amends.data import Records, read
from amends.errors import BadInput
from amends.export.kept import Kept
from amends.export.source import Source
from amends.export.tables import relabelled
from tests.export.folders import TARGETS, at, small


def test_a_csv_goes_back_word_for_word_less_what_was_removed(texts, tmp_path):
    done = export.to_csv(texts / "whole", tmp_path / "clean.csv")
    header, *lines = (texts.parent / "train.csv").read_text(encoding="utf-8").splitlines()
    gone = set(at(texts / "whole", "removed").index)
    assert gone
    kept = [line for i, line in enumerate(lines) if i not in gone]
    assert (tmp_path / "clean.csv").read_text(encoding="utf-8").splitlines() == [header, *kept]
    assert done == ("csv", tmp_path / "clean.csv", len(kept), "")


def test_a_changed_label_is_the_only_thing_that_changes(texts, tmp_path):
    export.to_csv(texts / "changed", tmp_path / "clean.csv")
    before, after = (pd.read_csv(p, dtype=str, keep_default_na=False)
                     for p in (texts.parent / "train.csv", tmp_path / "clean.csv"))  # fmt: skip
    said = at(texts / "changed", "relabelled")["label"]
    assert len(said) == 45
    assert (before["mood"] != after["mood"]).any()
    assert after["mood"].tolist() == before["mood"].where(~before.index.isin(said.index), said).tolist()
    pd.testing.assert_frame_equal(before.drop(columns="mood"), after.drop(columns="mood"))


def test_a_changed_label_is_written_as_the_table_writes_its_class():
    """By number where the table has numbers, though the classes have names; also one it has not used yet."""
    train = Records(torch.zeros(3, 1), torch.tensor([0, 1, 0]), classes=("cat", "dog", "cow"))
    cells = pd.DataFrame({"label": ["0.0", "1.0", "0.0"]})
    written = relabelled(Source("row", train.x, train, cells, ("label",), True), Kept(np.arange(3), {2: "dog"}))
    assert written["label"].tolist() == ["0.0", "1.0", "1.0"]
    named_cells = cells.assign(label=["cat", "dog", "cat"])
    written = relabelled(Source("row", train.x, train, named_cells, ("label",), True), Kept(np.arange(3), {2: "cow"}))
    assert written["label"].tolist() == ["cat", "dog", "cow"]


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_and_several_labels_are_changed_too(target):
    source, kept, columns, _ = small(target)
    assert relabelled(source, kept)[list(columns)].to_dict("list") == columns


def test_cleaned_csv_is_read_as_train_was(texts, tmp_path):
    """The same keys of the config read it, and give what `cleaned` gives in Python."""
    export.to_csv(texts / "changed", texts.parent / "clean.csv")
    config = (texts.parent / "amends.toml").read_text().replace('"train.csv"', '"clean.csv"')
    (texts.parent / "again.toml").write_text(config)
    from amends.config import read_config
    from amends.workflow.job import train_of

    path, keys = train_of(read_config(texts.parent / "again.toml"))
    again, clean = read(path, **keys), export.cleaned(texts / "changed")
    assert torch.equal(again.x, clean.x)
    assert torch.equal(again.y, clean.y)
    assert again.columns["id"].tolist() == clean.columns["id"].tolist()


def test_csv_of_image_files_counts_its_paths_from_where_it_is(images, tmp_path):
    export.to_csv(images / "whole", tmp_path / "deep" / "clean.csv")
    found = pd.read_csv(tmp_path / "deep" / "clean.csv")
    kept = at(images / "whole", "kept")
    assert len(found) == len(kept)
    assert all((tmp_path / "deep" / p).is_file() for p in found["path"])
    assert found["label"].tolist() == kept["given"].tolist()


def test_csv_of_rows_has_a_column_a_number(digits, tmp_path):
    export.to_csv(digits / "whole", tmp_path / "clean.csv")
    found, clean = read(tmp_path / "clean.csv"), export.cleaned(digits / "whole")
    assert torch.equal(found.x, clean.x)
    assert torch.equal(found.y, clean.y)


def test_a_csv_is_not_made_of_what_does_not_fit(images, tmp_path):
    whole = read(images.parent / "photos/train", gray=True)
    with pytest.raises(BadInput, match="do not fit into a CSV"):
        export.to_csv(images / "whole", tmp_path / "x.csv", data=Records(whole.x, whole.y, classes=whole.classes))
