"""A line belongs to the first room that has all it needs: imports point up the list only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import amends

ROOT = Path(amends.__file__).parent
ROOMS = [
    "errors", "settings", "progress", "distributed", "config", "data", "likelihoods", "models", "evidence", "trace",
    "evaluation", "posteriors", "curvature", "editors", "remember", "methods", "nearness", "tables", "runs", "report",
    "committee", "algorithm", "patches", "workflow", "callbacks", "export", "web", "demo", "cli",
]  # fmt: skip
PEOPLE = {"tables", "runs", "report"}  # rooms that show results: they have libraries of their own
MATHEMATICS = [room for room in ROOMS[: ROOMS.index("algorithm") + 1] if room not in PEOPLE]
LEAF = "amends.methods.table"  # names alone: it needs no room, so that any room may read it
SHARED = ["workflow/repair.py", "workflow/patched.py"]  # of a later room, and as light: `amends.repair`, `result.patch`


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(path: Path, inside: bool = True) -> Iterator[str]:
    """Modules that running the file may import; those of functions too, where asked. Not those for type checkers."""
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from (f"amends.{alias.name}" for alias in node.names) if module == "amends" else [module]
        elif not _type_checking(node) and (inside or not isinstance(node, ast.FunctionDef)):
            todo += list(ast.iter_child_nodes(node))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def files() -> list[Path]:
    return [p for p in ROOT.rglob("*.py") if p not in (ROOT / "__init__.py", ROOT / "__main__.py")]


def test_every_file_is_in_a_room():
    assert {room(p) for p in files()} == set(ROOMS)


def test_every_room_says_what_comes_in_and_what_goes_out():
    for name in ROOMS:
        home = ROOT / name / "__init__.py"
        text = ast.get_docstring(ast.parse(home.read_text())) if home.exists() else "a single file"
        assert text, name


def test_imports_point_up():
    known = set(ROOMS)
    for path in files():
        for name in imports(path):
            other = name.split(".")[1] if name.startswith("amends.") else None
            if other in known and name != LEAF:
                assert ROOMS.index(other) <= ROOMS.index(room(path)), f"{path.relative_to(ROOT)} imports {name}"


def test_the_table_of_methods_needs_no_room():
    for file in ("methods/__init__.py", "methods/table.py"):
        assert {n for n in imports(ROOT / file) if n.startswith("amends")} <= {LEAF}, file


def test_an_import_is_seen_wherever_it_stands(tmp_path):
    file = tmp_path / "some.py"
    file.write_text("from amends import cli, report\ndef f():\n    class G:\n        import amends.export.files\n")
    assert set(imports(file)) == {"amends.cli", "amends.report", "amends.export.files"}
    assert set(imports(file, inside=False)) == {"amends.cli", "amends.report"}


def test_the_mathematics_imports_torch_and_numpy_alone():
    allowed = {"torch", "numpy", "amends", *sys.stdlib_module_names}
    light = [p for p in files() if room(p) in MATHEMATICS] + [ROOT / name for name in SHARED]
    for path in light:
        outside = {n.split(".")[0] for n in imports(path, inside=False)} - allowed
        assert not outside, f"{path.relative_to(ROOT)} imports {outside}"
        heavy = {n for n in imports(path, inside=False) if n.startswith("amends.") and n.split(".")[1] in PEOPLE}
        assert not heavy, f"{path.relative_to(ROOT)} imports {heavy} before it is needed"


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


def test_the_package_runs_as_the_command():
    done = subprocess.run([sys.executable, "-m", "amends", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"amends, version {amends.__version__}\n")
