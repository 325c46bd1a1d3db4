"""The user's own code behind a function: its file, and the files of the same folder that it imports."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from pathlib import Path


def code_hash(functions: Iterable[str], folder: Path) -> str:
    """sha256 over the files of functions named "package.module:function", and of all modules in `folder` that these
    import, directly or not. They have been imported already."""
    todo, files = [name.partition(":")[0] for name in functions], {}
    home = folder.resolve()
    while todo:
        name = todo.pop()
        path = _file(name)
        if path is None or name in files:
            continue
        files[name] = path.read_bytes()
        if path.is_relative_to(home):
            todo += [other for other in _imports(files[name], name) if _inside(other, home)]
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name} {len(files[name])};".encode() + files[name])
    return total.hexdigest()


def _file(name: str) -> Path | None:
    source = getattr(sys.modules.get(name), "__file__", None)
    path = Path(source).resolve() if source else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _inside(name: str, home: Path) -> bool:
    path = _file(name)
    return path is not None and path.is_relative_to(home)


def _imports(source: bytes, name: str) -> Iterator[str]:
    package = getattr(sys.modules[name], "__package__", None) or ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
