"""NaN and infinity are never ranked: the first example that has one is named in an error."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from amends.errors import NonFinite
from amends.evidence.factor import Factor

LOG_P, SCORE = "the log-likelihood", "the score"


def finite(values: Tensor, what: str, data: Factor) -> np.ndarray:
    """The values as float64 on the CPU, one for each example. Raises NonFinite for the first that is NaN or
    infinite."""
    array = values.detach().double().cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        examples = data.examples
        where = f"{examples.name}[{int(examples.rows[int(bad[0])])}]"
        raise NonFinite(f"{what} is {array[bad[0]]}; {where}; drop the example or check the model's loss")
    return array
