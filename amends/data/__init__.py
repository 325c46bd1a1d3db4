"""Examples: a file, a folder or what the caller passes comes in; examples with stable ids go out."""

from amends.data.chat import chat
from amends.data.corruptions import flip_labels, gaussian_noise, poison, salt_and_pepper
from amends.data.digits import digits
from amends.data.examples import Examples, Inputs, examples
from amends.data.failures import select
from amends.data.read import read
from amends.data.records import Records
from amends.data.splits import split
from amends.data.stored import stored
from amends.data.views import views

__all__ = [
    "Examples", "Inputs", "Records", "chat", "digits", "examples", "flip_labels", "gaussian_noise", "poison", "read",
    "salt_and_pepper", "select", "split", "stored", "views",
]  # fmt: skip
