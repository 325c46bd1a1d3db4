"""A run folder written by hand, as the tests of run folders have it; and a project of digits."""

from tests.cli.conftest import project, template
from tests.runs.conftest import folder

__all__ = ["folder", "project", "template"]
