"""Decisions as samples for FiftyOne."""

from __future__ import annotations

import json

import numpy as np
import torch
from PIL import Image

from amends import export
from amends.data import Records, read


def test_fiftyone_samples(images, tmp_path):
    """The JSON that FiftyOneDatasetImporter hands to Sample.from_dict where metadata.json has no version."""
    export.to_fiftyone(images / "changed", tmp_path / "files", top=5)
    whole = read(images.parent / "photos/train", gray=True)
    export.to_fiftyone(images / "whole", tmp_path / "arrays", data=Records(whole.x, whole.y, classes=whole.classes))
    for name, n in (("files", 5), ("arrays", 30)):
        about = json.loads((tmp_path / name / "metadata.json").read_text())
        samples = json.loads((tmp_path / name / "samples.json").read_text())["samples"]
        assert "version" not in about
        assert about["media_type"] == "image"
        assert about["num_samples"] == len(samples) == n
        for sample in samples:
            path = tmp_path / name / sample["filepath"]  # an absolute path stays what it is
            assert path.is_file()
            pixels = torch.tensor(np.asarray(Image.open(path).convert("L"))) / 255
            assert torch.equal(pixels, whole.x[sample["train_index"], 0])
            given = whole.classes[whole.y[sample["train_index"]]]
            assert sample["ground_truth"] == {"_cls": "Classification", "label": given}
            assert sample["tags"] == ["relabel" if name == "files" else "remove"]
            assert {"score", "rank", "suggested", "predictions", "conflicts_with", "example_id"} <= set(sample)
            assert not any(k.startswith("_") or k == "id" for k in sample)
