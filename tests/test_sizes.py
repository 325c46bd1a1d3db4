"""Code that is read in one go: short files and functions, few branches, few parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import amends

ROOT = Path(amends.__file__).parent.parent
FOLDERS = ("amends", "benchmarks", "docs", "examples", "experiments", "tests")
LINES, BRANCHES, PARAMETERS, FILE = 45, 20, 8, 300
DEFAULT = ("amends/committee/", "amends/algorithm/choose.py", "amends/algorithm/fitting.py",
           "amends/algorithm/curve.py", "amends/algorithm/verdict.py", "amends/algorithm/rounds.py")  # fmt: skip
PUBLIC = {"repair", "identify", "treat", "read"}  # what a user may say is said in one call
REASONS: dict[str, str] = {}  # a file, or file:function, that is larger for a good reason


def files() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def branches(function: ast.AST) -> int:
    """Where what happens next depends on something: if, for, while, except, case, comprehensions, and, or."""
    total = 0
    for node in ast.walk(function):
        total += isinstance(node, ast.If | ast.For | ast.While | ast.IfExp | ast.ExceptHandler | ast.match_case)
        total += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
        total += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
    return total


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    a = function.args
    names = [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return len([n for n in names if n not in ("self", "cls")])


def over(path: Path) -> list[str]:
    """What of a file is larger than it should be."""
    found = []
    length = len(path.read_text(encoding="utf-8").splitlines())
    if length > FILE:
        found.append(f"{name(path)} has {length} lines")
    for f in functions(path):
        where, lines = f"{name(path)}:{f.name}", (f.end_lineno or f.lineno) - f.lineno + 1
        if f.name in PUBLIC and name(path).startswith("amends/"):
            lines, count = (f.end_lineno or 0) - f.body[1 if ast.get_docstring(f) else 0].lineno + 1, 0
        else:
            count = parameters(f)
        found += [f"{where} has {size} {what}" for size, most, what in (
            (lines, LINES, "lines"), (branches(f), BRANCHES, "branches"), (count, PARAMETERS, "parameters")
        ) if size > most]  # fmt: skip
    return [one for one in found if one.split(" has ")[0] not in REASONS]


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_too_large(folder):
    """The default's own files are rewritten as a whole, by an issue of their own."""
    inside = [p for p in files() if name(p).startswith(f"{folder}/") and not name(p).startswith(DEFAULT)]
    assert inside
    assert [one for path in inside for one in over(path)] == []


def test_every_reason_is_needed():
    """An exception goes when what it excuses does."""
    large = set()
    for path in files():
        if any(key.split(":")[0] == name(path) for key in REASONS):
            kept = dict(REASONS)
            REASONS.clear()
            large |= {one.split(" has ")[0] for one in over(path)}
            REASONS.update(kept)
    assert set(REASONS) == large


def test_what_is_too_large_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_sizes.ROOT", tmp_path)
    (tmp_path / "amends").mkdir()
    body = "\n".join(f"    if a and b{i}: pass" for i in range(25))
    (tmp_path / "amends/big.py").write_text(f"def f(a, b, c, d, e, f, g, h, i):\n{body}\n{'    pass' + chr(10):s}" * 12)
    said = over(tmp_path / "amends/big.py")
    assert said[0] == "amends/big.py has 324 lines"
    assert said[1:3] == ["amends/big.py:f has 50 branches", "amends/big.py:f has 9 parameters"]
