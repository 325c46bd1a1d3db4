"""From what a caller passes in Python (Datasets, arrays, tables, Hugging Face datasets) to Records."""

from __future__ import annotations

import datetime
import numbers
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from amends.data.inputs import Inputs, native, stacked
from amends.data.records import Records
from amends.data.stored import MOST, STAYS, StoredSet, as_stored, looked_through, size_of, stored
from amends.data.views import LABELS, Views, input_of, same, seeded, unsteady
from amends.errors import BadInput, first_line, kind_of

IDS = ("id", "idx", "index")  # columns that name an example: no inputs unless the model asks for them
ONCE = ("failures", "remaining")  # what will judge a repair is read once, when it is split and checked


def records(data: Any, name: str, accepts: set[str]) -> Records:
    """Records of a set. Named columns are inputs if they are in `accepts`, or else if they hold numbers.

    Warns if the set returns the same example differently each time.
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, Views):
        return _viewed(data, name, accepts)
    if isinstance(data, StoredSet):
        return _stored(data, name)
    if isinstance(data, tuple | list) and len(data) == 2 and not _is_example(data[0]):
        return _checked(_inputs(data[0], name), _tensor(data[1], f"labels of {name}"), name)
    columns = None if type(data).__name__ == "IterableDataset" else getattr(data, "column_names", None)
    if columns is None and hasattr(data, "to_numpy"):  # a pandas DataFrame
        columns = getattr(data, "columns", None)
    if columns is not None and not _is_transformed(data):
        return _columns(data, list(columns), name, accepts)
    if isinstance(data, Mapping):
        return _columns(data, list(data), name, accepts)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and getattr(data, "ndim", 1):
        return _stored(stored(data), name) if _large(data) else _items(data, name, accepts)
    if isinstance(data, DataLoader) and not isinstance(data.dataset, IterableDataset):
        raise BadInput(f"{name} is a DataLoader, which may shuffle; pass the set it loads from, loader.dataset")
    if hasattr(data, "__iter__") and getattr(data, "ndim", 1):
        raise BadInput(
            f"{name} is {kind_of(data)}, a stream without positions, so scores could not find their way back; "
            "save it as a set with an index, such as a Hugging Face dataset or memory-mapped arrays"
        )
    raise BadInput(
        f"{name} is {kind_of(data)}, which cannot be read as examples; "
        "pass a Dataset of (x, y), a pair of tensors or arrays, or a table with named columns"
    )


def _large(data: Any) -> bool:
    """Whether items (x, y) would take too much memory as one tensor."""
    item = data[0] if len(data) >= STAYS // MOST else None
    if not (isinstance(item, tuple | list) and len(item) == 2):
        return False
    return len(data) * size_of(stacked([item[0]], "the set")) >= STAYS


def _stored(data: StoredSet, name: str) -> Records:
    x, y, rows = looked_through(data, name)
    return Records(x, y, columns={} if rows is None else {"row": rows}, where=name)


def _viewed(data: Views, name: str, accepts: set[str]) -> Records:
    scoring = records(data.scoring, name, accepts)
    if not (hasattr(data.training, "__getitem__") and hasattr(data.training, "__len__")):
        raise BadInput(f"the training view of {name} is {kind_of(data.training)}; pass a Dataset of (x, y)")
    both = replace(scoring, training=data.training)
    for i in sorted({0, len(both) - 1} if len(both) else ()):
        with seeded(0):
            item = data.training[i]
        input_of(item, both.x)
        label = next((item[k] for k in LABELS if k in item), None) if isinstance(item, Mapping) else item[1]
        if label is not None and not same(np.asarray(_scalar(label), dtype=float), both.y[i].double()):
            raise BadInput(
                f"{name}[{i}] has label {label} in the training view and {both.y[i].tolist()} in the scoring view; "
                "pass two views of the same examples, in the same order"
            )
    return both


def _read(data: Any, name: str) -> list[Any]:
    """Its items. BadInput where one raises, or where the set has another length once they are read."""
    items = []
    for i in range(len(data)):
        try:
            items.append(data[i])
        except Exception as e:  # it is the user's code
            what = f"{name}[{i}] cannot be read ({type(e).__name__}: {first_line(e)})"
            raise BadInput(f"{what}; correct it, or leave it out") from e
    if len(data) != len(items):
        raise BadInput(
            f"{name} had {len(items):,} examples and has {len(data):,} now; pass a set whose length stays the same"
        )
    return items


def _items(data: Any, name: str, accepts: set[str]) -> Records:
    items = _read(data, name)
    if not items:
        return Records(torch.zeros(0), torch.zeros(0, dtype=torch.long))
    if name not in ONCE and unsteady(items.__getitem__, data.__getitem__, len(items)):
        warnings.warn(
            f"{name} returns the same example differently each time, so all scores would come from one random draw; "
            "pass amends.data.views(scoring, training), with a set without randomness for scoring; "
            "this one is then used for fine-tuning",
            stacklevel=9,
        )
    if isinstance(items[0], Mapping):
        merged = {str(k): [item[k] for item in items] for k in items[0]}
        return _columns(merged, list(merged), name, accepts)
    if not (isinstance(items[0], tuple | list) and len(items[0]) == 2):
        raise BadInput(f"{name}[0] is {kind_of(items[0])}, expected (x, y); return a pair")
    return _checked(stacked([x for x, _ in items], name), _tensor([_scalar(y) for _, y in items], name), name)


def _checked(x: Inputs, y: Tensor, name: str, **more: Any) -> Records:
    try:
        return Records(x, y, where=name, **more)
    except TypeError as e:  # a single number has no length
        raise BadInput(f"{name} needs one label per input ({first_line(e)}); pass arrays of the same length") from e


def _is_example(first: Any) -> bool:
    """Whether a list of two is two examples (x, y), and not the pair (xs, ys); `first` is its first item."""
    return isinstance(first, tuple) and len(first) == 2 and np.ndim(_scalar(first[1])) == 0


def _is_transformed(data: Any) -> bool:
    """Whether a Hugging Face dataset makes its inputs when an item is read (`set_transform`)."""
    kind = getattr(data, "format", None)
    return isinstance(kind, Mapping) and kind.get("type") == "custom"


def _scalar(y: Any) -> Any:
    return y.cpu().numpy() if isinstance(y, Tensor) else y


def named_once(names: Iterable[Any], where: object) -> None:
    """BadInput for two columns of one name: nobody could say which of them is meant."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise BadInput(f"two columns are named {name!r}; {where}; rename one of them")
        seen.add(name)


def _columns(data: Any, names: Sequence[Any], name: str, accepts: set[str]) -> Records:
    named_once(names, name)
    label = next((c for c in LABELS if c in names), None)
    if label is None:
        raise BadInput(f"{name} has no label column among {_list(names)}; name it one of {', '.join(LABELS)}")
    rest = [c for c in names if c != label]
    by_name = [c for c in rest if c in accepts]
    few = data.select(range(min(1, len(data)))) if _on_disk(data) else data
    chosen = by_name or _of_numbers(few, rest)

    def inputs(part: Any) -> tuple[Inputs, tuple[str, ...]]:
        found = {str(c): _tensor(_column(part, c), f"{name}.{c}") for c in chosen}
        return (found, ()) if by_name or not found else _unnamed(found)

    if not chosen:
        raise BadInput(f"{name} has no column of numbers among {_list(rest)}; tokenise or encode the inputs first")
    own = _readable(data, [c for c in rest if c not in chosen])
    y, classes = _labels(data, label, name)
    x, features = inputs(few)
    if _on_disk(data) and len(data) * size_of(x) >= STAYS:
        shown = data.with_format("numpy", columns=chosen)
        x = as_stored(lambda rows: inputs(shown[rows.tolist()])[0], x, len(data))
    elif few is not data:
        x, features = inputs(data)
    return _checked(x, y, name, columns=own, classes=classes, features=features)


def _on_disk(data: Any) -> bool:
    """Whether it is a Hugging Face dataset, whose rows can be read without the others."""
    return hasattr(data, "with_format") and hasattr(data, "select")


def _of_numbers(data: Any, names: Sequence[Any]) -> list[Any]:
    return [c for c in names if c not in IDS and not _is_media(data, c) and _is_numbers(_column(data, c))]


def _unnamed(inputs: dict[str, Tensor]) -> tuple[Inputs, tuple[str, ...]]:
    """Columns for a model that asks for none of them by name, and their names where they make one table."""
    if len(inputs) == 1:
        return next(iter(inputs.values())), ()
    if all(t.ndim == 1 for t in inputs.values()):
        return torch.stack([t.to(torch.get_default_dtype()) for t in inputs.values()], 1), tuple(inputs)
    return inputs, ()


def _list(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names))


def _labels(data: Any, label: str, name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Targets, and the names of the classes where the column has them."""
    values = data[label]
    features = getattr(data, "features", None)
    named = getattr(features[label], "names", None) if isinstance(features, Mapping) and label in features else None
    codes = getattr(values, "cat", None)  # a pandas column of categories
    if codes is not None:
        values, named = codes.codes.to_numpy(), codes.categories
    return _tensor(_column({label: values}, label), f"{name}.{label}"), tuple(map(str, () if named is None else named))


def _is_media(data: Any, name: str) -> bool:
    """Whether a column of a Hugging Face dataset holds media, which reading would decode."""
    features = getattr(data, "features", None)
    return isinstance(features, Mapping) and type(features.get(name)).__name__ in ("Image", "Audio", "Video")


def _column(data: Any, name: str) -> Any:
    values = data[name]
    return values if isinstance(values, Tensor) else values[:]


def _is_numbers(values: Any) -> bool:
    if isinstance(values, Tensor):
        return True
    try:
        return np.asarray(values).dtype.kind in "biuf"
    except ValueError:
        return False


def _readable(data: Any, names: Sequence[Any]) -> dict[str, np.ndarray]:
    """The columns that a person can read."""
    columns = {str(c): _own(_column(data, c)) for c in names if not _is_media(data, c)}
    return {c: values for c, values in columns.items() if values is not None}


def _own(values: Any) -> np.ndarray | None:
    """A column for a person to read: a text, number or date per row; None where it holds anything else."""
    if isinstance(values, Tensor):
        return values.cpu().numpy() if values.ndim == 1 else None
    entries = values.tolist() if hasattr(values, "tolist") else list(values)
    readable = str | numbers.Number | bool | datetime.date | datetime.time | None
    if not all(isinstance(v, readable) for v in entries):
        return None
    if all(isinstance(v, numbers.Number) for v in entries):
        return np.asarray(entries)
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column


def _inputs(x: Any, name: str) -> Inputs:
    if isinstance(x, Mapping):
        return {str(k): _tensor(v, name) for k, v in x.items()}
    return tuple(_tensor(v, name) for v in x) if isinstance(x, tuple) else _tensor(x, name)


def _shared(array: np.ndarray, mapped: bool) -> Tensor:
    """Without a copy where that is safe: an array that maps a file stays in the file."""
    if array.flags.writeable:
        return torch.as_tensor(array)
    if not mapped:
        return torch.as_tensor(array.copy())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody here writes
        return torch.as_tensor(array)


def _tensor(values: Any, name: str) -> Tensor:
    try:
        if not isinstance(values, Tensor):
            if isinstance(values, list) and values and isinstance(values[0], Tensor):
                values = torch.stack(values)
            else:
                array = np.asarray(values)
                if array.dtype.kind in "USO":
                    raise TypeError("it holds text or objects; map classes to 0, 1, 2, ...")
                array = native(np.ascontiguousarray(array) if array.ndim else array)
                values = _shared(array, isinstance(values, np.memmap))
        if values.ndim == 0:
            raise ValueError("it is a single number")
        if values.layout != torch.strided:
            raise ValueError("it is sparse; call to_dense() first")
    except (TypeError, ValueError, RuntimeError) as e:
        uneven = "inhomogeneous" in str(e)  # numpy's word for rows of several lengths
        why, todo = ("its rows have several lengths", "pad them to one") if uneven else (first_line(e), "pass arrays")
        raise BadInput(f"{name} cannot be read as an array of numbers ({why}); {todo}") from e
    return values.clone() if values.is_inference() else values.detach()  # the former cannot be differentiated with
