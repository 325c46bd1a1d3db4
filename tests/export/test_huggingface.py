"""Cleaned data as a Hugging Face dataset, read back with its own library."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from amends import export
from amends.export import huggingface
from tests.export.folders import TARGETS, at, small


def test_huggingface_has_texts_ids_and_named_classes(texts, tmp_path):
    from datasets import ClassLabel, load_from_disk

    export.to_huggingface(texts / "changed", tmp_path / "set")
    found = load_from_disk(str(tmp_path / "set"))
    clean = export.cleaned(texts / "changed")
    assert found.features["mood"] == ClassLabel(names=["glad", "sad"])
    assert found["mood"][:] == clean.y.tolist()
    assert found["key"][:] == clean.columns["id"].tolist()
    assert found["price"][:2] == [0.5, 1.5]
    assert [t.split(",")[0] for t in found["review"][:]] == [t.split(",")[0] for t in clean.columns["review"]]


def test_huggingface_holds_the_image_files_themselves(images, tmp_path):
    from datasets import load_from_disk

    export.to_huggingface(images / "whole", tmp_path / "set")
    found = load_from_disk(str(tmp_path / "set"))
    clean = export.cleaned(images / "whole")
    assert found.features["label"].names == [f"d{k}" for k in range(10)]
    assert found["label"][:] == clean.y.tolist()
    for i in (0, len(clean) - 1):
        assert torch.equal(torch.tensor(np.asarray(found[i]["image"])) / 255, clean.x[i, 0])


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_and_several_labels_have_a_feature_each(target):
    import datasets

    source, kept, columns, _ = small(target)
    found = huggingface._built(datasets, source, kept)
    assert {name: found[name][:] for name in columns} == columns
    assert found.features[next(iter(columns))].dtype == ("int64" if source.records.classes else "float64")


def test_a_huggingface_dataset_goes_back_with_its_own_features(python, table, tmp_path):
    from datasets import ClassLabel, Dataset, Features, Value, load_from_disk

    frame = table[1]
    features = {"note": Value("string"), **{f"p{i}": Value("float32") for i in range(64)}}
    names = ClassLabel(names=[f"digit {k}" for k in range(10)])
    own = Dataset.from_dict(frame.to_dict("list"), features=Features({**features, "label": names}))
    for name in ("whole", "changed"):
        export.to_huggingface(python / name, tmp_path / name, data=own)
        found, said = load_from_disk(str(tmp_path / name)), at(python / name, "relabelled")["label"]
        assert found.features == own.features
        kept = sorted({*at(python / name, "kept").index, *said.index})
        assert found["note"][:] == [f"digit {i}" for i in kept]
        assert found["label"][:] == [int(said.get(i, frame["label"][i])) for i in kept]
    assert len(said) == 30
