"""A run for other tools: each kind written from a real run folder and read back with the tool's own library."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import socket
import struct
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from amends import export
from amends import repair as repaired_in_python
from amends.cli.export import KINDS
from amends.data import Records, read
from amends.errors import BadInput, RunMismatch
from amends.export import huggingface, label_studio
from amends.export.kept import Kept
from amends.export.source import Source, label_words
from amends.export.tables import relabelled
from amends.methods import fine_tune, named
from amends.runs.run import Run
from tests.projects import amends, digits_project, images_project, texts_project
from tests.worlds import planted_digits

CLEANED = ("csv", "huggingface", "images")


@pytest.fixture(autouse=True)
def _nothing_goes_out(monkeypatch):
    """Any connection but to a process of this machine's own fails."""
    connect = socket.socket.connect

    def local(self, address):
        assert self.family == socket.AF_UNIX, f"a connection to {address}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)


def made(tmp_path_factory, name, project, *commands):
    folder = tmp_path_factory.mktemp(name)
    project(folder)
    before = os.getcwd()
    os.chdir(folder)
    torch.set_num_threads(1)
    try:
        for command in commands:
            assert amends(*command, "-q") == 0
    finally:
        os.chdir(before)
    return folder / "runs"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return made(tmp_path_factory, "texts", texts_project, ("repair", "-o", "runs/whole"),
                ("repair", "-o", "runs/changed", "--relabel"))  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return made(tmp_path_factory, "images", images_project, ("repair", "-o", "runs/whole"),
                ("repair", "-o", "runs/changed", "--relabel"))  # fmt: skip


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    quick = ("--method", "grad_dot")
    return made(tmp_path_factory, "digits", digits_project, ("repair", "-o", "runs/whole", "--top", 30, *quick),
                ("identify", "-o", "runs/found", *quick))  # fmt: skip


@pytest.fixture(scope="module")
def table():
    """Digits as a person has them in pandas, and the model that learned from them."""
    model, (x, y), failures, remaining, _ = planted_digits()
    frame = pd.DataFrame(x.numpy(), columns=[f"p{i}" for i in range(64)])
    frame.insert(0, "note", [f"digit {i}" for i in range(len(x))])
    return model, frame.assign(label=y.numpy()), failures, remaining


@pytest.fixture(scope="module")
def python(tmp_path_factory, table):
    """Two runs made in Python: one that removes, one that relabels."""
    model, frame, failures, remaining = table
    folder = tmp_path_factory.mktemp("python")
    for name, relabel in (("whole", False), ("changed", True)):
        result = repaired_in_python(
            model, frame, failures, remaining, identify_with=named("grad_dot"), remove=30,
            treat_with=fine_tune(epochs=3, relabel=relabel),
        )  # fmt: skip
        result.save(folder / name)
    return folder


def at(run, name):
    return pd.read_csv(run / "dataset" / f"{name}.csv", dtype={"label": str, "id": str}).set_index("index")


def contents(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}  # fmt: skip


# --- cleaned data --------------------------------------------------------------------------------------


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


NUMBERS = {
    "real": (torch.tensor([[0.5], [2.0], [-1.0]]), (), {1: "3.25"}, {"label": [0.5, 3.25, -1.0]},
             "<Number ", {"number": 3.25}),
    "several": (torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]), ("wet", "cold"), {1: "[1, 0]"},
                {"wet": [0, 1, 0], "cold": [1, 0, 0]}, 'choice="multiple"', {"choices": ["wet"]}),
}  # fmt: skip


@pytest.mark.parametrize("target", NUMBERS)
def test_numbers_and_several_labels(target):
    import datasets

    y, classes, said, columns, shown, value = NUMBERS[target]
    train = Records(torch.zeros(3, 1), y, classes=classes)
    cells = pd.DataFrame({"a": [1.0, 2.0, 3.0], **label_words(y, train)})
    source, kept = Source("row", train.x, train, cells, tuple(columns), True), Kept(np.arange(3), said)
    assert relabelled(source, kept)[list(columns)].to_dict("list") == columns
    found = huggingface._made(datasets, source, kept)
    assert {name: found[name][:] for name in columns} == columns
    assert found.features[next(iter(columns))].dtype == ("int64" if classes else "float64")
    assert shown in label_studio.interface(source)
    assert label_studio._result(json.loads(said[1]), train)["value"] == value


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


def test_images_are_copied_byte_for_byte(images, tmp_path):
    export.to_images(images / "whole", tmp_path / "clean")
    source = contents(images.parent / "photos/train")
    gone = set(read(images.parent / "photos/train").columns["path"][at(images / "whole", "removed").index])
    assert contents(tmp_path / "clean") == {k: v for k, v in source.items() if k not in gone}


def test_a_relabelled_image_moves_and_takes_no_ones_place(images, tmp_path):
    """d7/6.png becomes a 1, where another 6.png is: it gets its position after its name."""
    export.to_images(images / "changed", tmp_path / "clean")
    paths = read(images.parent / "photos/train").columns["path"]
    said = at(images / "changed", "relabelled")["label"]
    found, source = contents(tmp_path / "clean"), contents(images.parent / "photos/train")
    assert sorted(found.values()) == sorted(source.values())
    moved = {i: label for i, label in said.items() if not paths[i].startswith(label)}
    assert moved
    for i, label in moved.items():
        stem = Path(paths[i]).stem
        there = [p for p in (f"{label}/{stem}.png", f"{label}/{stem}-{i}.png") if found.get(p) == source[paths[i]]]
        assert there, (i, label)
    assert any("-" in name for name in found)


def test_images_without_files_are_named_by_position_and_equal_to_the_byte(images, tmp_path):
    whole = read(images.parent / "photos/train", gray=True)
    export.to_images(images / "whole", tmp_path / "clean", data=Records(whole.x, whole.y, classes=whole.classes))
    kept = at(images / "whole", "kept")
    assert sorted(contents(tmp_path / "clean")) == sorted(f"{row.given}/{i}.png" for i, row in kept.iterrows())
    i = kept.index[7]
    pixels = np.asarray(Image.open(tmp_path / "clean" / kept.loc[i, "given"] / f"{i}.png"))
    assert np.array_equal(pixels, (whole.x[i, 0] * 255).round().numpy())


def test_hostile_names_stay_inside(tmp_path, monkeypatch):
    from amends.export.pictures import safe

    for name in ("../../up", "/etc/passwd", "..", ".hidden", "a\\b", "", "c:d"):
        made_of = safe(name)
        assert made_of
        assert Path(made_of).parts == (made_of,)
        assert not made_of.startswith(".")


@pytest.mark.parametrize("form", ["frame", "pair"])
def test_a_run_made_in_python_takes_its_data_from_the_caller(form, python, table, tmp_path):
    frame = table[1]
    pair = (torch.tensor(frame.filter(regex="^p").to_numpy()), frame["label"].to_numpy())
    export.to_csv(python / "whole", tmp_path / "clean.csv", data=frame if form == "frame" else pair)
    found, kept = pd.read_csv(tmp_path / "clean.csv"), at(python / "whole", "kept").index
    wanted = frame.iloc[kept].reset_index(drop=True)
    if form == "pair":
        wanted = wanted.drop(columns="note").rename(columns={f"p{i}": f"x{i}" for i in range(64)})
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_other_data_than_the_runs_is_refused(python, table, tmp_path):
    other = table[1].assign(label=table[1]["label"].to_numpy()[::-1])
    with pytest.raises(RunMismatch, match="not what this run was made with"):
        export.to_csv(python / "whole", tmp_path / "clean.csv", data=other)
    with pytest.raises(RunMismatch, match="not what this run was made with"):
        export.cleaned(python / "whole", other)


# --- decisions -----------------------------------------------------------------------------------------


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


def test_decisions_are_those_a_person_left_in_the_csv(digits, tmp_path):
    run = shutil.copytree(digits / "found", tmp_path / "found")
    frame = pd.read_csv(run / "causes.csv")
    frame["decision"] = ["remove", "keep", *[""] * (len(frame) - 2)]
    frame.to_csv(run / "causes.csv", index=False)
    export.to_label_studio(run, tmp_path / "tasks.json", data=(*np.load(digits.parent / "train.npz").values(),), top=3)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [t["meta"]["decision"] for t in tasks] == ["remove", "keep", ""]
    assert export.issues(run)["is_label_issue"].sum() == 1


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


def test_cleanlab_issues_cover_train_and_lower_is_worse(digits, tmp_path):
    export.to_cleanlab(digits / "whole", tmp_path / "issues.csv")
    found = pd.read_csv(tmp_path / "issues.csv", index_col=0)
    assert found.columns.tolist() == ["is_label_issue", "label_score", "given_label", "predicted_label"]
    with np.load(digits / "whole/identified/scores.npz") as kept, np.load(digits.parent / "train.npz") as train:
        assert found.index.tolist() == list(range(len(kept["scores"])))
        assert np.array_equal(
            np.argsort(found["label_score"], kind="stable"), np.argsort(-kept["scores"], kind="stable")
        )
        assert found["given_label"].tolist() == train["y"].tolist()
    assert (found["label_score"].min(), found["label_score"].max()) == (0, 1)
    assert found.index[found["is_label_issue"]].tolist() == sorted(at(digits / "whole", "removed").index)
    causes = pd.read_parquet(digits / "whole/causes.parquet").set_index("index")
    assert found.loc[causes.index, "predicted_label"].tolist() == causes["predicted"].tolist()
    assert export.issues(digits / "found")["predicted_label"].notna().all()
    assert not export.issues(digits / "found")["is_label_issue"].any()


# --- results -------------------------------------------------------------------------------------------


def numbers(run):
    metrics = Run.open(run).metrics
    rows = pd.read_csv(run / "curve.csv")
    return metrics, rows


@pytest.fixture
def listener(monkeypatch):
    """Whoever asks a proxy, or Weights & Biases at its address, asks here: also processes of their own."""
    asked: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{server.getsockname()[1]}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "WANDB_BASE_URL"):
        monkeypatch.setenv(name, address)

    def answer():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            asked.append(connection.recv(200))
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    yield asked
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_mlflow_reads_its_store(digits, tmp_path, listener, monkeypatch):
    assert amends("export", digits / "whole", "--to", "mlflow", "-o", tmp_path / "store") == 0
    assert amends("export", digits / "found", "--to", "mlflow", "-o", tmp_path / "store") == 0
    from mlflow import MlflowClient

    assert not os.environ.get("MLFLOW_ALLOW_FILE_STORE")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=(tmp_path / "store").as_uri())
    runs = client.search_runs([client.get_experiment_by_name("amends").experiment_id])
    kept = {run.info.run_name: run for run in runs}
    assert set(kept) == {"whole", "found"}
    metrics, rows = numbers(digits / "whole")
    found = kept["whole"].data
    assert found.params["repair.treat"] == "fine_tune"
    assert found.params["data.train.n"] == "300"
    assert found.metrics["holdout/after"] == metrics["holdout"]["after"]
    assert found.metrics["fixed"] == metrics["fixed"]
    assert found.metrics["newly_broken"] == metrics["newly_broken"]
    assert found.metrics["removed"] == 30
    assert found.tags["amends.verdict"] == metrics["verdict"]
    steps = client.get_metric_history(kept["whole"].info.run_id, "curve/causes/holdout")
    curve = rows[rows["by"] == "causes"]
    assert [(m.step, m.value) for m in steps] == list(zip(curve["removed"], curve["holdout"], strict=True))
    names = {f.path for f in client.list_artifacts(kept["whole"].info.run_id)}
    assert {"report.html", "causes.csv", "metrics.json"} <= names
    assert kept["found"].data.metrics == {}
    assert not listener


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


def test_tensorboard_reads_the_events(digits, tmp_path, listener):
    assert amends("export", digits / "whole", "--to", "tensorboard", "-o", tmp_path / "log") == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "log"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    metrics, rows = numbers(digits / "whole")
    (after,) = events.Scalars("holdout/after")
    assert after.value == pytest.approx(metrics["holdout"]["after"], abs=1e-6)  # event files hold float32
    found = [(e.step, e.value) for e in events.Scalars("curve/causes/remaining")]
    curve = rows[rows["by"] == "causes"]
    assert [s for s, _ in found] == curve["removed"].tolist()
    assert [v for _, v in found] == pytest.approx(curve["remaining"].tolist(), abs=1e-6)
    (text,) = events.Tensors("causes/text_summary")
    assert b"| 1 | " in text.tensor_proto.string_val[0]
    assert {"report.html", "causes.csv"} <= {p.name for p in (tmp_path / "log").iterdir()}
    assert not listener


# --- the command, and what it refuses ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("mlflow", "wandb")])
def test_the_run_stays_as_it_is_and_the_target_is_beside_it(kind, images, tmp_path, capsys):
    run = shutil.copytree(images / "whole", tmp_path / "whole")
    before = contents(run)
    assert amends("export", run, "--to", kind, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"to", "path", "n"}
    assert said["to"] == kind
    assert said["n"] > 0
    assert Path(said["path"]).parent == tmp_path
    assert Path(said["path"]).exists()
    assert contents(run) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["whole", Path(said["path"]).name])
    kept = contents(tmp_path)
    assert amends("export", run, "--to", kind) == 2  # a second time it is there already
    assert "the target exists" in capsys.readouterr().err
    assert contents(tmp_path) == kept


BAD = {
    "unknown kind": (("whole", "--to", "hugingface"), 2, "did you mean huggingface?"),
    "no kind": (("whole",), 2, "--to"),
    "no run": (("nowhere", "--to", "csv"), 2, "no such run"),
    "csv before a treatment": (("found", "--to", "csv"), 2, "nothing is removed yet"),
    "huggingface before a treatment": (("found", "--to", "huggingface"), 2, "nothing is removed yet"),
    "images before a treatment": (("found", "--to", "images"), 2, "nothing is removed yet"),
    "images of rows": (("whole", "--to", "images"), 2, "needs images, but train holds rows"),
    "fiftyone of rows": (("whole", "--to", "fiftyone"), 2, "needs images, but train holds rows"),
    "inside the run": (("whole", "--to", "csv", "-o", "{run}/clean.csv"), 2, "inside the run"),
    "the run itself": (("whole", "--to", "huggingface", "-o", "{run}"), 2, "inside the run"),
    "a store inside the run": (("whole", "--to", "mlflow", "-o", "{run}/mlruns"), 2, "inside the run"),
    "top of a csv": (("whole", "--to", "csv", "--top", "3"), 2, "--top goes with label-studio and fiftyone"),
    "top of nothing": (("whole", "--to", "label-studio", "--top", "0"), 2, "--top"),
    "online mlflow": (("whole", "--to", "mlflow", "--online"), 2, "--online goes with wandb"),
    "server of wandb": (("whole", "--to", "wandb", "--tracking-uri", "x"), 2, "--tracking-uri goes with mlflow"),
    "two stores": (("whole", "--to", "mlflow", "-o", "x", "--tracking-uri", "y"), 2, "give one of them"),
    "not a store": (("whole", "--to", "mlflow", "-o", "{run}/../file"), 2, "the MLflow store is a file"),
    "made in Python": (("python", "--to", "csv"), 2, "the run was made in Python"),
    "data that changed": (("moved", "--to", "csv"), 3, "train is not what this run was made with"),
    "rows that are missing": (("torn", "--to", "csv"), 3, "do not name each example of train exactly once"),
    "no list of what was kept": (("bare", "--to", "csv"), 3, "kept.csv"),
    "nothing was removed": (("nothing", "--to", "csv"), 2, "nothing was removed"),
    "no table": (("untabled", "--to", "cleanlab"), 3, "causes.parquet"),
}


@pytest.fixture
def damaged(digits, python, tmp_path):
    """Copies of runs, each with one thing wrong."""
    for name in ("whole", "moved", "torn", "bare", "nothing", "untabled"):
        shutil.copytree(digits / "whole", tmp_path / name)
    shutil.copytree(digits / "found", tmp_path / "found")
    shutil.copytree(python / "whole", tmp_path / "python")
    (tmp_path / "file").write_text("mine")
    data = shutil.copytree(digits.parent, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("runs"))
    with np.load(data / "train.npz") as kept:
        x, y = kept["x"], kept["y"].copy()
    y[0] = (y[0] + 1) % 10
    np.savez(data / "train.npz", x=x, y=y)
    about = (tmp_path / "moved/run.toml").read_text()
    (tmp_path / "moved/run.toml").write_text(about.replace(str(digits.parent), str(data)))
    kept = (tmp_path / "torn/dataset/kept.csv").read_text().splitlines()
    (tmp_path / "torn/dataset/kept.csv").write_text("\n".join(kept[:-3]) + "\n")
    (tmp_path / "bare/dataset/kept.csv").unlink()
    with (tmp_path / "nothing/dataset/kept.csv").open("a") as file:
        file.writelines((tmp_path / "nothing/dataset/removed.csv").read_text().splitlines(keepends=True)[1:])
    (tmp_path / "nothing/dataset/removed.csv").write_text("index,id,given\n")
    (tmp_path / "untabled/causes.parquet").unlink()
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_nothing_is_written(name, damaged, capsys, monkeypatch):
    monkeypatch.chdir(damaged)
    arguments, code, said = BAD[name]
    run = damaged / arguments[0]
    before = contents(damaged)
    assert amends("export", run, *[a.format(run=run) for a in arguments[1:]]) == code
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert said in line
    assert line.count("; ") >= 2
    assert contents(damaged) == before


LIBRARIES = {"huggingface": "datasets", "mlflow": "mlflow", "wandb": "wandb",
             "tensorboard": "torch.utils.tensorboard.writer"}  # fmt: skip


@pytest.mark.parametrize(("kind", "module"), LIBRARIES.items())
def test_a_library_that_is_missing_is_named_with_its_extra(kind, module, damaged, capsys, monkeypatch):
    monkeypatch.chdir(damaged)
    monkeypatch.setitem(sys.modules, module, None)
    assert amends("export", damaged / "whole", "--to", kind) == 2
    assert f"pip install 'amends[{kind}]'" in capsys.readouterr().err
    assert not (damaged / "mlruns").exists()


def test_what_cannot_be_finished_is_not_begun(damaged, capsys, monkeypatch):
    """A full disk in the middle of a file: exit code 5, and nothing half-written."""

    def full(self, path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    before = contents(damaged)
    assert amends("export", damaged / "whole", "--to", "csv") == 5
    assert "No space left on device" in capsys.readouterr().err
    assert contents(damaged) == before


def test_a_csv_is_not_made_of_what_does_not_fit(images, tmp_path):
    whole = read(images.parent / "photos/train", gray=True)
    with pytest.raises(BadInput, match="do not fit into a CSV"):
        export.to_csv(images / "whole", tmp_path / "x.csv", data=Records(whole.x, whole.y, classes=whole.classes))
    assert set(CLEANED) < set(KINDS)


def test_public_names_are_documented():
    assert all(getattr(export, name).__doc__ for name in export.__all__)
    assert {function for function, _ in KINDS.values()} < set(export.__all__)
