"""Cleaned data as a folder of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from amends import export
from amends.data import Records, read
from tests.export.folders import at, contents


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
