"""Repairs of pictures and of texts, saved once, with their reports."""

from __future__ import annotations

import shutil

import pytest

from amends.report.page import report
from tests import reported
from tests.report.html import Page


@pytest.fixture(scope="session")
def result():
    return reported.pictures()


@pytest.fixture(scope="session")
def folder(result, tmp_path_factory):
    return reported.saved(result, tmp_path_factory.mktemp("runs") / "digits")


@pytest.fixture(scope="session")
def page(folder):
    return Page(report(folder))


@pytest.fixture
def copy(folder, tmp_path):
    """A run folder a test may damage."""
    return shutil.copytree(folder, tmp_path / "run")


@pytest.fixture(scope="session")
def of_texts(tmp_path_factory):
    result = reported.texts()
    return result, reported.saved(result, tmp_path_factory.mktemp("runs") / "<i>reviews")
