"""Benchmarks published by others: their data, their protocol and their methods reimplemented, compared with ours."""
