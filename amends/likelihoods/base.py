"""What amends needs of a likelihood, and how any callable becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from amends.errors import BadInput, first_line
from amends.likelihoods.bernoulli import Bernoulli
from amends.likelihoods.categorical import Categorical


@runtime_checkable
class Likelihood(Protocol):
    """log p(targets | outputs) and what follows from it.

    The Fisher of the outputs is H = Σᵣ uᵣuᵣᵀ over the rows u of `root`. For the families here it
    is also −∇² log p, so the generalised Gauss-Newton matrix is Jᵀ H J.
    """

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One log-likelihood per example, in nats."""
        ...

    def belief(self, outputs: Tensor) -> Tensor:
        """The model's own prediction, as a soft target."""
        ...

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        """Targets drawn from the model, with uniform noise of the shape of the outputs."""
        ...

    def root(self, outputs: Tensor) -> Tensor:
        """Rows u with Σᵣ uᵣuᵣᵀ = H: [batch, rows, outputs]."""
        ...

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        """H v, without forming H."""
        ...

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Whether each prediction counts as correct."""
        ...

    def decide(self, outputs: Tensor) -> Tensor:
        """The prediction to show a person."""
        ...

    def shown(self, targets: Tensor) -> Tensor:
        """The targets in the same form as `decide` returns."""
        ...

    def ceiling(self, targets: Tensor) -> Tensor:
        """The highest log-likelihood that any outputs could give each of these targets."""
        ...

    @property
    def family(self) -> Likelihood:
        """The distribution of the outputs, which also takes soft targets."""
        ...

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        """Raise BadInput when outputs and targets cannot belong together."""
        ...


@dataclass(frozen=True)
class Custom:
    """A caller's own log-likelihood (class weights, label smoothing, another loss).

    Evidence is computed with it. Predictions, the curvature of the outputs and what counts as right are
    those of `like`, the family of the outputs: for regression, Custom(f, like=Gaussian()).
    """

    log_prob: Callable[[Tensor, Tensor], Tensor]
    like: Likelihood = field(default_factory=Categorical)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.log_prob(outputs, targets)

    def belief(self, outputs: Tensor) -> Tensor:
        return self.like.belief(outputs)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        return self.like.sample(outputs, uniform)

    def root(self, outputs: Tensor) -> Tensor:
        return self.like.root(outputs)

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        return self.like.metric(outputs, vector)

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.like.right(outputs, targets)

    def decide(self, outputs: Tensor) -> Tensor:
        return self.like.decide(outputs)

    def shown(self, targets: Tensor) -> Tensor:
        return self.like.shown(targets)

    def asked(self, targets: Tensor) -> Custom:
        return replace(self, like=asked(self.like, targets))

    def ceiling(self, targets: Tensor) -> Tensor:
        return self.like.ceiling(targets)

    @property
    def family(self) -> Likelihood:
        return self.like.family

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        if isinstance(self.like, Categorical) and (outputs.ndim == 1 or outputs.shape[1:] == (1,)):
            column = "let it return outputs[:, None], and pass" if outputs.ndim == 1 else "pass"
            raise BadInput(
                f"the model returns {list(outputs.shape)}, and a likelihood that is a function does not say which of "
                f"these are right; likelihood; {column} amends.likelihoods.Custom(f, like=...) with Bernoulli() for "
                "labels of 0 and 1, or Gaussian(sigma) for numbers"
            )
        self.like.check(outputs, targets, name)
        try:
            with torch.enable_grad():
                live = outputs.detach().clone().requires_grad_()
                values = self.log_prob(live, targets[: len(outputs)].to(outputs.device))
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as e:
            todo = "it is called with (outputs, targets)"
            raise BadInput(f"the likelihood raised {type(e).__name__} ({first_line(e)}); {name}; {todo}") from e
        if not isinstance(values, Tensor) or values.shape != (len(outputs),):
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise BadInput(
                f"the likelihood returns {got} for {len(outputs)} examples, expected [{len(outputs)}]; "
                "return one log-likelihood per example (reduction='none')"
            )
        if not values.requires_grad:
            raise BadInput("the likelihood has no gradient; leave out detach(), numpy() and no_grad() in it")


def of_family(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> Likelihood:
    """A function of the caller's is taken for one of classes, unless there is one output and every label is 0 or 1."""
    if not isinstance(likelihood, Custom) or likelihood.like != Categorical() or outputs.shape[1:] != (1,):
        return likelihood
    yes_or_no = targets.numel() == len(targets) and bool(((targets == 0) | (targets == 1)).all())
    return replace(likelihood, like=Bernoulli()) if yes_or_no else likelihood


def asked(likelihood: Likelihood, targets: Tensor) -> Likelihood:
    """The likelihood with what these targets say besides the answer: which tokens are targets, or how much an
    example weighs. Most likelihoods stay as they are."""
    asked_for = getattr(likelihood, "asked", None)
    return likelihood if asked_for is None else asked_for(targets)


def probability(likelihood: Likelihood, log_p: Tensor, targets: Tensor) -> Tensor:
    """exp(log p) in float64. For a sequence, the geometric mean over its tokens: the product over many tokens
    is close to zero for any model."""
    parts = getattr(likelihood.family, "parts", None)
    log_p = log_p.double()
    return log_p.exp() if parts is None else (log_p / parts(targets).to(log_p).clamp(min=1)).exp()


def as_likelihood(given: Callable[[Tensor, Tensor], Tensor] | None) -> Likelihood:
    """None is categorical, a Likelihood stays as it is, and any other callable is wrapped."""
    if given is None:
        return Categorical()
    if isinstance(given, type):
        raise BadInput(f"likelihood is the class {given.__name__}; pass one of them: {given.__name__}()")
    if not callable(given):
        raise BadInput(f"likelihood is {given!r}; pass one such as amends.likelihoods.Gaussian(), or a function")
    return given if isinstance(given, Likelihood) else Custom(given)
