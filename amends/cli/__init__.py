"""The command line: each command parses its options, calls one function of the library, and shows the result."""

from amends.cli.app import main

__all__ = ["main"]
