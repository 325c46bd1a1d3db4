"""Decisions for Label Studio: a task for each cause, most harmful first, with the label amends suggests."""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import quoteattr

from amends.config.decisions import NEW, RELABEL
from amends.data.formats.raw import IMAGE, TEXT
from amends.data.records import Records
from amends.data.targets import target_of
from amends.export.decisions import about, decisions, plain, undecided
from amends.export.files import Exported, as_run, place, write_file
from amends.export.source import Source, source
from amends.tables.looks import picture

SIDE = 256  # pixels; a task holds its picture itself, so that nothing has to be served


def to_label_studio(run: Any, out: Any = None, data: Any = None, *, top: int | None = None) -> Exported:
    """A JSON list of tasks, for Import in Label Studio; `top` keeps the most harmful ones.

    A task's data is `image` (a picture inside the file), `text` or `row`, and the user's other columns. Its
    prediction is the new label that was decided, or else the suggested one, scored from 0 to 1 by rank (1 = the
    most harmful of train); its meta holds what causes.csv says. What is returned names the labelling interface
    that shows it, in `then`.
    """
    run = as_run(run)
    target = place(run, "label-studio", out)
    frame = decisions(run, top)
    train = source(run, data)
    tasks = [_task(row, train) for row in frame.to_dict("records")]
    text = json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"
    write_file(target, lambda path: path.write_bytes(text.encode()))
    return Exported(
        "label-studio", target, len(tasks), f"{undecided(run)}labelling interface of the project: {interface(train)}"
    )


def interface(train: Source) -> str:
    """The labelling interface for the tasks: paste it under Settings, Labeling Interface, Code."""
    show = {IMAGE: '<Image name="example" value="$image"/>', TEXT: '<Text name="example" value="$text"/>'}
    shown = show.get(train.kind, '<Table name="example" value="$row"/>')
    kind = kind_of_label(train.records)
    if kind == "number":
        return f'<View>{shown}<Number name="label" toName="example"/></View>'
    if kind == "none":
        return f'<View>{shown}<TextArea name="label" toName="example"/></View>'
    names = train.records.classes or tuple(map(str, sorted(set(train.records.y.tolist()))))
    choices = "".join(f"<Choice value={quoteattr(str(n))}/>" for n in names)
    how = "multiple" if kind == "several" else "single"
    return f'<View>{shown}<Choices name="label" toName="example" choice="{how}">{choices}</Choices></View>'


def kind_of_label(train: Records) -> str:
    """one (of the classes), several (of them), number, or none (tokens, or several numbers)."""
    y = train.y
    if not y.is_floating_point():
        return "one" if y.ndim == 1 else "none"
    if y.ndim > 1 and len(train.classes) == y.shape[1]:
        return "several"
    return "number" if y[0].numel() == 1 else "none"


def _task(row: dict[str, Any], train: Source) -> dict[str, Any]:
    i = int(row["index"])
    own = {str(k): plain(v) for k, v in train.table.iloc[i].items() if k not in train.labels}
    if train.kind == IMAGE:
        data = own | {"image": picture(train.image(i), SIDE)}
    elif train.kind == TEXT:
        data = own | {"text": str(train.inputs[i])}
    else:
        data = {"row": own, "id": plain(row["id"])}
    meta = about(row)
    task: dict[str, Any] = {"data": data, "meta": meta}
    result = _result(decided_label(row, train.records) or meta["suggested"], train.records)
    if result is not None:
        task["predictions"] = [{"model_version": "amends", "score": row["harm"], "result": [result]}]
    return task


def decided_label(row: dict[str, Any], train: Records) -> Any:
    """The new label of an example that is to be relabelled; None for any other."""
    word = row[NEW] if row["decision"] == RELABEL else ""
    if not word or kind_of_label(train) == "one":
        return word or None
    return target_of(word, train.y, train.classes, f"{NEW} at index {row['index']}").tolist()


def _result(label: Any, train: Records) -> dict[str, Any] | None:
    kind = kind_of_label(train)
    if kind == "none":
        return None
    names = {"from_name": "label", "to_name": "example"}
    if kind == "number":
        return names | {"type": "number", "value": {"number": label}}
    holds = [c for c, k in zip(train.classes, label, strict=True) if k > 0.5] if kind == "several" else [str(label)]
    return names | {"type": "choices", "value": {"choices": holds}}
