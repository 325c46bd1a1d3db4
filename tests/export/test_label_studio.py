"""Decisions as tasks for Label Studio."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from amends import export
from amends.export import label_studio
from tests.export.folders import TARGETS, small


def test_label_studio_tasks(texts, images, digits, tmp_path):
    for runs, key in ((texts, "text"), (images, "image"), (digits, "row")):
        done = export.to_label_studio(runs / "whole", tmp_path / f"{key}.json")
        tasks = json.loads((tmp_path / f"{key}.json").read_text(encoding="utf-8"))
        causes = pd.read_parquet(runs / "whole/causes.parquet")
        assert [t["meta"]["index"] for t in tasks] == causes["index"].tolist()
        assert [t["meta"]["rank"] for t in tasks] == list(range(1, len(tasks) + 1))
        assert all(set(t) == {"data", "meta", "predictions"} for t in tasks)
        for task, suggested in zip(tasks, causes["suggested"], strict=True):
            (prediction,) = task["predictions"]
            assert prediction["result"] == [{"from_name": "label", "to_name": "example", "type": "choices",
                                             "value": {"choices": [str(suggested)]}}]  # fmt: skip
            assert task["meta"]["decision"] == "remove"
            assert key in task["data"]
        scores = [t["predictions"][0]["score"] for t in tasks]
        assert scores == sorted(scores, reverse=True)
        assert 0 <= min(scores) <= max(scores) == 1
        assert f'value="${key}"' in done.then
        assert f'<Choice value="{tasks[0]["meta"]["suggested"]}"/>' in done.then
    picture = json.loads((tmp_path / "image.json").read_text())[0]
    shown = Image.open(io.BytesIO(base64.b64decode(picture["data"]["image"].partition("base64,")[2])))
    original = Image.open(images.parent / "photos/train" / picture["data"]["path"]).convert("RGB")
    assert np.array_equal(np.asarray(shown), np.asarray(original))


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_and_several_labels_have_an_interface_and_a_suggestion(target):
    source, kept, _, (shown, value) = small(target)
    assert shown in label_studio.interface(source)
    assert label_studio._result(json.loads(kept.relabelled[1]), source.records)["value"] == value
