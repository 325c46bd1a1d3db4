"""Does a test die by a number when the mathematics is changed? `make mutants`

    python tests/mutants.py [--random 20] [--seed 0] [--only NAME]

Each mutation is made in a copy of the checkout, and the tests that should see it are run: those of `tests/exact/`
and, if they pass, those that mirror the package. Prints what became of each; the exit code is 1 if one survived. Those
of `tests/mutants.toml` are made every time; others are drawn from all swapped operators, doubled numbers and changed
defaults.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("amends", "tests", "benchmarks", "experiments", "pyproject.toml")
MATHEMATICS = ("curvature", "editors", "posteriors", "remember", "methods", "committee")
NAMES = ("methods/table.py", "methods/by_name.py")  # no mathematics
MEMORY = ("HELD", "CHUNK", "KEPT", "LIMIT", "WIDEST")  # how much is held at once: it changes no result
ELSEWHERE = {"methods/library/loss.py": ("tests/committee/test_learned.py",)}  # that see a file of another package
SWAPPED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}


class Mutant(NamedTuple):
    """In a file of amends/, `old` becomes `new`, counted from the start of the line it is drawn from."""

    name: str
    file: str
    old: str
    new: str
    line: int | None = None

    def made(self, text: str) -> str:
        if self.line is None:
            if text.count(self.old) != 1:
                raise SystemExit(f"{self.name}: {self.old!r} is {text.count(self.old)} times in {self.file}; update it")
            return text.replace(self.old, self.new)
        lines = text.splitlines(keepends=True)
        lines[self.line - 1] = self.new
        return "".join(lines)


KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LISTED = [Mutant(**listed) for listed in KNOWN["listed"]]
CHANGE_NOTHING: dict[str, str] = KNOWN["changes_nothing"]  # the name of a drawn mutant that changes no result: why


def numbers(source: str, node: ast.AST, default: bool) -> tuple[int, int, str] | None:
    """Where on its line a node is changed, and to what: an operator swapped, or a number doubled; as part of a default
    also 0 to 1, 1 to 2, and True to False."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED and node.left.end_lineno == node.right.lineno:
        sign, other = SWAPPED[type(node.op)]
        line = source.splitlines()[node.right.lineno - 1].encode()
        between = line[node.left.end_col_offset : node.right.col_offset].decode()
        if between.count(sign) == 1:
            at = node.left.end_col_offset + between.index(sign)
            return at, at + 1, other
    if isinstance(node, ast.Constant):
        value, at, end = node.value, node.col_offset, node.end_col_offset or node.col_offset
        if type(value) in (int, float) and (default or value not in (0, 1)):
            return at, end, repr(2 * value or value + 1)
        if default and isinstance(value, bool):
            return at, end, repr(not value)
    return None


def drawn_from(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The parts of a file that are changed, and whether each is a default: what functions do, and what holds where a
    caller says nothing, of arguments, fields and modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name != "__post_init__":
            yield from ((statement, False) for statement in node.body)
            yield from ((value, True) for value in (*node.args.defaults, *node.args.kw_defaults) if value)
        elif isinstance(node, ast.ClassDef | ast.Module):
            fields = [n for n in node.body if isinstance(n, ast.AnnAssign | ast.Assign)]
            yield from ((n.value, True) for n in fields if n.value and ast.unparse(n).split(" ")[0] not in MEMORY)


def possible() -> list[Mutant]:
    """Every change to the mathematics, once; not to what a message says."""
    found = {}
    for path in sorted(path for package in MATHEMATICS for path in (ROOT / "amends" / package).rglob("*.py")):
        file, source = path.relative_to(ROOT / "amends").as_posix(), path.read_text(encoding="utf-8")
        if file in NAMES:
            continue
        for part, default in drawn_from(ast.parse(source)):
            said = {of for text in ast.walk(part) if isinstance(text, ast.JoinedStr) for of in ast.walk(text)}
            for node in (n for n in ast.walk(part) if n not in said):
                change = numbers(source, node, default)
                if change is None or node.lineno != getattr(getattr(node, "right", node), "lineno", 0):
                    continue
                line = source.splitlines(keepends=True)[node.lineno - 1].encode()
                new = (line[: change[0]] + change[2].encode() + line[change[1] :]).decode()
                name = f"{file}: {line.decode().strip()} → {new.strip()}"
                found[file, node.lineno, change] = Mutant(name, file, "", new, node.lineno)
    return list(found.values())


def killed(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails in the copy with the mutation; the copy is put back."""
    path = copy / "amends" / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(mutant.made(whole), encoding="utf-8")
    package = mutant.file.split("/")[0]
    mirror = (f"tests/{package}", "tests/posteriors", *ELSEWHERE.get(mutant.file, ()))
    try:
        return any(failed(copy, tests) for tests in (("tests/exact",), mirror))
    finally:
        path.write_text(whole, encoding="utf-8")


def failed(copy: Path, tests: tuple[str, ...]) -> bool:
    env = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=900)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the tests do not run: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.returncode == 1


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--random", type=int, default=20, help="how many are drawn beside those listed")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--only", help="a part of the names of those to run")
    args = ask.parse_args()
    drawn = random.Random(args.seed).sample(possible(), args.random)
    chosen = [m for m in (*LISTED, *drawn) if not args.only or args.only in m.name]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        if failed(copy, ("tests/exact",)):
            raise SystemExit("the tests fail without a mutation; mend them first")
        for mutant in chosen:
            if mutant.name in CHANGE_NOTHING:
                print(f"changes nothing  {mutant.name}: {CHANGE_NOTHING[mutant.name]}", flush=True)
                continue
            dead = killed(mutant, copy)
            print(f"{'killed  ' if dead else 'SURVIVED'}  {mutant.name}", flush=True)
            survived += [] if dead else [mutant.name]
    print(f"{len(chosen)} mutations, {len(survived)} survived")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
