"""Benchmarks of amends, against other tools and against the least work possible. Every script here also runs by its
path."""
