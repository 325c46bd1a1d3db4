"""Folders are written whole or not at all."""

from __future__ import annotations

import pytest

from amends.runs.disk import locked, write_folder


def test_an_interrupted_writer_leaves_nothing(tmp_path):
    def fill(made):
        (made / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "run", fill)
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []
