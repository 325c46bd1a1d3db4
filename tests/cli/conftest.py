"""A project of digits, a search in it, and a whole repair: made once, used by the tests of every command."""

from __future__ import annotations

import shutil

import pytest

from tests.projects import amends, digits_project


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The project as its user made it; nothing writes here."""
    folder = tmp_path_factory.mktemp("template")
    digits_project(folder)
    return folder


@pytest.fixture(scope="session")
def project(template, tmp_path_factory):
    return shutil.copytree(template, tmp_path_factory.mktemp("project"), dirs_exist_ok=True)


@pytest.fixture(autouse=True)
def _inside(project, monkeypatch):
    monkeypatch.chdir(project)


@pytest.fixture(scope="session")
def repaired(project):
    """The folder of a whole repair."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        assert amends("repair", "-o", "runs/whole", "-q", "--seed", 2) == 0
    return project / "runs/whole"


@pytest.fixture
def identified(project, tmp_path):
    """A fresh copy of a search."""
    if not (project / "runs/searched").exists():
        assert amends("identify", "-o", "runs/searched", "-q", "--seed", 2) == 0
    return shutil.copytree(project / "runs/searched", tmp_path / "searched")
