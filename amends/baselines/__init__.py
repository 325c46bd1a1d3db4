"""What people compare with: plain functions of (train, failures) to scores."""

from amends.baselines.loss import Loss, Oracle, Random

__all__ = ["Loss", "Oracle", "Random"]
