"""What the pages on the paper's experiments quote is what the committed rows say."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from experiments import ITEMS
from experiments.figures import (
    FRAME,
    OTHERS,
    STYLE,
    axes_of,
    best_first,
    crosses,
    curves,
    dots,
    images,
    series,
)
from experiments.running import Plan, Row, drawn, read
from experiments.tables import table

DOCS = Path(__file__).parents[2] / "docs" / "results"


def lines(page):
    """The cells of the table by its first one."""
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows[1:]}


PAGES = sorted(path.parent.name for path in DOCS.glob("reproduced/*/mnist") if path.parent.name != "speed")  # one seed
TABLES = sorted((path.parent.name, path.name) for path in DOCS.glob("reproduced/*/*"))


@pytest.mark.parametrize(("item", "on"), TABLES)
def test_tables_are_those_of_the_rows(item, on, tmp_path, monkeypatch):
    """Made again from the committed rows; pictures are not."""
    monkeypatch.setattr("experiments.figures.saved", lambda figure, path: path)
    shutil.copytree(DOCS / "reproduced" / item, tmp_path / item)
    drawn(Plan(item, on, out=tmp_path))
    table = (tmp_path / item / on / "table.md").read_text(encoding="utf-8")
    assert table in (DOCS / f"{item}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("item", PAGES)
def test_five_networks_stand_behind_every_row(item):
    rows = [row for path in DOCS.glob(f"reproduced/{item}/mnist/seed_*.csv") for row in read(path)]
    seeds = {name: {row.seed for row in rows if row.method == name} for name in {row.method for row in rows}}
    assert not {name for name, found in seeds.items() if len(found) < 5}


OTHER = {  # of another network of CIFAR-10: a method, a measure, and the number its page quotes
    "annotation-noise": {(method, k, measure) for method in ("default", "ewc_as_printed", "random")
                         for k, measure in ((0, "average precision"), (2500, "damaged"), (7500, "damaged"))},
    "causes": {(method, k, part) for part in ("query", "holdout", "remaining")
               for method, k in (("default", 7500), ("ewc_as_printed", 7500), ("random", 7500), ("nothing removed", 0),
                                 ("every damaged one removed", 7909))},
    "specificity": {(f"{method}: {kind}", k, measure)
                    for method, k in (("nothing removed", 0), ("default", 2500), ("grad_dot", 2500), ("random", 2500))
                    for kind in ("cat called dog", "plane called bird")
                    for measure in ("this kind", "other kinds", "other failures", "what worked")}
                   | {("ewc_as_printed: plane called bird", 2500, measure)
                      for measure in ("this kind", "other kinds", "other failures", "what worked")},
}  # fmt: skip


@pytest.mark.parametrize("item", OTHER)
def test_numbers_of_another_network_are_those_of_its_rows(item):
    rows = {(r.method, r.k, r.measure): r.value for r in read(DOCS / "reproduced" / item / "cifar10" / "first.csv")}
    page = (DOCS / f"{item}.md").read_text(encoding="utf-8").split("**Another network")[1]
    for method, k, measure in OTHER[item]:
        assert f"{rows[method, k, measure]:.3f}" in " ".join(lines(page)[method])


def test_seconds_of_an_earlier_run_are_those_of_its_rows():
    rows = {row.method: row.value for row in read(DOCS / "reproduced" / "speed" / "cifar10" / "first.csv")}
    page = lines((DOCS / "speed.md").read_text(encoding="utf-8").split("**Another network")[1])
    ewc = rows["ewc_as_printed: label noise"]
    assert {f"{name}: label noise": cells for name, cells in page.items()} == {
        name: [f"{seconds:.2f} ({seconds / ewc:.1f})"] for name, seconds in rows.items()
    }


def test_every_experiment_is_on_the_page():
    page = (DOCS / "experiments.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(ITEMS)


def test_a_reference_is_averaged_over_seeds_that_damage_unlike_numbers():
    """Every seed has its own number of wrong labels, which is the k of the row."""
    rows = [Row(seed, "every damaged one removed", 370 + seed, "holdout", 0.5 + 0.1 * seed) for seed in (0, 1)]
    curve = [Row(seed, "ewc", k, "holdout", 0.1 * (seed + 1)) for seed in (0, 1) for k in (100, 300)]
    cells = lines(table([*rows, *curve], {"holdout": ("holdout", 300)}))
    assert cells == {"every damaged one removed": ["0.550 ± 0.050"], "ewc": ["0.150 ± 0.050"]}


def made(seed, method, k, value, measure="holdout"):
    return Row(seed, method, k, measure, value)


def test_marks_are_networks_where_a_method_was_not_run_in_all_of_them():
    """Less what another method has in the same network: there the one that was run in the better one alone is worse."""
    rows = [made(0, "every damaged one removed", 370, 0.5), made(1, "every damaged one removed", 371, 0.9),
            made(0, "default", 300, 0.5), made(1, "default", 300, 0.9), made(1, "loss", 300, 0.7)]  # fmt: skip
    shown = series(rows, "holdout", (300,), less="every damaged one removed")
    assert shown == {
        "network 1": {"every damaged one removed": [0], "default": [0]},
        "network 2": {"every damaged one removed": [0], "default": [0], "loss": [pytest.approx(-0.2)]},
    }
    assert best_first(shown) == ["every damaged one removed", "default", "loss"]


def test_marks_are_numbers_removed_where_every_method_was_run_in_every_network():
    """A reference has one number of its own, and stands there once."""
    rows = [made(seed, "random", k, 0.1 * seed + k / 1000) for seed in (1, 2) for k in (100, 300)]
    rows += [made(seed, "nothing removed", 0, 0.3) for seed in (1, 2)] + [made(1, "random", 0, 7, "seconds")]
    assert series(rows, "holdout", (100, 300)) == {
        "the first 100": {"random": pytest.approx([0.2, 0.3])},
        "the first 300": {"random": pytest.approx([0.4, 0.5]), "nothing removed": [0.3, 0.3]},
    }


def test_every_method_has_its_name_and_its_spread():
    """Bars of a standard deviation, but no share beyond 1; one without a colour of its own is named all the same."""
    _, axes = axes_of(4, 4, 1)
    shown = {"one": {"ogd": [0.5, 0.7], "default": [0.9, 1.0, 1.0]}}
    dots(axes[0], ["ogd", "default"], shown)
    assert [text.get_text() for text in axes[0].get_yticklabels()] == ["ogd", "amends' default"]
    bars = {line.get_color(): list(line.get_xdata()) for line in axes[0].lines if len(line.get_xdata()) == 2}
    assert bars == {OTHERS: pytest.approx([0.5, 0.7]), STYLE["default"][1]: [pytest.approx(0.9195, abs=1e-4), 1]}


def test_a_curve_says_of_how_many_networks_it_is():
    rows = [made(seed, "ewc", k, 0.2 * seed) for seed in (0, 1) for k in (100, 300)]
    rows += [made(0, "ogd", k, 0.1) for k in (100, 300)] + [made(0, "loss", k, 0.1) for k in (100, 300)]
    _, axes = axes_of(4, 4, 1)
    curves(axes[0], rows, "holdout")
    assert [line.get_label() for line in axes[0].lines] == [STYLE["ewc"][0], "loss (1 of 2)"]
    band = axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0, pytest.approx(0.2))
    assert len(axes[0].collections) == 1


def test_a_point_has_a_bar_in_either_direction():
    rows = [made(seed, "D∖C", 0, 0.4 + 0.2 * seed) for seed in (0, 1)]
    rows += [made(seed, "D∖C", 0, 0.9 + 0.02 * seed, "remaining") for seed in (0, 1)]
    _, axes = axes_of(4, 4, 1)
    assert crosses(axes[0], rows, "D∖C", (0,), color=OTHERS, marker="o") == [pytest.approx((0.5, 0.91))]
    ends = sorted(bar.get_segments()[0].flatten().tolist() for bar in axes[0].collections)
    assert ends == [pytest.approx([0.4, 0.91, 0.6, 0.91]), pytest.approx([0.5, 0.9, 0.5, 0.92])]


def test_an_image_has_its_label_below_and_a_frame_where_it_was_damaged():
    _, axes = axes_of(4, 4, 1)
    images(axes[0], np.zeros((2, 1, 24, 24), np.uint8), "", 2, np.array([False, True]), ["7", "9→4"])
    sheet = axes[0].images[0].get_array()
    framed = np.argwhere((sheet == FRAME).all(2))
    assert framed.min(0).tolist() == [0, 26]
    assert framed.max(0).tolist() == [27, 53]
    at = {text.get_text(): text.get_position() for text in axes[0].texts if text.get_text()}
    assert {said: (x, y > 28) for said, (x, y) in at.items()} == {"7": (14, True), "9→4": (40, True)}


@pytest.mark.parametrize(("item", "on"), [(item, on) for item, on in TABLES if item != "speed"])
def test_no_panel_is_empty_and_names_on_a_figure_hide_none(item, on, tmp_path, monkeypatch):
    """Neither names of methods nor those beside points, at the size the docs show."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figures = []
    monkeypatch.setattr("experiments.figures.saved", lambda figure, path: figures.append(figure) or path)
    shutil.copytree(DOCS / "reproduced" / item, tmp_path / item)
    drawn(Plan(item, on, out=tmp_path))
    for figure in figures:
        assert figure.get_figwidth() <= 9.5
        FigureCanvasAgg(figure).draw()
        for ax in figure.axes:
            assert ax.has_data() or not ax.axison
            texts = [text for text in (*ax.texts, *ax.get_yticklabels()) if text.get_text() and text.get_visible()]
            boxes = [text.get_window_extent() for text in texts]
            hidden = [(a.get_text(), b.get_text()) for (a, one), (b, other) in
                      combinations(zip(texts, boxes, strict=True), 2) if one.overlaps(other)]  # fmt: skip
            assert not hidden
