"""Slow, obvious references. They import nothing of amends."""
