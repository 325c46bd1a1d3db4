"""A line belongs to the first room that has all it needs: imports point up the list only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import amends

ROOT = Path(amends.__file__).parent
ROOMS = [
    "errors", "config", "params", "progress", "data", "hashes", "likelihoods", "models", "network", "factor", "trace",
    "posteriors", "curvature", "climb", "remember", "editors", "baselines", "ratio", "methods", "prepare", "selection",
    "evaluation", "apart", "conflicts", "neighbours", "committee", "influence", "treatment", "curve", "verdict",
    "search", "cut", "plan", "algorithm", "frames", "looks", "runs", "report", "job", "store", "workflow", "export",
    "checking", "demo", "cli",
]  # fmt: skip
MATHEMATICS = ROOMS[: ROOMS.index("algorithm") + 1]


def imports(path: Path) -> set[str]:
    """Modules imported when the file is imported: not inside functions, not for type checkers."""
    found, todo = set(), list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not isinstance(node, ast.FunctionDef):
            todo += list(ast.iter_child_nodes(node))
    return found


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def files():
    return [p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py"]


def test_every_file_is_in_a_room():
    assert {room(p) for p in files()} == set(ROOMS)


def test_imports_point_up():
    for path in files():
        for name in imports(path):
            if name.startswith("amends."):
                other = name.split(".")[1]
                assert ROOMS.index(other) <= ROOMS.index(room(path)), f"{path.name} imports {name}"


def test_the_mathematics_imports_torch_and_numpy_alone():
    allowed = {"torch", "numpy", "amends", *sys.stdlib_module_names}
    for path in files():
        if room(path) in MATHEMATICS:
            outside = {n.split(".")[0] for n in imports(path)} - allowed
            assert not outside, f"{path.name} imports {outside}"


def test_help_does_not_import_torch():
    code = "import sys, amends.cli.app as a; a.run(['--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


def test_public_names_exist_and_are_documented():
    for name in amends.__all__:
        value = getattr(amends, name)
        assert name.startswith("__") or value.__doc__, name
    for name in amends.methods.__all__:
        value = getattr(amends.methods, name)
        assert not callable(value) or name == "Scorer" or value.__doc__, name
