"""Examples and where they come from."""

from amends.data.corruptions import flip_labels
from amends.data.digits import digits
from amends.data.examples import Examples, Inputs, examples
from amends.data.splits import split

__all__ = ["Examples", "Inputs", "digits", "examples", "flip_labels", "split"]
