"""From a trained model to a posterior: train, and remaining if any, come in; a posterior goes out.

Remembering never moves the model.
"""

from amends.remember.data import Data
from amends.remember.gradients import Gradients
from amends.remember.laplace import Laplace, Running
from amends.remember.members import Members
from amends.remember.path_integral import PathIntegral
from amends.remember.predictions import Predictions
from amends.remember.variational import Variational

__all__ = ["Data", "Gradients", "Laplace", "Members", "PathIntegral", "Predictions", "Running", "Variational"]
