"""What a person sees of an example: pictures, texts, rows, and labels in their words."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest
import torch

import amends
from amends.data import examples
from amends.data.records import Records
from amends.tables.looks import CUT, kind_of, looks, picture


def decoded(address):
    """The pixels of a PNG that holds itself, by the book: chunks with their checksums, lines without a filter."""
    head, body = address.split(",")
    assert head == "data:image/png;base64"
    data, at, found = base64.b64decode(body), 8, {}
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        inside = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + inside)
        found[name], at = inside, at + 12 + size
    wide, high, depth, kind = struct.unpack(">IIBB", found[b"IHDR"][:10])
    channels = {0: 1, 2: 3}[kind]
    lines = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(high, 1 + wide * channels)
    assert depth == 8
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(high, wide, channels)


def made(x, y=None, **more):
    return examples(Records(x, torch.zeros(len(x), dtype=torch.long) if y is None else y, **more), "train")


def test_bytes_and_values_from_0_to_1_are_shown_as_they_are():
    image = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    assert np.array_equal(decoded(picture(image)), image.permute(1, 2, 0).numpy())
    dim = torch.full((1, 4, 6), 0.2)
    assert (decoded(picture(dim)) == 51).all()


def test_other_values_are_shown_over_their_own_range():
    image = torch.linspace(-2, 3, 24).view(1, 4, 6)
    shown = decoded(picture(image))[..., 0]
    assert shown.ravel()[0] == 0
    assert shown.ravel()[-1] == 255
    assert (np.diff(shown.ravel().astype(int)) > 0).all()
    assert (decoded(picture(torch.full((1, 4, 4), 7.0))) == 0).all()


def test_large_pictures_are_averaged_down_and_keep_their_shape():
    board = torch.zeros(3, 200, 100)
    board[:, :100] = 1
    shown = decoded(picture(board, 64))
    assert shown.shape == (64, 32, 3)
    assert (shown[:32] == 255).all()
    assert (shown[32:] == 0).all()


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (torch.rand(3, 1, 8, 8), "image"),
        (torch.rand(3, 3, 8, 8), "image"),
        (torch.rand(3, 8, 8, 3), "image"),
        (torch.rand(3, 28, 28), "image"),
        (torch.rand(3, 784), "image"),
        (torch.rand(3, 30), "row"),
        (torch.randint(0, 9, (3, 12)), "none"),
        ({"pixel_values": torch.rand(3, 3, 16, 16)}, "image"),
        ({"input_ids": torch.randint(0, 9, (3, 12)), "attention_mask": torch.ones(3, 12)}, "none"),
    ],
)
def test_kinds_of_inputs(x, kind):
    y = torch.zeros(3, dtype=torch.long)
    assert kind_of(made(x, y)) == kind


def test_channels_last_is_turned():
    x = torch.rand(2, 6, 5, 3)
    shown = decoded(looks((made(x), [1]))["train"]["1"]["image"])
    assert np.array_equal(shown, (x[1] * 255).round().byte().numpy())


def words(*columns, n=3):
    return {name: np.array([f"{name} {i} {'w' * width}" for i in range(n)], dtype=object) for name, width in columns}


def test_a_text_is_the_column_of_that_name_or_the_longest():
    x = torch.randint(0, 9, (3, 4))
    seen = looks((made(x, columns=words(("note", 90), ("sentence", 5))), [2]))
    assert seen["kind"] == "text"
    assert seen["train"]["2"]["text"] == "sentence 2 wwwww"
    seen = looks((made(x, columns=words(("note", 40), ("remark", 90), ("path", 200))), [0]))
    assert seen["train"]["0"]["text"].startswith("remark 0 w")
    assert kind_of(made(x, columns=words(("city", 5)))) == "none"


def test_a_picture_with_a_caption_is_a_picture_and_a_row_with_a_text_a_text():
    assert kind_of(made(torch.rand(3, 1, 8, 8), columns=words(("text", 90)))) == "image"
    assert kind_of(made(torch.rand(3, 784), columns=words(("text", 90)))) == "text"
    assert kind_of(made(torch.rand(3, 40), columns=words(("text", 90)))) == "text"


def test_long_texts_are_cut_between_words():
    long = np.array(["word " * 400] * 2, dtype=object)
    shown = looks((made(torch.zeros(2, 3), columns={"text": long}), [0]))["train"]["0"]["text"]
    assert len(shown) <= CUT + 2
    assert shown.endswith("word …")


def test_what_stands_out_is_furthest_from_the_mean_of_train():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=g) * torch.tensor([1.0, 10.0, 0.1, 0.0]) + torch.tensor([0.0, 0.0, 5.0, 3.0])
    x[7] = torch.tensor([1.0, -60.0, 6.0, 3.0])
    data = made(x, features=("a", "b", "c", "constant"))
    seen = looks((data, [7]), failures=(made(x[:10], features=data.features), [7]))
    for name in ("train", "failures"):
        row = seen[name]["7"]
        assert row["stands_out"][:2] == ["c", "b"]
        assert row["values"][:2] == [6.0, -60.0]
        assert row["deviations"][0] == pytest.approx(float((x[7, 2] - x[:, 2].mean()) / x[:, 2].std()), rel=0.02)
        assert row["deviations"][1] < -5
        assert row["deviations"][row["stands_out"].index("constant")] == 0
        assert row["row"] == [1.0, -60.0, 6.0, 3.0]
    assert seen["features"] == ["a", "b", "c", "constant"]
    assert looks((made(x), [7]))["train"]["7"]["stands_out"][0] == "column 2"


def test_positions_are_those_of_the_set_given():
    x = torch.rand(10, 1, 4, 4)
    part = made(x, torch.arange(10) % 3, classes=("a", "b", "c"))[[9, 4, 2]]
    seen = looks((part, [2, 0]))["train"]
    assert list(seen) == ["2", "0"]
    assert seen["2"] == {"image": picture(x[2]), "label": "c"}
    assert seen["0"] == {"image": picture(x[9]), "label": "a"}


@pytest.mark.parametrize(
    ("y", "classes", "label"),
    [
        (torch.tensor([1, 2]), (), 2),
        (torch.tensor([1, 2]), ("x", "y"), 2),
        (torch.tensor([0.5, 0.123456]), (), 0.1235),
        (torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]), ("red", "green", "blue"), "red, blue"),
        (torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), ("red", "green", "blue"), "none"),
        (torch.tensor([[1, 2, -100], [3, -100, -100]]), (), None),
    ],
)
def test_labels_in_the_words_of_the_user(y, classes, label):
    entry = looks((made(torch.rand(2, 5), y, classes=classes), [1]))["train"]["1"]
    assert entry.get("label") == label


def test_nothing_to_show_is_said_to_be_nothing():
    assert looks() == {"kind": "none", "features": [], "classes": [], "train": {}, "failures": {}, "remaining": {}}


@pytest.mark.parametrize("how", ["scaled", "transformed"])
def test_a_row_is_shown_as_the_file_has_it_however_the_model_takes_it(tmp_path, how):
    lines = ["id,age,weight,label", *(f"p{i},{20 + i},{50 + 3 * i},{'ab'[i % 2]}" for i in range(8))]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    change = {"mean": [30.0, 60.0], "std": [5.0, 9.0]}
    if how == "transformed":
        change = {"transform": lambda row: torch.tanh((row - 30) / 9)[:1]}
    people = amends.data.read(tmp_path / "people.csv", **change)
    assert float(people.x.abs().max()) < 4
    seen = looks(train=(examples(people[[7, 2]], "train"), [0, 1]))
    assert seen["kind"] == "row"
    assert [seen["train"][k]["row"] for k in "01"] == [[27, 71], [22, 56]]
    assert dict(zip(seen["train"]["0"]["stands_out"], seen["train"]["0"]["values"], strict=True)) == {
        "age": 27, "weight": 71,
    }  # fmt: skip
    assert seen["train"]["0"]["id"] == "p7"
