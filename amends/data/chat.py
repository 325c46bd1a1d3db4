"""Chat and instruction rows that a caller has in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amends.data.formats.columns import raw
from amends.data.formats.jsonl import table_of
from amends.data.formats.raw import Asked
from amends.data.formats.tables import columns_of
from amends.data.records import Records
from amends.data.source import Source
from amends.data.targets import targets
from amends.errors import BadInput, kind_of


def chat(
    rows: Any,
    encode: Callable[[list[Any]], Any],
    *,
    messages: str | None = None,
    prompt: str | None = None,
    response: str | None = None,
    id: str | None = None,
) -> Records:
    """Rows of messages, or of a prompt and a response, as examples of which the responses alone are asked.

    `rows` is a list of dicts, a DataFrame or a Hugging Face dataset; for a file use `amends.data.read` with
    target="response". `encode` is what `amends.models.chat(tokenizer)` returns. `messages`, `prompt`, `response` and
    `id` name columns, and are found by these names when left out.
    """
    if hasattr(rows, "with_format"):  # a Hugging Face dataset
        table = columns_of(rows.with_format("arrow")[:].to_pandas())
    elif hasattr(rows, "to_numpy") and hasattr(rows, "columns"):
        table = columns_of(rows)
    elif isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows):
        table = table_of([dict(row) for row in rows])
    else:
        raise BadInput(f"rows is {kind_of(rows)}; chat; give a list of dicts, a DataFrame or a Hugging Face dataset")
    asked = Asked(id=id, messages=messages, prompt=prompt, response=response, target="response", encoded=True)
    found = raw(table, Path("rows"), asked)
    x, y, _ = targets(Source(found, found.inputs, None, encode, None).all(), found, asked)
    return Records(x, y, dict(found.columns), where="rows")
