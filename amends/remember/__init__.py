"""From a trained model to a posterior. Remembering never moves the model."""

from amends.remember.data import Data
from amends.remember.laplace import Laplace
from amends.remember.predictions import Predictions

__all__ = ["Data", "Laplace", "Predictions"]
