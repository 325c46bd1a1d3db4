"""Every way a file can be wrong: one line each. And a pickle that would run something runs nothing."""

from __future__ import annotations

import gzip
import json
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from amends.data import read
from amends.data.formats.cifar10 import CLASSES
from amends.errors import BadInput
from tests.files import LABELS, NAMES, PIXELS, N, binary, cifar, folder, idx_bytes, lengths, python_batch


def table(path, text, name="t.csv"):
    (path / name).write_text(text)
    return path / name


def columns(path, *names):
    pq.write_table(pa.Table.from_arrays([pa.array([1, 0])] * len(names), names), path / "t.parquet")
    return path / "t.parquet"


def saved(path, **arrays):
    np.savez(path / "d.npz", **arrays)
    return path / "d.npz"


def digit_files(path, images=None, labels=None):
    (path / "train-images-idx3-ubyte").write_bytes(idx_bytes(PIXELS) if images is None else images)
    if labels != b"none":
        (path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(LABELS) if labels is None else labels)
    return path


def broken_image(path, data=b"\x89PNG\r\n\x1a\nbroken"):
    root = folder(path)
    (root / "one" / "zz.png").write_bytes(data)
    return root


def other_size(path):
    root = folder(path)
    Image.fromarray(PIXELS[0][:5]).save(root / "one" / "zz.png")
    return root


def deep(path):
    root = folder(path)
    Image.fromarray(PIXELS[0].astype(np.uint16) * 256).save(root / "one" / "zz.png")
    return root


def empty(path):
    (path / "e").mkdir()
    return path / "e"


def batch(path, data, name="data_batch_1"):
    (path / name).write_bytes(data)
    return path


CSV = "id,a,b,label\n1,1,2,x\n2,3,,y\n3,5,6,\n"
GOOD = "id,a,text,label\n1,1,one,0\n2,3,two,1\n"
ERRORS = {
    "no such path": (lambda p: read(table(p, GOOD).with_name("t.csw")), "no such file or folder; .*did you mean t.csv"),
    "unknown ending": (lambda p: read(table(p, GOOD, "t.foo")), "format of this file is not known; .*give format"),
    "unknown format": (lambda p: read(table(p, GOOD), format="cvs"), "no format 'cvs'; .*did you mean csv"),
    "unknown target": (lambda p: read(table(p, GOOD), target="label"), "target is 'label'; .*did you mean labels"),
    "unknown folder": (lambda p: read(empty(p)), "format of this folder is not known"),
    "setting of another format": (lambda p: read(digit_files(p), text="a"), "text cannot be used here"),
    "size of a table": (lambda p: read(table(p, GOOD), size=3), "size is for images"),
    "size of nothing": (lambda p: read(digit_files(p), size=0), "size is 0"),
    "classes twice": (lambda p: read(digit_files(p), classes=["a", "a"]), "classes names a class twice"),
    "no class folders": (lambda p: read(empty(p), format="images"), "no folder for any class"),
    "no images": (lambda p: read(empty(p).parent, format="images"), "no images; .*files that end in .png"),
    "a folder that is a file": (
        lambda p: read(table(p, GOOD), format="images"), "this is not a folder; .*folder for each class"),
    "a class that is none": (
        lambda p: read(folder(p), classes=[*NAMES[:9], "nien"]), "nine is not a class; .*mean nien"),
    "broken image": (lambda p: read(broken_image(p)), r"image cannot be read .*; .*zz.png; replace it"),
    "truncated image": (lambda p: read(broken_image(p, png(p)[:-30])), r"image cannot be read .*zz.png"),
    "image of nothing": (lambda p: read(broken_image(p, b"")), "image cannot be read .*zz.png"),
    "sixteen bits": (lambda p: read(deep(p)), "more than 8 bits per channel; .*zz.png"),
    "two sizes": (lambda p: read(other_size(p)), r"two shapes, \[3, 8, 8\] and \[3, 5, 8\]; .*zz.png; give size"),
    "mean of other channels": (
        lambda p: read(folder(p), mean=[1, 2]), r"2 numbers for inputs \[3, 8, 8\]; .*png; give one"),
    "std of zero": (lambda p: read(folder(p), std=0), "std above 0"),
    "no such image": (
        lambda p: read(table(p, "image,label\ngone.png,1\n")),
        r"no such image file; .*t.csv line 2; give paths relative"),
    "image that is a number": (
        lambda p: read(table(p, "image,label\n3,1\n"), image="image"),
        "expected an image, got an int64; .*line 2; give a path"),
    "empty table": (lambda p: read(table(p, "")), "table cannot be read .*save it as UTF-8"),
    "table without rows": (lambda p: read(table(p, "a,label\n")), "no rows"),
    "table of bytes": (
        lambda p: read(batch(p, b"a,label\n\xff\xfe\x00,1\n", "t.csv") / "t.csv"), "table cannot be read"),
    "ragged table": (lambda p: read(table(p, "a,label\n1,2\n1,2,3,4\n")), "table cannot be read"),
    "broken parquet": (lambda p: read(batch(p, b"PAR1", "t.parquet") / "t.parquet"), "table cannot be read .*write it"),
    "a name twice": (
        lambda p: read(table(p, "a,b,label,label\n1,2,0,1\n")), "two columns are named 'label'; .*t.csv; rename one"),
    "a name twice in parquet": (lambda p: read(columns(p, "a", "a", "label")), "two columns are named .a.; .*parquet"),
    "no label column": (lambda p: read(table(p, "a,b\n1,2\n")), "no label column among a, b; .*name it with label"),
    "wrong label column": (lambda p: read(table(p, GOOD), label="lable"), "no column 'lable' for label; .*mean label"),
    "wrong feature": (lambda p: read(table(p, GOOD), features=["a", "bb"]), "no column 'bb' for features"),
    "wrong text": (lambda p: read(table(p, GOOD), text="txt"), "no column 'txt' for text; .*mean text"),
    "wrong image": (lambda p: read(table(p, GOOD), image="im"), "no column 'im' for image;"),
    "wrong id": (lambda p: read(table(p, GOOD), id="key"), "no column 'key' for id"),
    "no inputs": (lambda p: read(table(p, "note,label\na,1\n")), "no inputs among note; .*image, text or features"),
    "missing label": (lambda p: read(table(p, CSV), features="a"), "column label is empty; .*t.csv line 4"),
    "missing feature": (lambda p: read(table(p, CSV[:-7])), "column b is empty; .*t.csv line 3; fill it in"),
    "missing text": (
        lambda p: read(table(p, "text,label\na,1\n,0\n"), encode=lengths), "column text is empty; .*line 3"),
    "text among features": (lambda p: read(table(p, "a,label\n1,0\nx,1\n"), features="a"), "a holds 'x'; .*line 3"),
    "text without encoder": (lambda p: read(table(p, "text,label\na,1\n")), "a model cannot take text; .*encode"),
    "text normalised": (
        lambda p: read(table(p, GOOD), encode=lengths, mean=1.0), "cannot be used with an encoder or with text"),
    "label that is no class": (
        lambda p: read(table(p, "a,label\n1,cat\n2,dgo\n"), classes=["cat", "dog"]),
        "'dgo' is not a class; .*line 3.*dog"),
    "label out of range": (
        lambda p: read(table(p, "a,label\n1,0\n2,2\n"), classes=["c", "d"]), "label 2, expected 0 to 1; .*line 3"),
    "negative label": (lambda p: read(table(p, "a,label\n1,-1\n")), "label -1, expected 0 or more; .*line 2"),
    "fraction for a class": (
        lambda p: read(table(p, "a,label\n1,0.5\n")), 'label 0.5 is not a class; .*target = "real"'),
    "text for a number": (
        lambda p: read(table(p, "a,label\n1,x\n"), target="real"), "label 'x' is not a number; .*line 2"),
    "labels not named": (lambda p: read(table(p, GOOD), target="labels"), "name the columns of 0 and 1"),
    "labels not 0 or 1": (
        lambda p: read(table(p, "a,b,c\n1,0,1\n1,1,2\n"), label=["b", "c"], features="a", target="labels"),
        r"columns of 0 and 1, got \[1 2\]; .*line 3"),
    "two columns for a class": (
        lambda p: read(table(p, GOOD), label=["a", "label"], text="text", encode=lengths), "labels have shape"),
    "split of a file": (lambda p: read(table(p, GOOD), split="train"), "split cannot be used here"),
    "encoder of ragged rows": (
        lambda p: read(table(p, GOOD), text="text", encode=lambda t: [[1], [1, 2]]),
        "encode raised ValueError .*one length"),
    "encoder that fails": (
        lambda p: read(table(p, GOOD), text="text", encode=lambda t: 1 / 0), "encode raised ZeroDivisionError .*di"),
    "encoder that drops": (
        lambda p: read(table(p, GOOD), text="text", encode=lambda t: [[1]]), "1 rows for 2 inputs"),
    "transform that fails": (
        lambda p: read(table(p, GOOD), transform=lambda r: r[9]), "transform raised IndexError .*line 2"),
    "transform that gives text": (
        lambda p: read(table(p, GOOD), text="text", transform=str), "returns a str; .*line 2"),
    "tokens without a tokenizer": (
        lambda p: read(table(p, GOOD), features="a", target="tokens"), "no input_ids"),
    "objects in npz": (lambda p: read(saved(p, x=np.array([{}], object), y=[1])), "arrays cannot be read .*numbers"),
    "no npz": (lambda p: read(batch(p, b"PK\x03\x04 nothing", "d.npz") / "d.npz"), "arrays cannot be read"),
    "empty npz": (lambda p: read(saved(p, x=PIXELS[:0], y=LABELS[:0])), "no examples"),
    "no inputs in npz": (lambda p: read(saved(p, z=PIXELS, y=LABELS)), "no array of inputs among z, y; .*features"),
    "no labels in npz": (lambda p: read(saved(p, x=PIXELS)), "no array of label among x"),
    "wrong key": (lambda p: read(saved(p, x=PIXELS, y=LABELS), label="yy"), "no array 'yy'; .*did you mean y"),
    "lengths in npz": (lambda p: read(saved(p, x=PIXELS, y=LABELS[:3])), "24 inputs but 3 labels"),
    "shape in npz": (lambda p: read(saved(p, x=PIXELS[None], y=[1])), r"images have shape \[1, 24, 8, 8\]"),
    "NaN label": (
        lambda p: read(saved(p, x=PIXELS[:2], y=[0.0, np.nan])), r"label .*nan.* is not a number; .*d.npz\[1\]"),
    "magic": (lambda p: read(digit_files(p, b"\x00\x00\x0d\x03" + b"0" * 40)), "with 00000d03, expected 00000803"),
    "labels for images": (lambda p: read(digit_files(p, idx_bytes(LABELS))), "expected 00000803; .*3 axes"),
    "truncated idx": (lambda p: read(digit_files(p, idx_bytes(PIXELS)[:-1])), "1535 bytes, but its header says 1536"),
    "truncated head": (lambda p: read(digit_files(p, idx_bytes(PIXELS)[:9])), "0 bytes, but its header says"),
    "truncated gzip": (lambda p: read(digit_files(p, gzip.compress(idx_bytes(PIXELS))[:-9])), "cannot be read .*again"),
    "empty idx": (lambda p: read(digit_files(p, b"")), "starts with nothing"),
    "idx of nothing": (lambda p: read(digit_files(p, idx_bytes(PIXELS[:0]), idx_bytes(LABELS[:0]))), "no examples"),
    "no idx labels": (
        lambda p: read(digit_files(p, None, b"none")), "no file of labels beside .*add train-labels-idx1-ubyte"),
    "idx lengths": (lambda p: read(digit_files(p, None, idx_bytes(LABELS[:3]))), "24 images but 3 labels"),
    "idx label above classes": (lambda p: read(digit_files(p), classes=["a", "b"]), r"label 2, expected 0 to 1;.*\[2"),
    "no idx": (lambda p: read(empty(p), format="idx"), "no IDX file of images"),
    "truncated batch": (
        lambda p: read(batch(p, binary(slice(0, 2))[:-1], "data_batch_1.bin")), "not a multiple of 3073"),
    "label in a batch": (
        lambda p: read(batch(p, b"\x0a" + bytes(3072), "data_batch_1.bin")), "label 10, expected 0 to 9; .*example 0"),
    "empty batch": (lambda p: read(batch(p, b"", "data_batch_1.bin")), "no examples; .*data_batch_1.bin"),
    "truncated pickle": (lambda p: read(batch(p, python_batch(slice(0, 2))[:-40])), "not a batch of CIFAR-10"),
    "pickle of something": (lambda p: read(batch(p, pickle.dumps([1]))), "not a batch of CIFAR-10 .*a list"),
    "pickle without labels": (
        lambda p: read(batch(p, pickle.dumps({b"data": cifar().reshape(N, -1)}, 2))), "the batch has no labels"),
    "pickle of other shape": (
        lambda p: read(batch(p, pickle.dumps({b"data": PIXELS.reshape(N, 64), b"labels": [1] * N}, 2))),
        r"images are uint8 \[24, 64\]"),
    "pickle of floats": (
        lambda p: read(batch(p, pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}, 2))), "array of kind f8"),
    "pickle of objects": (
        lambda p: read(batch(p, pickle.dumps({b"data": np.array([None]), b"labels": [1]}, 2))), "an array of kind O8"),
    "class not in cifar": (
        lambda p: read(batch(p, python_batch(slice(0, 2))), classes=[*CLASSES[:9], "trukc"]), "'trukc'; .*truck"),
    "no batches": (lambda p: read(empty(p), format="cifar10"), "no batch of CIFAR-10"),
    "broken archive": (lambda p: read(batch(p, b"\x1f\x8b no", "c.tar.gz") / "c.tar.gz"), "archive cannot be read"),
    "no dataset": (lambda p: read(empty(p), format="huggingface"), "neither a saved dataset nor parquet"),
    "a dataset that is a file": (
        lambda p: read(table(p, GOOD), format="huggingface"), "not a folder; .*save_to_disk wrote"),
    "splits not listed": (
        lambda p: read(table(p, "{}", "dataset_dict.json").parent), "list of splits cannot be read"),
    "state without data": (
        lambda p: read(table(p, json.dumps({"_data_files": [{"filename": "gone.arrow"}]}), "state.json").parent),
        "the dataset cannot be read"),
}  # fmt: skip


def png(path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)).save(path / "big.png")
    return (path / "big.png").read_bytes()


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_wrong_is_said_in_one_line(case, tmp_path):
    call, message = ERRORS[case]
    with pytest.raises(BadInput, match=message) as caught:
        call(tmp_path)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value), "what and where; what to do"
    assert str(tmp_path) in str(caught.value)


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


ATTACKS = {
    "a call": lambda p: pickle.dumps({b"data": Touch(p / "owned"), b"labels": [1]}, 2),
    "a call, protocol 4": lambda p: pickle.dumps({b"data": Touch(p / "owned"), b"labels": [1]}, 4),
    "eval": lambda p: b'cbuiltins\neval\n(S\'__import__("os").mkdir("' + str(p / "owned").encode() + b"\")'\ntR.",
    "a method of numpy": lambda p: b"cnumpy\nsave\n(S'" + str(p / "owned.npy").encode() + b"'\nI1\ntR.",
    "an attribute in dots": lambda p: b"\x80\x04\x8c\x05numpy\x8c\x0bcore.memmap\x93.",
    "another codec": lambda p: b"c_codecs\nencode\n(S'a'\nS'zlib'\ntR.",
    "a persistent id": lambda p: b"Psomething\n.",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_pickle_runs_nothing(attack, tmp_path):
    (tmp_path / "data_batch_1").write_bytes(ATTACKS[attack](tmp_path))
    with pytest.raises(BadInput, match="not a batch of CIFAR-10") as caught:
        read(tmp_path / "data_batch_1")
    assert "\n" not in str(caught.value)
    assert [f.name for f in tmp_path.iterdir()] == ["data_batch_1"]


def test_the_attack_would_have_worked(tmp_path):
    """The payload is real: an ordinary load runs it."""
    pickle.loads(ATTACKS["a call"](tmp_path))
    assert (tmp_path / "owned").exists()
