"""Runs of pictures, texts and rows made by the real code, each under review behind its doors."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from amends.web.app import app_of
from amends.web.doors import Doors
from amends.web.review import opened
from tests.projects import amends, digits_project, images_project, texts_project

PROJECTS = {"pictures": images_project, "texts": texts_project, "rows": digits_project}
PORT = 8321
BASE = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="session")
def searched(tmp_path_factory):
    """By kind, the folder of a search; nothing writes here."""
    made: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            config = PROJECTS[kind](folder)
            assert amends("identify", config, "-o", folder / "run", "-q", "--method", "grad_dot") == 0
            made[kind] = folder / "run"
        return made[kind]

    return of


@pytest.fixture
def copy(searched, tmp_path):
    """A run folder to review, by kind."""

    def of(kind: str = "pictures") -> Path:
        return shutil.copytree(searched(kind), tmp_path / kind / "run")

    return of


def client_of(review, doors: Doors | None = None, **headers) -> TestClient:
    """A browser that has the cookie."""
    doors = doors or Doors(review.token, PORT)
    client = TestClient(app_of(review, doors), base_url=BASE, headers={"origin": BASE, **headers})
    assert client.get(f"/?token={review.token}").status_code == 200
    return client


@contextmanager
def reviewed(folder: Path, **how):
    """A review of a run folder, and a browser in it."""
    with opened(folder, **how) as review, client_of(review) as client:
        client.review = review
        yield client


@pytest.fixture
def page(copy):
    """A browser in the review of the run of pictures."""
    with reviewed(copy()) as client:
        yield client


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    """Also in the processes of repairs, which find this checkout."""
    root = Path(__file__).parent.parent.parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
