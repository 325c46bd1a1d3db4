"""Chat and instruction rows: JSON lines, tables and Hugging Face datasets, and what is wrong with some of them."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest
import torch

import amends
from amends.errors import BadInput

ROWS = [
    {"id": "a", "prompt": "the capital of France?", "response": "Paris", "source": "atlas"},
    {"id": "b", "prompt": "the capital of Peru?", "response": "Lima", "source": "book"},
]
SAID = [[{"role": "user", "content": r["prompt"]}, {"role": "assistant", "content": r["response"]}] for r in ROWS]


def seen(rows):
    """An encoder that keeps what it was given, and asks for the second of two tokens."""
    kept.append(rows)
    tokens = torch.arange(2 * len(rows)).reshape(len(rows), 2)
    return {"input_ids": tokens, "labels": torch.where(torch.tensor([False, True]), tokens, -100)}


kept: list[list] = []


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sharegpt(messages):
    names = {"user": "human", "assistant": "gpt"}
    return [{"from": names[m["role"]], "value": m["content"]} for m in messages]


FORMS = {
    "prompt and response": ROWS,
    "messages": [{"id": r["id"], "source": r["source"], "messages": m} for r, m in zip(ROWS, SAID, strict=True)],
    "conversations of ShareGPT": [
        {"id": r["id"], "source": r["source"], "conversations": sharegpt(m)} for r, m in zip(ROWS, SAID, strict=True)
    ],
    "messages as prompt and completion": [
        {"id": r["id"], "source": r["source"], "prompt": m[:1], "completion": m[1:]}
        for r, m in zip(ROWS, SAID, strict=True)
    ],
}


@pytest.mark.parametrize("rows", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("way", ["jsonl", "jsonl.gz", "parquet", "huggingface", "list", "frame"])
def test_every_form_of_rows_is_the_same_conversations(tmp_path, rows, way):
    kept.clear()
    if way == "list":
        data = amends.data.chat(rows, seen)
    elif way == "frame":
        data = amends.data.chat(pd.DataFrame(rows), seen)
    else:
        path = tmp_path / f"rows.{way}"
        if way == "jsonl":
            lines(path, rows)
        elif way == "jsonl.gz":
            path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
        elif way == "parquet":
            pd.DataFrame(rows).to_parquet(path)
        else:
            from datasets import Dataset

            Dataset.from_list(rows).save_to_disk(path)
        data = amends.data.read(path, target="response", encode=seen)
    assert kept == [SAID]
    assert data.columns["id"].tolist() == ["a", "b"]
    assert data.columns["source"].tolist() == ["atlas", "book"]
    assert data.columns["text"][1] == "user: the capital of Peru?\nassistant: Lima"
    assert data.y.tolist() == [[-100, 1], [-100, 3]]
    assert list(data.x) == ["input_ids"]


def test_columns_of_other_names(tmp_path):
    kept.clear()
    rows = [{"q": r["prompt"], "a": r["response"], "key": r["id"]} for r in ROWS]
    data = amends.data.read(
        lines(tmp_path / "t.jsonl", rows), target="response", prompt="q", response="a", id="key", encode=seen
    )
    assert kept == [SAID]
    assert data.columns["id"].tolist() == ["a", "b"]


def test_json_lines_are_a_table_too(tmp_path):
    rows = [{"width": i / 2, "height": i, "label": i % 2, "note": f"row {i}"} for i in range(4)]
    data = amends.data.read(lines(tmp_path / "t.jsonl", rows))
    assert data.features == ("width", "height")
    np.testing.assert_array_equal(data.x.numpy(), [[i / 2, i] for i in range(4)])
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.columns["note"].tolist() == [f"row {i}" for i in range(4)]


user, bot = {"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}
BAD = {
    "the last word is the user's": ([{"messages": [user, bot]}, {"messages": [bot, user]}], "from user.* line 2"),
    "an empty response": ([{"prompt": "why?", "response": " "}], "the last message is empty.* line 1"),
    "no response": ([{"prompt": "why?"}], "no messages, and no prompt with a response"),
    "a message without content": ([{"messages": [{"role": "user"}, bot]}], "not a role and its content"),
    "messages that are a number": ([{"messages": 3}], "messages holds an int"),
    "a key that some rows lack": ([{"prompt": "a", "response": "b"}, {"prompt": "a"}], "holds a NoneType; .* line 2"),
}


@pytest.mark.parametrize(("rows", "said"), BAD.values(), ids=BAD)
def test_a_row_that_cannot_be_used_is_named(tmp_path, rows, said):
    with pytest.raises(BadInput, match=said):
        amends.data.read(lines(tmp_path / "t.jsonl", rows), target="response", encode=seen)


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"a": 1}\n{"a": \n', "not JSON .* line 2"), ("[1, 2]\n", "a list, not an object; .* line 1"),
     ('{"a": 1}\n\n', "empty; .* line 2"), ("", "no rows")],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(tmp_path, text, said):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(BadInput, match=said):
        amends.data.read(tmp_path / "t.jsonl")


def test_what_an_encoder_must_return(tmp_path):
    path = lines(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(BadInput, match=r"encode returns no labels.*amends.models.chat"):
        amends.data.read(path, target="response", encode=lambda rows: {"input_ids": torch.ones(len(rows), 3)})
    with pytest.raises(BadInput, match=r"nothing of the response is left within 2 tokens; .* line 1"):
        amends.data.read(
            path, target="response",
            encode=lambda rows: {"input_ids": torch.ones(len(rows), 2), "labels": torch.full((len(rows), 2), -100)},
        )  # fmt: skip
    with pytest.raises(BadInput, match="both messages and prompt"):
        amends.data.chat(ROWS, seen, messages="prompt", prompt="prompt")
    with pytest.raises(BadInput, match="there is no column 'promt'"):
        amends.data.chat(ROWS, seen, prompt="promt")
    with pytest.raises(BadInput, match="rows is an int"):
        amends.data.chat(3, seen)
