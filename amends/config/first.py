"""A first amends.toml: every key with its meaning, filled in from the data or model it is made for."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

from amends.config.keys import ABOUT, TABLES, Key
from amends.errors import BadInput, DiskError

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
LABELS = ("label", "labels", "y", "target", "targets", "class", "category", "intent")
TEXTS = ("text", "sentence", "review", "question", "content", "body")
IMAGES = ("image", "path", "file", "filename", "image_path", "file_name")
GIVE = "give a Hugging Face directory, a folder of images, a CSV, a parquet or a JSON lines file"
LOOKED_AT = 20  # pictures, to see whether all have one channel
HELD_OUT = ("test", "validation", "valid", "val", "eval", "evaluation")
SHOWN = {
    "function": '"my_model:build"', "options": "{ width = 64 }", "weights": '"model.safetensors"',
    "huggingface": '"my-model/"', "task": '"text-classification"', "adapter": '"my-adapter/"', "path": '"data/"',
    "split": '"train"', "format": '"csv"', "label": '"label"', "image": '"path"', "text": '"text"',
    "messages": '"messages"', "prompt": '"prompt"',
    "response": '"response"', "features": '["age", "income"]', "id": '"id"',
    "classes": '["cat", "dog"]', "size": "[32, 32]", "gray": "true",
    "mean": "[0.5]", "std": "[0.25]", "transform": '"my_model:to_tensor"', "augment": '"my_model:flip_and_crop"',
    "target": '"class"', "on_error": '"stop"', "ids": '"failures.csv"', "indices": "[3, 14, 15]",
    "kind": '"categorical"',
    "class_weights": "[1.0, 4.0]", "label_smoothing": "0.1", "sigma": "1.0", "bound": "2.0", "share": "1.0",
    "method": '"default"', "method_options": "{ }", "treat": '"default"', "treat_options": "{ epochs = 5 }",
    "solver": '"cg"', "learn": "false", "relabel": "false", "top": "100", "fraction": "0.05", "holdout": "0.5",
    "group_by": '"clusters"', "group": '"cat→dog"', "floor": "0.05", "broken_costs": "1.0", "budget": '"default"',
    "least": "0.95", "anyway": "false", "unsafe_pickle": "false", "seed": "0", "device": '"cuda"',
    "batch_size": "256", "spread": "false", "require": '"holdout>=0.5,remaining>=0.98"',
}  # fmt: skip

ALSO = {
    ("likelihood", "function"): '"my_model:log_prob"', ("train", "path"): '"data/train"',
    ("evaluation", "path"): '"data/test"', ("evaluation", "split"): '"test"', ("failures", "path"): '"data/failures"',
    ("remaining", "path"): '"data/remaining"', ("keep", "path"): '"data/night"',
}  # fmt: skip


def write_first(target: Path, source: Path | None) -> dict[str, dict[str, Any]]:
    """Writes the file and returns what it was filled with; an existing file is left alone."""
    filled = {} if source is None else look_at(source, target.parent)
    text = first_text(filled, None if source is None else str(source))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"the file already exists; {target}; choose another name, or remove it first") from None
    except OSError as e:
        raise DiskError(f"cannot write the file ({e.strerror or e}); {target}; choose another place") from e
    return filled


def first_text(filled: dict[str, dict[str, Any]], source: str | None = None) -> str:
    """The config as text; every key that is not filled in is a comment."""
    origin = f" Filled in from {source}." if source else ""
    lines = [f"# The config of amends.{origin} A key behind # is not used; remove the # to use it.",
             "# Paths are relative to this file. Check it with: amends check"]  # fmt: skip
    for table, keys in TABLES.items():
        values = filled.get(table, {})
        needed = bool(values) or table in ("model", "train")
        name = "keep.night" if table == "keep" else table
        lines += ["", *_about(ABOUT[table]), f"[{name}]" if needed else f"# [{name}]"]
        if table in ("evaluation", "failures", "remaining", "keep", "train"):
            keys = {k: v for k, v in keys.items() if k not in TABLES["data"] or k in values}
        lines += [_line(table, key, rule, values) for key, rule in keys.items()]
    return "\n".join(lines) + "\n"


def _about(text: str) -> list[str]:
    return [f"# {line}" for line in text.replace(". ", ".\n").split("\n")]


def _line(table: str, key: str, rule: Key, values: dict[str, Any]) -> str:
    shown = json.dumps(values[key], ensure_ascii=False) if key in values else ALSO.get((table, key), SHOWN[key])
    note = rule.help + (f" ({', '.join(rule.choices)})" if 0 < len(rule.choices) <= 7 else "")
    return f"{'' if key in values else '# '}{key} = {shown}".ljust(34) + f"  # {note}"


def look_at(source: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Keys of the config that can be read from a path to a model or to data."""
    if not source.exists():
        raise BadInput(f"no such file or folder; {source}; {GIVE}")
    where = Path(os.path.relpath(source, folder)).as_posix()
    if source.is_file():
        return _table(source, where)
    if (source / "config.json").is_file():
        return {"model": {"huggingface": where}}
    if (source / "dataset_dict.json").is_file():
        return _splits(json.loads((source / "dataset_dict.json").read_text()).get("splits", []), where)
    if (source / "dataset_info.json").is_file():
        return {"train": {"path": where, "format": "huggingface"}}
    if any(p.suffix.lower() in PICTURES for p in _some(source)):
        return _pictures(source, where)
    raise BadInput(f"neither a Hugging Face directory nor a folder of images; {source}; {GIVE}")


def _some(folder: Path, most: int = 20000) -> list[Path]:
    paths: list[Path] = []
    for base, _, files in os.walk(folder):
        paths += [Path(base, f) for f in files]
        if len(paths) >= most:
            break
    return paths


def _splits(names: list[str], where: str) -> dict[str, dict[str, Any]]:
    held = next((n for n in HELD_OUT if n in names), None)
    filled = {"train": {"path": where, "format": "huggingface", "split": "train"}}
    if held:
        filled["evaluation"] = {"path": where, "format": "huggingface", "split": held}
    return filled


def _pictures(source: Path, where: str) -> dict[str, dict[str, Any]]:
    parts = {p.name: p for p in source.iterdir() if p.is_dir()}
    held = next((n for n in HELD_OUT if n in parts), None)
    train = f"{where}/train" if "train" in parts else where
    filled: dict[str, dict[str, Any]] = {"data": {"format": "images"}, "train": {"path": train}}
    if held:
        filled["evaluation"] = {"path": f"{where}/{held}"}
    classes = sorted(p.name for p in (source / "train" if "train" in parts else source).iterdir() if p.is_dir())
    filled["data"]["classes"] = classes
    if _gray([p for p in _some(source) if p.suffix.lower() in PICTURES][:LOOKED_AT]):
        filled["data"]["gray"] = True
    return filled


def _gray(paths: list[Path]) -> bool:
    """Whether all of these pictures have one channel; False if one cannot be read."""
    try:
        from PIL import Image
    except ImportError:
        return False
    kinds = set()
    for path in paths:
        try:
            with Image.open(path, formats=("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")) as picture:
                kinds.add(picture.mode)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return False
    return bool(kinds) and kinds <= {"1", "L"}


def _table(source: Path, where: str) -> dict[str, dict[str, Any]]:
    kind = source.suffix.lower().lstrip(".")
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        try:
            schema = pyarrow.parquet.read_schema(source)
        except (pyarrow.ArrowInvalid, OSError) as e:
            raise BadInput(f"not a parquet file ({e}); {source}; give another file") from None
        columns = {c.name: pyarrow.types.is_integer(c.type) or pyarrow.types.is_floating(c.type) for c in schema}
    elif kind in ("csv", "tsv"):
        with source.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = csv.reader(file, delimiter="\t" if kind == "tsv" else ",")
            header, first = next(rows, []), next(rows, [])
        columns = {name: _is_number(value) for name, value in zip(header, first, strict=False)}
        kind = "csv"
    elif kind == "jsonl":
        return _json_lines(source, where)
    else:
        raise BadInput(f"cannot use a .{kind} file; {source}; {GIVE}")
    return {"data": {"format": kind, **_columns(columns)}, "train": {"path": where}}


def _json_lines(source: Path, where: str) -> dict[str, dict[str, Any]]:
    try:
        with source.open(encoding="utf-8") as file:
            first = dict(json.loads(file.readline()))
    except (OSError, ValueError, TypeError) as e:
        raise BadInput(f"its first line is not an object of JSON ({e}); {source}; {GIVE}") from None
    if set(first) & {"messages", "conversations", "conversation"} or {"prompt"} < set(first):
        roles: dict[str, Any] = {"target": "response", **({"id": "id"} if "id" in first else {})}
    else:
        roles = _columns({k: isinstance(v, int | float) for k, v in first.items()})
    return {"data": {"format": "jsonl", **roles}, "train": {"path": where}}


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _columns(columns: dict[str, bool]) -> dict[str, Any]:
    """The use of each column, by its name and whether it holds numbers; an unclear column is left out."""
    low = {name.lower(): name for name in columns}
    label = next((low[n] for n in LABELS if n in low), None)
    roles: dict[str, Any] = {} if label is None else {"label": label}
    if "id" in low:
        roles["id"] = low["id"]
    text = next((low[n] for n in TEXTS if n in low), None)
    image = next((low[n] for n in IMAGES if n in low and not columns[low[n]]), None)
    numbers = [n for n, number in columns.items() if number and n not in (label, low.get("id"))]
    if text is not None:
        roles["text"] = text
    elif image is not None:
        roles["image"] = image
    elif numbers and label is not None:
        roles["features"] = numbers
    return roles
