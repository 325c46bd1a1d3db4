"""Sequences under a causal language model; outputs are logits [batch, length, vocabulary]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from amends.data.targets import NO_TARGET
from amends.errors import BadInput


@dataclass(frozen=True)
class Tokens:
    """Σ log softmax(outputs) over the target tokens: the log-likelihood of the sequence.

    Targets [batch, length] are at their own place, as in Hugging Face's `labels`: the place before
    predicts them, so the first is never a target; −100 means no target. A soft target is a row of
    probabilities for each place, zeros where there is no target. An example is right when at least
    `share` of its target tokens are the most likely ones, given the true ones before them.
    """

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadInput(
                f"share is {self.share!r}; Tokens; give the share of tokens that must be right, above 0 and up to 1"
            )

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        before, y = outputs[:, :-1], targets[:, 1:]
        if y.is_floating_point():
            return (y * before.log_softmax(-1)).sum((1, 2))
        chosen = before.gather(-1, y.clamp(min=0)[..., None])[..., 0]
        return torch.where(y != NO_TARGET, chosen - before.logsumexp(-1), 0).sum(1)

    def asked(self, targets: Tensor) -> Tokens:
        """The same, with predictions and draws only where these targets have one."""
        return _Asked(self.share, _is_asked(targets))

    def belief(self, outputs: Tensor) -> Tensor:
        p = outputs[:, :-1].softmax(-1)
        return torch.cat([torch.zeros_like(outputs[:, :1]), self._only(p, 0)], 1)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        """Uses the first of the uniform numbers at each place."""
        below = outputs[:, :-1].softmax(-1).cumsum(-1) < uniform[:, :-1, :1]
        return self._placed(below.sum(-1).clamp(max=outputs.shape[-1] - 1))

    def root(self, outputs: Tensor) -> Tensor:
        raise BadInput(
            f"the exact curvature takes a backward pass for each of {outputs.shape[1]} places times {outputs.shape[2]} "
            "tokens; draw labels instead, with kind=amends.curvature.Sampled()"
        )

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        p, v = outputs[:, :-1].softmax(-1), vector[:, :-1]
        product = self._only(p * (v - (p * v).sum(-1, keepdim=True)), 0)
        return torch.cat([product, torch.zeros_like(outputs[:, :1])], 1)

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        there = _is_asked(targets)
        hits = (outputs[:, :-1].argmax(-1) == self.shown(targets)[:, 1:]) & there
        return hits.sum(1) >= self.share * there.sum(1) - 1e-6

    def decide(self, outputs: Tensor) -> Tensor:
        return self._placed(outputs[:, :-1].argmax(-1))

    def shown(self, targets: Tensor) -> Tensor:
        if not targets.is_floating_point():
            return targets
        return torch.where(targets.sum(-1) > 0, targets.argmax(-1), NO_TARGET)

    def ceiling(self, targets: Tensor) -> Tensor:
        if targets.is_floating_point():
            return torch.xlogy(targets, targets)[:, 1:].sum((1, 2))
        return torch.zeros(len(targets), device=targets.device)

    def parts(self, targets: Tensor) -> Tensor:
        """How many target tokens each example has."""
        return _is_asked(targets).sum(1)

    @property
    def family(self) -> Tokens:
        return self

    def _only(self, rows: Tensor, nothing: int) -> Tensor:
        return rows

    def _placed(self, tokens: Tensor) -> Tensor:
        """At the place they are predicted for; nothing predicts the first."""
        return torch.cat([torch.full_like(tokens[:, :1], NO_TARGET), self._only(tokens, NO_TARGET)], 1)

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        if outputs.ndim != 3:
            raise BadInput(
                f"the model returns {list(outputs.shape)} for {name}, expected [batch, length, vocabulary]; "
                "pass a causal language model, or another likelihood"
            )
        if targets.is_floating_point() or targets.shape[1:] != outputs.shape[1:2]:
            raise BadInput(
                f"the targets of {name} are {targets.dtype} {list(targets.shape)}, expected token ids "
                f"[{len(targets)}, {outputs.shape[1]}]; give tokens at their places, and -100 where there is no target"
            )
        outside = (((targets < 0) & (targets != NO_TARGET)) | (targets >= outputs.shape[2])).any(1).nonzero()
        if len(outside):
            raise BadInput(
                f"{name}[{int(outside[0])}] has a target that is not one of {outputs.shape[2]} tokens, nor -100; "
                "use the model's own tokenizer"
            )
        empty = (self.parts(targets) == 0).nonzero()
        if len(empty):
            raise BadInput(f"{name}[{int(empty[0])}] has no target after the first token; drop it, or give it targets")


@dataclass(frozen=True, eq=False)
class _Asked(Tokens):
    there: Tensor | None = None  # [batch, length − 1]

    @property
    def family(self) -> Tokens:
        return Tokens(self.share)

    def _only(self, rows: Tensor, nothing: int) -> Tensor:
        assert self.there is not None
        there = self.there.to(rows.device)
        return torch.where(there[..., None] if rows.ndim == 3 else there, rows, nothing)


def _is_asked(targets: Tensor) -> Tensor:
    """Whether there is a target, at every place but the first."""
    rest = targets[:, 1:]
    return rest.sum(-1) > 0 if rest.is_floating_point() else rest != NO_TARGET
