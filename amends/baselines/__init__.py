"""What people compare with: plain functions of (train, failures) to scores."""

from amends.baselines.loss import Given, Loss, Oracle, Random, SelfConfidence, Shortfall
from amends.baselines.relative import RelatIF
from amends.baselines.sgd_influence import SGDInfluence
from amends.baselines.shapley import Shapley
from amends.baselines.sufficiency import Sufficiency
from amends.baselines.tracin import TracIn

__all__ = [
    "Given", "Loss", "Oracle", "Random", "RelatIF", "SGDInfluence", "SelfConfidence", "Shapley", "Shortfall",
    "Sufficiency", "TracIn",
]  # fmt: skip
