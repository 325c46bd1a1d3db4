"""Decisions for FiftyOne: a sample for each cause, in the JSON its FiftyOneDataset importer reads.

    dataset = fiftyone.Dataset.from_dir("runs/digits-fiftyone", dataset_type=fiftyone.types.FiftyOneDataset)

The folder holds metadata.json and samples.json, the form of that type without a database version in it, which
FiftyOneDatasetImporter hands to its JSON reader: sample by sample through Sample.from_dict, fields as they come.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amends.data.formats.raw import IMAGE
from amends.data.records import Records
from amends.export.decisions import decisions, plain, undecided
from amends.export.files import Exported, as_run, place, write_folder
from amends.export.label_studio import decided_label, kind_of_label
from amends.export.pictures import file_of, safe
from amends.export.source import Source, source


def to_fiftyone(run: Any, out: Any = None, data: Any = None, *, top: int | None = None) -> Exported:
    """A folder with samples.json, most harmful first; `top` keeps the most harmful ones.

    An image file stays where it is and is named by its full path; other images are written to data/. A
    sample's fields: ground_truth (the given label), predictions, predictions_after, suggested, new_label, train_index,
    example_id, score, rank, p_given, p_given_after, group, conflicts_with, decision (also as a tag).
    """
    run = as_run(run)
    target = place(run, "fiftyone", out)
    frame = decisions(run, top)
    train = source(run, data)
    train.needs(IMAGE, "FiftyOne", "export to label-studio instead")
    rows = frame.to_dict("records")
    write_folder(target, lambda folder: _fill(folder, rows, train, run.name))
    load = f'fiftyone.Dataset.from_dir("{target}", dataset_type=fiftyone.types.FiftyOneDataset)'
    return Exported("fiftyone", target, len(rows), f"{undecided(run)}load it with {load}")


def _fill(folder: Path, rows: list[dict[str, Any]], train: Source, name: str) -> None:
    samples = [_sample(row, train, folder) for row in rows]
    about = {
        "name": name, "media_type": "image", "num_samples": len(samples),
        "info": {"made_by": "amends", "score": "higher = more harmful", "classes": list(train.records.classes)},
    }  # fmt: skip
    for file, content in (("metadata.json", about), ("samples.json", {"samples": samples})):
        (folder / file).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _sample(row: dict[str, Any], train: Source, folder: Path) -> dict[str, Any]:
    i = int(row["index"])
    labels = {"ground_truth": "given", "predictions": "predicted", "predictions_after": "predicted_after",
              "suggested": "suggested"}  # fmt: skip
    values = {"score": "score", "rank": "rank", "p_given": "p_given", "p_given_after": "p_given_after",
              "group": "group", "conflicts_with": "conflicts_with", "decision": "decision"}  # fmt: skip
    new = decided_label(row, train.records)
    return {
        "filepath": _file(train, i, folder),
        "tags": [row["decision"]] if row["decision"] else [],
        "metadata": None,
        "train_index": i,
        "example_id": str(row["id"]),
        **{field: _label(plain(row[column]), train.records) for field, column in labels.items()},
        "new_label": None if new is None else _label(plain(new), train.records),
        **{field: plain(row[column]) for field, column in values.items()},
    }


def _file(train: Source, i: int, folder: Path) -> str:
    given = train.inputs[i]
    if isinstance(given, Path):
        return str(given.resolve())
    content, suffix = file_of(train, i)
    known = train.id(i)
    path = Path("data") / f"{i if known is None else f'{i}-{safe(known)}'}{suffix}"
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(content)
    return path.as_posix()


def _label(value: Any, train: Records) -> dict[str, Any] | None:
    kind = kind_of_label(train)
    if kind == "one":
        return {"_cls": "Classification", "label": str(value)}
    if kind == "several":
        holds = [c for c, k in zip(train.classes, value, strict=True) if k > 0.5]
        return {"_cls": "Classifications", "classifications": [{"_cls": "Classification", "label": c} for c in holds]}
    return {"_cls": "Regression", "value": value} if kind == "number" else None
