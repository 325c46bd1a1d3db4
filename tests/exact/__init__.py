"""Slow, obvious references that import nothing of amends, and tests that hold every method to them by a number."""
