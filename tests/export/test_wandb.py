"""Results as an offline run of Weights & Biases, read back record by record."""

from __future__ import annotations

import json
import struct

from tests.export.folders import contents, numbers
from tests.projects import amends


def test_wandb_is_offline_and_complete(digits, tmp_path, listener, monkeypatch):
    import wandb

    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    try:
        assert amends("export", digits / "whole", "--to", "wandb", "-o", tmp_path / "out") == 0
    finally:
        wandb.teardown()
    assert not contents(tmp_path / "home")
    (folder,) = (tmp_path / "out/wandb").glob("offline-run-*")
    assert {"report.html", "causes.csv"} <= {p.name for p in (folder / "files").iterdir()}
    history, summary, config, saved = {}, {}, {}, set()
    for record in wandb_records(next(folder.glob("*.wandb"))):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            row = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
            history[row["curve/removed"]] = row
        elif kind == "summary":
            summary |= {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.summary.update}
        elif kind == "run":
            config |= {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.run.config.update}
        elif kind == "files":
            saved |= {f.path for f in record.files.files}
    metrics, rows = numbers(digits / "whole")
    assert summary["holdout/after"] == metrics["holdout"]["after"]
    assert summary["verdict"] == metrics["verdict"]
    assert config["repair.treat"] == "fine_tune"
    for row in rows.itertuples():
        assert history[row.removed][f"curve/{row.by}/holdout"] == row.holdout
    assert {"report.html", "causes.csv"} <= saved
    assert not listener


def wandb_records(path):
    """A .wandb file: a header of 7 bytes, then blocks of 32 KiB in which a record may be cut into pieces."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, block, part = path.read_bytes(), 7, 2**15, b""
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = Record()
            record.ParseFromString(part)
            yield record
            part = b""
