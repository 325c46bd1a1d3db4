"""The command line: each command parses, calls one thing of the library, and stores what comes back."""

from amends.cli.app import main

__all__ = ["main"]
