"""Chat and instruction rows: a column of messages, or a column of prompts and one of responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.formats.raw import Asked
from amends.errors import BadInput, kind_of, nearest

Message = dict[str, str]
MESSAGES = ("messages", "conversations", "conversation")
PROMPTS, RESPONSES = ("prompt",), ("response", "completion")
ASSISTANT = "assistant"
KEYS = (("role", "content"), ("from", "value"))  # of a message; the second pair is that of ShareGPT
ROLES = {"human": "user", "gpt": ASSISTANT, "model": ASSISTANT}


def conversations(
    table: Mapping[str, np.ndarray], path: Path, asked: Asked, at: Callable[[int], str]
) -> list[list[Message]]:
    """One list of messages a row, each a role and its content, the last of them by the assistant."""
    columns = _columns(table, path, asked)
    rows = []
    for i in range(len(table[columns[0]])):
        if len(columns) == 1:
            found = _messages(table[columns[0]][i], columns[0], lambda i=i: at(i))
        else:
            prompt, response = (
                _turn(table[c][i], c, role, lambda i=i: at(i))
                for c, role in zip(columns, ("user", ASSISTANT), strict=True)
            )
            found = prompt + response
        if not found or found[-1]["role"] != ASSISTANT or not found[-1]["content"].strip():
            last = f"from {found[-1]['role']}" if found and found[-1]["role"] != ASSISTANT else "empty"
            raise BadInput(
                f"the last message is {last}, so nothing is asked of the model; {at(i)}; end with a response"
            )
        rows.append(found)
    return rows


def as_text(messages: Sequence[Message]) -> str:
    """A conversation as a person reads it."""
    return "\n".join(f"{m['role']}: {m['content']}" for m in messages)


def _columns(table: Mapping[str, Any], path: Path, asked: Asked) -> list[str]:
    for name in (asked.messages, asked.prompt, asked.response):
        if name is not None and name not in table:
            raise BadInput(f"there is no column {name!r}; {path}; {nearest(name, table)}")
    named = asked.prompt is not None or asked.response is not None
    if asked.messages is not None and named:
        raise BadInput(f"both messages and prompt or response are given; {path}; give messages, or the other two")
    messages = asked.messages or next((c for c in MESSAGES if c in table), None)
    if messages is not None and not named:
        return [messages]
    prompt = asked.prompt or next((c for c in PROMPTS if c in table), None)
    response = asked.response or next((c for c in RESPONSES if c in table), None)
    if prompt is None or response is None:
        raise BadInput(
            f"no messages, and no prompt with a response, among {', '.join(table)}; {path}; "
            "name the columns with messages, or with prompt and response"
        )
    return [prompt, response]


def _turn(cell: Any, column: str, role: str, where: Callable[[], str]) -> list[Message]:
    """A prompt or a response: a text, or messages."""
    return [{"role": role, "content": cell}] if isinstance(cell, str) else _messages(cell, column, where)


def _messages(cell: Any, column: str, where: Callable[[], str]) -> list[Message]:
    if not isinstance(cell, list | tuple | np.ndarray):
        raise BadInput(f"{column} holds {kind_of(cell)}; {where()}; give a list of messages, or a text")
    return [_message(one, column, where) for one in cell]


def _message(one: Any, column: str, where: Callable[[], str]) -> Message:
    names = next((k for k in KEYS if isinstance(one, Mapping) and isinstance(one.get(k[0]), str)), None)
    if names is None or not isinstance(one.get(names[1]), str):
        raise BadInput(
            f"{column} holds a message that is not a role and its content as text; {where()}; "
            'write each as {"role": "user", "content": "..."}'
        )
    role = str(one[names[0]])
    return {"role": ROLES.get(role, role), "content": one[names[1]]}
