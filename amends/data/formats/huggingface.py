"""A Hugging Face dataset on disk: what `save_to_disk` writes, or a folder of parquet files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amends.data.formats.columns import Table
from amends.data.formats.pieces import in_pieces, rows_of
from amends.data.formats.raw import Asked, Raw, split_of
from amends.data.formats.tables import columns_of, parquets
from amends.errors import BadInput, first_line


def huggingface(path: Path, asked: Asked) -> Raw:
    if not path.is_dir():
        raise BadInput(f"this is not a folder; {path}; give the folder that save_to_disk wrote")
    if (path / "dataset_dict.json").exists():
        splits = _splits(path / "dataset_dict.json")
        path = path / split_of(asked.split, splits, path)
    elif (path / "state.json").exists():
        asked.refuse(path, "split")
    else:
        return _parquets(path, asked)
    return _saved(path, asked)


def _splits(path: Path) -> list[str]:
    try:
        return [str(s) for s in json.loads(path.read_text())["splits"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise BadInput(f"the list of splits cannot be read ({first_line(e)}); {path}; save the dataset again") from e


def _saved(path: Path, asked: Asked) -> Raw:
    try:
        from datasets import load_from_disk
    except ImportError as e:
        raise BadInput(
            f"a saved dataset cannot be read without datasets; {path}; run: pip install 'amends[huggingface]'"
        ) from e
    try:
        dataset: Any = load_from_disk(str(path)).with_format("arrow")
    except Exception as e:  # arrow and datasets raise errors of many kinds
        raise BadInput(f"the dataset cannot be read ({first_line(e)}); {path}; save it again") from e
    size = dataset.data.nbytes
    most = rows_of(len(dataset), size, size)
    rows, features = most or max(1, len(dataset)), dataset.features.to_dict()
    return in_pieces(lambda: _rows(dataset, rows, path), path, asked, features, several=most is not None)


def _rows(dataset: Any, rows: int, path: Path) -> Iterator[Table]:
    for start in range(0, len(dataset), rows):
        try:
            table = columns_of(dataset[start : start + rows].to_pandas())
        except Exception as e:
            raise BadInput(f"the dataset cannot be read ({first_line(e)}); {path}; save it again") from e
        yield table


def _parquets(path: Path, asked: Asked) -> Raw:
    """Files by split: train-00000-of-00002.parquet, data/train.parquet or train/0000.parquet."""
    files: dict[str, list[Path]] = {}
    for file in sorted(path.rglob("*.parquet")):
        stem = re.sub(r"-\d+-of-\d+$", "", file.stem)
        split = file.parent.name if stem.isdigit() and file.parent != path else "" if stem.isdigit() else stem
        files.setdefault(split, []).append(file)
    if not files:
        raise BadInput(f"neither a saved dataset nor parquet files; {path}; give the folder that save_to_disk wrote")
    return parquets(files[split_of(asked.split, list(files), path)], asked)
