"""Benchmarks that others published: their data and protocol, their methods made again beside ours."""
