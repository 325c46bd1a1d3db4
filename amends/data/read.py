"""From a file or folder to Records: one door for every format."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from amends.data import formats
from amends.data.formats.raw import ROW, Asked, Raw
from amends.data.inputs import Inputs, each
from amends.data.records import Records
from amends.data.source import Augmented, Normal, Source, inputs_of
from amends.data.stored import SKIP, STOP
from amends.data.targets import targets
from amends.data.views import unsteady
from amends.errors import BadInput


def read(
    path: str | Path,
    *,
    format: str | None = None,
    split: str | None = None,
    label: str | Sequence[str] | None = None,
    image: str | None = None,
    text: str | None = None,
    messages: str | None = None,
    prompt: str | None = None,
    response: str | None = None,
    features: str | Sequence[str] | None = None,
    id: str | None = None,
    classes: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = None,
    gray: bool = False,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    transform: Callable[[Any], Any] | None = None,
    augment: Callable[[Any], Any] | None = None,
    encode: Callable[[list[Any]], Any] | None = None,
    target: str = "class",
    on_error: str = "stop",
) -> Records:
    """Labelled examples of a file or folder, ready for a model.

    `format` is "images" (a folder for each class), "csv", "parquet", "jsonl", "npz", "idx", "cifar10" or
    "huggingface" (a dataset directory), guessed when None; `split` chooses among train, test, ... `label`,
    `image`, `text`, `features` and `id` name columns, or keys of an npz. `classes` gives the order of named classes,
    which is sorted otherwise: pass the classes of train when reading the other sets.

    A raw input is an image (float [C, H, W] from 0 to 1, resized to `size` and made `gray` where asked), a text,
    or a row of features. `transform` turns one into a tensor or a dict of tensors and must not be random; of an
    image in a file it gets the Pillow image, as torchvision's transforms do, unless its parameter is annotated Tensor;
    `augment` does the same with randomness, for fine-tuning alone. `mean` and `std` then normalise the result.
    Instead of `transform`, `encode` takes the list of all raw inputs (a tokenizer, an image processor);
    `augment` then returns another raw input, which is encoded. `target` is "class", "real", "labels" (`label`
    names columns of 0 and 1), "tokens" (the input_ids that `encode` returns, without padding), or
    "response": rows of `messages`, or of a `prompt` and a `response`, of which the response alone is asked; `encode` is
    then what `amends.models.chat` returns. `on_error` says what happens where an example cannot be read or transformed:
    "stop", or "skip" to go on without it.
    """
    if on_error not in (STOP, SKIP):
        raise BadInput(f'on_error is {on_error!r}; {path}; give "stop" or "skip"')
    names = () if classes is None else tuple(map(str, classes))
    encoded = encode is not None or transform is not None
    scaled = encoded or mean is not None or std is not None
    asked = Asked(split, label, image, text, features, id, messages, prompt, response, names, target, encoded, scaled)
    raw = formats.raw(Path(path), format, asked)
    normal = Normal.of(mean, std, raw, encode)
    source = Source(raw, inputs_of(raw, size, gray), transform, encode, normal)
    if on_error == SKIP:
        raw = _readable(source)
        source = Source(raw, inputs_of(raw, size, gray), transform, encode, normal)
    x = source.all()
    _warn_of_randomness(source, x)
    x, y, names = targets(x, raw, asked)
    view = None if augment is None else Augmented(source, augment, y)
    changed = raw.kind == ROW and bool(raw.features) and scaled
    stored = np.asanyarray(raw.inputs) if changed else None
    return Records(x, y, dict(raw.columns), names, raw.features, view, raw.where, stored)


def _readable(source: Source) -> Raw:
    """What can be read of a set, after one pass over it; the column `row` then has the places in the file."""
    kept = source.readable()
    if kept.all():
        return source.raw
    at, broken = np.flatnonzero(kept), int((~kept).argmax())
    if not len(at):
        raise BadInput(f"no example can be read; {source.raw.at(0)} first; {source.raw.where}; give at least one")
    warnings.warn(
        f"{len(kept) - len(at)} of the {len(kept)} examples of {source.raw.where} cannot be read and are left out, "
        f"{source.raw.at(broken)} first; positions count those that are left, and the column row has those of the file",
        stacklevel=3,
    )
    raw = source.raw.only(at)
    return replace(raw, columns={**raw.columns, "row": at})


def _warn_of_randomness(source: Source, x: Inputs) -> None:
    if source.transform is None or source.encode is not None:
        return

    def first(i: int) -> Any:
        return each(x, lambda t: t[i])

    if unsteady(first, lambda i: source.one(i, source.transform), len(source)):
        warnings.warn(
            f"transform returns the same example of {source.raw.where} differently each time, so all scores would come "
            "from one random draw; give a transform without randomness, and this one as augment, for fine-tuning",
            stacklevel=3,
        )
