"""Benchmarks of others, run as a user runs them on a small table of the same shape."""

from __future__ import annotations

import csv
import io
import zipfile
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.published import opendataval


def spread_within(values, cut):
    return sum(((part - part.mean()) ** 2).sum() for part in (values[values < cut], values[values >= cut]) if len(part))


def test_two_means_is_the_best_cut_of_all():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = np.concatenate([rng.normal(size=15), rng.normal(3, 0.5, 5)])
        ordered = np.sort(values)
        least = min(spread_within(values, (a + b) / 2) for a, b in pairwise(ordered))
        called = opendataval.two_means(values)
        assert values[called].min() > values[~called].max()
        assert spread_within(values, values[called].min()) == pytest.approx(least)


def test_f1_is_that_of_precision_and_recall():
    called, wrong = np.array([1, 1, 1, 0, 0], bool), np.array([1, 0, 0, 1, 0], bool)
    precision, recall = 1 / 3, 1 / 2
    assert opendataval.f1(called, wrong) == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_row_for_every_method(tmp_path, capsys, monkeypatch):
    """On people whose salary follows from two columns the loss finds most of what was flipped, chance does not."""
    monkeypatch.setattr(opendataval, "BAGS", 12)
    rng = np.random.default_rng(1)
    age, capital = rng.normal(40, 10, 1200), rng.normal(0, 1, 1200)
    rich = (age - 40) / 10 + capital > 0
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["age", "capital-gain", "sex_Male", "salary_<=50K", "salary_>50K"])
    table.writerows((a, c, i % 2 == 0, not r, r) for i, (a, c, r) in enumerate(zip(age, capital, rich, strict=True)))
    with zipfile.ZipFile(tmp_path / "adult.csv.zip", "w") as archive:
        archive.writestr("adult.csv", text.getvalue())
    opendataval.main(["--data", str(tmp_path), "--seeds", "1"])
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    found = {name: float(cell.split()[0]) for name, cell, _ in lines[1:]}
    assert set(found) == set(opendataval.ROWS)
    assert found["loss"] > 0.7 > 0.4 > found["random"]
    assert found["Data-OOB"] > 0.7
