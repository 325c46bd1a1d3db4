"""Conversations as tokens, by the tokenizer's chat template; only the responses are targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amends.data.targets import NO_TARGET
from amends.errors import BadInput, first_line

ASSISTANT = "assistant"
# Where a tokenizer has no template: every message on a line, and the end of the text after each response.
PLAIN = (
    "{% for m in messages %}{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}{{ eos_token }}{% else %}{{ '\\n' }}{% endif %}{% endfor %}"
)


def chat(
    tokenizer: Any, *, max_length: int = 512, template: str | None = None
) -> Callable[[list[Any]], dict[str, Tensor]]:
    """What turns conversations into tokens, for `encode` of `amends.data.read` and `amends.data.chat`.

    A conversation is a list of messages, {"role": ..., "content": ...}. It is written by `template` (Jinja, as Hugging
    Face's), by the tokenizer's own, or where it has none as its contents, one message a line, with the end of the text
    after each response. Only tokens of the assistant's messages are asked. Rows are cut to `max_length` tokens, and
    padded to it; a pass computes rows of like length together, without their padding.
    """
    if isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < 2:
        raise BadInput(f"max_length is {max_length!r}; chat; give a whole number of 2 or more")
    pad = next(
        (t for t in (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) if t is not None), 0
    )
    return _Chat(tokenizer, template or getattr(tokenizer, "chat_template", None) or PLAIN, max_length, pad)


@dataclass(frozen=True, eq=False)
class _Chat:
    tokenizer: Any
    template: Any
    longest: int
    pad: int

    def __call__(self, rows: list[Any]) -> dict[str, Tensor]:
        shape = (len(rows), self.longest)
        tokens = torch.full(shape, self.pad, dtype=torch.long)
        labels = torch.full(shape, NO_TARGET, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.long)
        for i, row in enumerate(rows):
            ids, is_response = self._row(row, i)
            n = min(len(ids), self.longest)
            tokens[i, :n] = torch.tensor(ids[:n])
            mask[i, :n] = 1
            labels[i, :n] = torch.where(torch.tensor(is_response[:n]), tokens[i, :n], NO_TARGET)
        return {"input_ids": tokens, "attention_mask": mask, "labels": labels}

    def _row(self, messages: Sequence[Mapping[str, str]], i: int) -> tuple[list[int], list[bool]]:
        """Tokens of a conversation, and which of them are the assistant's.

        A response starts after the tokens of the conversation before it, with the prompt for an answer. A token that
        spans the border belongs to the response.
        """
        if not isinstance(messages, list | tuple) or not messages:
            raise BadInput(f"this is no list of messages; row {i}; give the rows to amends.data.chat")
        whole = self._tokens(messages, False, i)
        is_response = [False] * len(whole)
        for k, message in enumerate(messages):
            if message["role"] != ASSISTANT:
                continue
            start = _shared(self._tokens(messages[:k], True, i), whole) if k else 0
            stop = len(whole) if k + 1 == len(messages) else _shared(self._tokens(messages[: k + 1], False, i), whole)
            is_response[start:stop] = [True] * (max(stop, start) - start)
        return whole, is_response

    def _tokens(self, messages: Sequence[Any], prompting: bool, i: int) -> list[int]:
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages), chat_template=self.template, add_generation_prompt=prompting, tokenize=False
            )
        except Exception as e:  # a template may raise any error
            raise BadInput(
                f"the chat template refuses the messages ({first_line(e)}); row {i}; change the row, or give template"
            ) from e
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def _shared(start: Sequence[int], whole: Sequence[int]) -> int:
    """How many tokens two lists share at the start."""
    return next((k for k, (a, b) in enumerate(zip(start, whole, strict=False)) if a != b), min(len(start), len(whole)))
