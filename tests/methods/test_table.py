"""One table names the methods: what is made from it is up to date, and `amends.methods` has each of its names."""

from __future__ import annotations

import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from amends import methods
from amends.config import keys
from amends.methods import library, table

ROOT = Path(__file__).parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("path", "text"), generator().made().items(), ids=lambda p: getattr(p, "name", ""))
def test_what_is_made_from_the_table_is_up_to_date(path, text):
    assert path.read_text(encoding="utf-8") == text, "run `make tables`"


def test_the_page_of_methods_explains_every_one():
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for name in (*(row.name for row in table.METHODS), "weighted"):
        assert f"`{name}(" in page, name
    for name in table.SOLVERS:
        assert f"| `{name}` |" in page, name


def test_every_file_of_the_library_is_in_the_table():
    assert {m.name for m in pkgutil.iter_modules(library.__path__)} == {row.file for row in table.METHODS}


def test_a_name_is_there_once():
    listed = [*(row.name for row in table.METHODS), *table.SOLVERS]
    assert len(set(listed)) == len(listed)
    assert set(dir(methods)) == set(methods.__all__) == set(table.HOMES)


def test_the_config_can_name_what_amends_can_make():
    assert tuple(methods.IDENTIFY) == keys.IDENTIFY
    assert tuple(methods.TREAT) == keys.TREAT
    assert tuple(methods.SOLVERS) == keys.SOLVERS
    assert set(methods.BY_NAME) == {row.name for row in table.METHODS if row.by_name}


def test_no_module_has_the_name_of_a_method():
    """Importing it would put the module in the place of the function."""
    assert not {m.name for m in pkgutil.iter_modules(methods.__path__)} & set(methods.__all__)


ORDERS = {
    "names first": "import amends; [getattr(amends.methods, n) for n in amends.methods.__all__]; load()",
    "modules first": "load(); import amends",
    "by its path": "import amends.methods.library.ewc; from amends.methods.library import random, scores, default",
    "all names": "from amends.methods import *; load()",
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_name_is_its_function_in_whatever_order_things_are_imported(order):
    code = f"""
from importlib import import_module
from amends.methods.table import HOMES
def load():
    for home in HOMES.values():
        import_module(home)
{ORDERS[order]}
import amends.methods
for name, home in HOMES.items():
    assert getattr(amends.methods, name) is getattr(import_module(home), name), name
    assert name.isupper() or name == "Scorer" or amends.methods.__dict__[name].__name__ == name, name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_there_is_said():
    with pytest.raises(AttributeError, match=r"module 'amends\.methods' has no attribute 'ewk'"):
        methods.ewk  # noqa: B018
    assert not hasattr(methods, "ewk")


def test_the_names_are_known_without_torch():
    code = "import sys, amends.methods as m; assert 'ewc' in m.__all__; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
