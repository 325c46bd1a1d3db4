"""Every format but tables, written here from real digits and read back to the bit."""

from __future__ import annotations

import gzip
import io
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from amends.data import read
from amends.data.formats.cifar10 import CLASSES
from amends.errors import BadInput
from tests.files import (
    COLOUR,
    FLOATS,
    LABELS,
    NAMES,
    PIXELS,
    N,
    binary,
    cifar,
    folder,
    idx_bytes,
    python_batch,
    same,
)  # fmt: skip

# --- image folders --------------------------------------------------------------------------------


def test_image_folder(tmp_path):
    root = folder(tmp_path)
    (root / "one" / "notes.txt").write_text("no image")
    (root / "one" / ".hidden.png").write_text("no image")
    (root / "__MACOSX").mkdir()
    (root / "__MACOSX" / "._000.png").write_text("no image")
    records = read(root, gray=True)
    order = sorted(range(N), key=lambda i: f"{NAMES[LABELS[i]]}/{'more/' if i % 2 else ''}{i:03}.png")
    assert records.classes == tuple(sorted(NAMES))
    same(records, FLOATS[order], [sorted(NAMES).index(NAMES[LABELS[i]]) for i in order])
    assert records.columns["path"][0] == f"{NAMES[LABELS[order[0]]]}/{'more/' if order[0] % 2 else ''}{order[0]:03}.png"
    assert records.where == str(root)
    given = read(root, gray=True, classes=NAMES)
    same(given, FLOATS[order], LABELS[order])
    (root / "zero").mkdir(exist_ok=True)
    (root / "other").mkdir()
    with pytest.raises(BadInput, match=r"the folder other holds no images; .*; remove it, or name the classes"):
        read(root, gray=True)
    same(read(root, gray=True, classes=NAMES), FLOATS[order], LABELS[order])
    (root / "other").rmdir()
    assert read(root).x.shape == (N, 3, 8, 8)  # colour unless told otherwise
    assert read(root, gray=True, size=(4, 6)).x.shape == (N, 1, 4, 6)


def test_image_folder_with_splits(tmp_path):
    root = folder(tmp_path, "train")
    assert len(read(root)) == N  # the only one there is
    folder(tmp_path, "test")
    assert len(read(root, split="test", gray=True)) == N
    with pytest.raises(BadInput, match=r"several splits \(test, train\); .*; choose one with split"):
        read(root)
    with pytest.raises(BadInput, match=r"no split 'tset'; .*; did you mean test"):
        read(root, split="tset")


def test_colour_becomes_gray_as_pillow_does_it(tmp_path):
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 256, (3, 5, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "c.npz", x=colour, y=[0, 1, 0])
    expected = [np.asarray(Image.fromarray(c).convert("L"))[None] for c in colour]
    same(read(tmp_path / "c.npz", gray=True), torch.tensor(np.stack(expected)).float() / 255, [0, 1, 0])
    same(read(tmp_path / "c.npz"), torch.tensor(colour.transpose(0, 3, 1, 2)).float() / 255, [0, 1, 0])


# --- arrays ---------------------------------------------------------------------------------------


def test_npz(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x=PIXELS, y=LABELS.astype(np.uint8), id=np.arange(N) + 100)
    records = read(path)
    same(records)
    assert records.columns["id"].tolist() == list(range(100, 100 + N))
    np.savez(path, images=PIXELS, labels=NAMES[LABELS])
    same(read(path, classes=NAMES))
    np.savez(path, mine=PIXELS, right=LABELS, other=LABELS + 1)
    same(read(path, image="mine", label="right"))
    np.savez(path, x_train=PIXELS, y_train=LABELS, x_test=PIXELS[:3], y_test=LABELS[:3])
    same(read(path, split="test"), FLOATS[:3], LABELS[:3])
    rows = PIXELS.reshape(N, 64).astype(np.float32)
    np.savez(path, x=rows, y=rows[:, :2])
    real = read(path, target="real")
    assert torch.equal(real.x, torch.tensor(rows))
    assert torch.equal(real.y, torch.tensor(rows[:, :2]))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dot", ["-", "."])
def test_idx(tmp_path, zipped, dot):
    end = ".gz" if zipped else ""
    pack = gzip.compress if zipped else bytes
    for prefix, at in (("train", slice(0, 16)), ("t10k", slice(16, N))):
        (tmp_path / f"{prefix}-images{dot}idx3-ubyte{end}").write_bytes(pack(idx_bytes(PIXELS[at])))
        (tmp_path / f"{prefix}-labels{dot}idx1-ubyte{end}").write_bytes(pack(idx_bytes(LABELS[at])))
    same(read(tmp_path, split="train", mean=0.0, std=1.0), FLOATS[:16], LABELS[:16])
    same(read(tmp_path, split="test"), FLOATS[16:], LABELS[16:])
    same(read(tmp_path / f"t10k-images{dot}idx3-ubyte{end}"), FLOATS[16:], LABELS[16:])
    with pytest.raises(BadInput, match="several splits"):
        read(tmp_path)


PARTS = {"data_batch_1": slice(0, 10), "data_batch_2": slice(10, 16), "test_batch": slice(16, N)}


def tarred(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("kind", ["binary", "python 2", "python 3", "python 5"])
def test_cifar10(tmp_path, kind):
    made = {
        "binary": lambda at: binary(at), "python 2": python_batch, "python 3": lambda at: python_batch(at, 3),
        "python 5": lambda at: python_batch(at, 5),
    }[kind]  # fmt: skip
    files = {name + (".bin" if kind == "binary" else ""): made(at) for name, at in PARTS.items()}
    root = tmp_path / "data"
    root.mkdir()
    for name, data in files.items():
        (root / name).write_bytes(data)
    tarred(tmp_path / "cifar.tar.gz", files)
    for path in (root, tmp_path / "cifar.tar.gz"):
        records = read(path, split="train")
        same(records, COLOUR[:16], LABELS[:16])
        assert records.classes == CLASSES
        same(read(path, split="test"), COLOUR[16:], LABELS[16:])
    same(read(root / next(n for n in files if "batch_2" in n)), COLOUR[10:16], LABELS[10:16])
    turned = read(root, split="test", classes=CLASSES[::-1])
    assert torch.equal(turned.y, 9 - torch.tensor(LABELS[16:]))


def test_the_authors_own_pickles(tmp_path):
    """Opcodes of python 2, which nothing today writes: text as bytes, `numpy.core` by its old name."""
    data = cifar()[:1].reshape(1, 3072).tobytes()

    def short(text):
        return b"U" + bytes([len(text)]) + text

    stream = (
        b"\x80\x02}(" + short(b"labels") + b"]K\x03a" + short(b"data")
        + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short(b"b") + b"\x87R"
        + b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\n" + short(b"u1") + b"K\x00K\x01\x87R(K\x03" + short(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + len(data).to_bytes(4, "little") + data + b"tbu."
    )  # fmt: skip
    (tmp_path / "data_batch_1").write_bytes(stream)
    same(read(tmp_path / "data_batch_1"), COLOUR[:1], [3])


# --- Hugging Face ---------------------------------------------------------------------------------


def test_a_dataset_directory(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES.tolist()), "id": datasets.Value("string")}
    )
    rows = {"image": [Image.fromarray(p) for p in PIXELS], "label": LABELS, "id": [f"d{i}" for i in range(N)]}
    whole = datasets.Dataset.from_dict(rows, features=features)
    whole.save_to_disk(tmp_path / "one")
    records = read(tmp_path / "one", gray=True)
    same(records)
    assert records.classes == tuple(NAMES)
    assert records.columns["id"][3] == "d3"
    whole.select(range(5, 9)).save_to_disk(tmp_path / "part")
    same(read(tmp_path / "part", gray=True), FLOATS[5:9], LABELS[5:9])
    datasets.DatasetDict(train=whole, test=whole.select([2])).save_to_disk(tmp_path / "both")
    same(read(tmp_path / "both", split="test", gray=True), FLOATS[2:3], LABELS[2:3])
    turned = read(tmp_path / "one", gray=True, classes=NAMES[::-1])
    assert torch.equal(turned.y, 9 - torch.tensor(LABELS))
    files = tmp_path / "files" / "data"
    files.mkdir(parents=True)
    for i, at in enumerate((range(10), range(10, N))):
        whole.select(at).to_parquet(files / f"train-{i:05}-of-00002.parquet")
    whole.select([1]).to_parquet(files / "test.parquet")
    same(read(tmp_path / "files", split="train", gray=True))
    assert read(tmp_path / "files", split="test").classes == tuple(NAMES)
    with pytest.raises(BadInput, match="several splits"):
        read(tmp_path / "files")


# --- what runs over a raw input -------------------------------------------------------------------


def test_transforms_and_encoders(tmp_path):
    np.savez(tmp_path / "d.npz", x=PIXELS, y=LABELS)
    flipped = read(tmp_path / "d.npz", transform=lambda x: x.flip(-1), mean=[0.5], std=[0.25])
    same(flipped, (FLOATS.flip(-1) - 0.5) / 0.25)
    named = read(tmp_path / "d.npz", transform=lambda x: {"a": x, "b": x.sum()})
    assert torch.equal(named.x["a"], FLOATS)
    seen = []
    encoded = read(tmp_path / "d.npz", encode=lambda xs: seen.append(len(xs)) or {"pixel_values": torch.stack(xs)})
    assert torch.equal(encoded.x["pixel_values"], FLOATS)
    assert seen == [N]  # all at once


def as_torchvision(image):
    """As its transforms do: a Pillow image comes in, of files in RGB."""
    assert isinstance(image, Image.Image)
    return torch.tensor(np.asarray(image.convert("L"))).float()[None] / 255


def as_floats(image: torch.Tensor):
    return image.flip(-1)


def test_a_transform_gets_a_pillow_image_where_an_image_is_in_a_file(tmp_path):
    photos, order = folder(tmp_path), None
    plain = read(photos, gray=True)
    order = plain.x
    assert torch.equal(read(photos, transform=as_torchvision).x, order)
    sizes = []
    small = read(photos, gray=True, size=(4, 6), transform=lambda i: sizes.append((i.mode, i.size)) or torch.zeros(1))
    assert small.x.shape == (N, 1)
    assert set(sizes) == {("L", (6, 4))}
    seen = read(photos, gray=True, augment=as_torchvision).training[0][0]
    assert torch.equal(seen, order[0])


def test_a_transform_that_says_tensor_gets_floats(tmp_path):
    photos = folder(tmp_path)
    plain = read(photos, gray=True)
    assert torch.equal(read(photos, gray=True, transform=as_floats).x, plain.x.flip(-1))
    quoted = eval("lambda image: image.flip(-1)")
    quoted.__annotations__ = {"image": "torch.Tensor"}
    assert torch.equal(read(photos, gray=True, transform=quoted).x, plain.x.flip(-1))


def test_a_transform_of_arrays_gets_floats_as_before(tmp_path):
    np.savez(tmp_path / "d.npz", x=PIXELS, y=LABELS)
    assert read(tmp_path / "d.npz", transform=lambda x: x.mean()[None]).x.shape == (N, 1)
