"""Callbacks for training: a run of another trainer comes in; its trace, its model and an amends.toml go out."""

from amends.callbacks.huggingface import huggingface
from amends.callbacks.lightning import lightning

__all__ = ["huggingface", "lightning"]
