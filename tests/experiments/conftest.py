"""Experiments as a user runs them, on the digits that travel with a package."""

from __future__ import annotations

import csv
import json

import pytest

from amends.cli.app import run


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """Runs an experiment on the small digits: its folder, its rows {(method, measure): {k: value}}, its figures."""
    out = tmp_path_factory.mktemp("reproduced")

    def once(item, capture, *rows, remove=()):
        given = [word for row in rows for word in ("--method", row)]
        given += [word for k in remove for word in ("--remove", str(k))]
        capture.readouterr()
        assert run(["reproduce", item, "--on", "digits", "-o", str(out), "--json", *given]) == 0
        said = json.loads(capture.readouterr().out)
        with open(said["tables"][0], newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        found = {}
        for line in lines:
            found.setdefault((line["method"], line["measure"]), {})[float(line["k"])] = float(line["value"])
        return out / item / "digits", found, said["figures"]

    return once
