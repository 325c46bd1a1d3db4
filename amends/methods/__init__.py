"""The methods by name: what is remembered, and how evidence is put in or taken out.

A method is an immutable object; reuse it freely. `identify` and `treat` take any of them. `table.py` lists them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from amends.methods.table import HOMES

__all__ = sorted(HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Imported on first use, so that the names are known without torch; type checkers read `__init__.pyi`."""
    if name not in HOMES:
        raise AttributeError(f"module 'amends.methods' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
