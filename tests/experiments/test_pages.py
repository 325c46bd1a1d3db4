"""What the pages on the paper's experiments quote is what the committed rows say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import ITEMS
from experiments.running import Row, read
from experiments.tables import table

DOCS = Path(__file__).parents[2] / "docs" / "results"
REFERENCES = {
    "nothing": "nothing removed",
    "every damaged one": "every damaged one removed",
    "every damaged one, and trained anew": "trained again without them",
}


def lines(page):
    """The cells of the table by its first one."""
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows[1:]}


def overall(values, sizes):
    """Accuracy on all test images: `remaining` stands for every image the network got right."""
    right = sum(sizes[name] * values[name] for name in ("query", "holdout", "other"))
    return (right + (sizes["guard"] + sizes["remaining"]) * values["remaining"]) / sum(sizes.values())


@pytest.mark.parametrize("item", ["random-noise", "poisoning"])
def test_tables_are_those_of_the_rows(item):
    rows = read(DOCS / "reproduced" / item / "mnist" / "seed_0.csv")
    sizes = {r.measure.removeprefix("size of "): r.value for r in rows if r.measure.startswith("size of ")}
    table = lines((DOCS / f"{item}.md").read_text(encoding="utf-8"))
    assert table.pop("not fine-tuned")[-1] == f"{next(r.value for r in rows if r.measure == 'accuracy'):.3f}"
    for name, (damaged, inside, *accuracies) in table.items():
        method, k = REFERENCES.get(name), None
        if method is None:
            k = float(name.split()[0])
            method = re.search(r"`(\w+)`", name)[1]
        own = {r.measure: r.value for r in rows if r.method == method and k in (None, r.k)}
        shown = [own[m] for m in ("query", "holdout", "other", "remaining")] + [overall(own, sizes)]
        assert accuracies == [f"{value:.3f}" for value in shown], name
        if k is not None:
            assert [damaged, inside] == [f"{own[m]:.3f}" for m in ("damaged", "of the noisy classes")], name


def test_every_experiment_is_on_the_page():
    page = (DOCS / "experiments.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(ITEMS)


def test_a_reference_is_averaged_over_seeds_that_damage_unlike_numbers():
    """Every seed has its own number of wrong labels, which is the k of the row."""
    rows = [Row(seed, "every damaged one removed", 370 + seed, "holdout", 0.5 + 0.1 * seed) for seed in (0, 1)]
    curve = [Row(seed, "ewc", k, "holdout", 0.1 * (seed + 1)) for seed in (0, 1) for k in (100, 300)]
    cells = lines(table([*rows, *curve], {"holdout": ("holdout", 300)}))
    assert cells == {"every damaged one removed": ["0.550 ± 0.050"], "ewc": ["0.150 ± 0.050"]}
