"""What the pages on the paper's experiments quote is what the committed rows say."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path

import pytest

from experiments import ITEMS
from experiments.all import DAMAGE
from experiments.running import Plan, Row, drawn, read
from experiments.tables import table

DOCS = Path(__file__).parents[2] / "docs" / "results"


def lines(page):
    """The cells of the table by its first one."""
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows[1:]}


PAGES = sorted(path.parent.name for path in DOCS.glob("reproduced/*/mnist") if path.parent.name != "speed")  # one seed
TABLES = sorted((path.parent.name, path.name) for path in DOCS.glob("reproduced/*/*"))
ASKED = (7500,)  # causes that were removed with CIFAR-10, but where inputs are damaged


@pytest.mark.parametrize(("item", "on"), TABLES)
def test_tables_are_those_of_the_rows(item, on, tmp_path, monkeypatch):
    """Made again from the committed rows; pictures are not."""
    monkeypatch.setattr("experiments.figures.saved", lambda figure, path: path)
    shutil.copytree(DOCS / "reproduced" / item, tmp_path / item)
    usual = on == "mnist" or item in DAMAGE
    drawn(Plan(item, on, out=tmp_path, sizes=() if usual else ASKED))
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


def test_points_are_less_what_the_same_network_has_with_nothing_removed():
    """Networks differ more than methods do, and a method may have been run in some of them alone."""
    from experiments.figures import axes_of, exchange

    def made(seed, method, k, holdout, remaining):
        return [Row(seed, method, k, "holdout", holdout), Row(seed, method, k, "remaining", remaining)]

    rows = [*made(0, "nothing removed", 0, 0.3, 0.9), *made(1, "nothing removed", 0, 0.6, 0.8),
            *made(0, "every damaged one removed", 370, 0.5, 0.95), *made(1, "every damaged one removed", 371, 0.9, 0.8),
            *made(1, "loss", 300, 0.5, 0.7)]  # fmt: skip
    _, axes = axes_of(4, 4, 1)
    exchange(axes[0], rows, "")
    said = {text.get_text(): text.xy for text in axes[0].texts}
    assert said == {
        "nothing removed": (0, 0), "every damaged one removed": pytest.approx((0.25, 0.025)),
        "loss (1 of 2)": pytest.approx((-0.1, -0.1)),
    }  # fmt: skip


def test_names_beside_points_that_lie_close_hide_neither_points_nor_each_other():
    from experiments.figures import axes_of, named

    figure, axes = axes_of(8, 5.4, 1)
    points = {"nothing removed": (0, 0), "random": (-0.01, 0), "grad_dot (2 of 4)": (0.07, -0.01),
              "linear, kronecker (2 of 4)": (0.075, -0.011), "the last": (0.2, 0.02)}  # fmt: skip
    axes[0].plot(*zip(*points.values(), strict=True), "o")
    named(axes[0], points, 0.05)
    apart(figure, axes[0], points.values())


def test_names_on_the_figure_of_causes_hide_nothing_and_stay_inside(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("experiments.figures.saved", lambda figure, path: made.append(figure) or path)
    shutil.copytree(DOCS / "reproduced" / "causes", tmp_path / "causes")
    drawn(Plan("causes", "cifar10", out=tmp_path, sizes=ASKED))
    ax = made[0].axes[0]
    boxes = apart(made[0], ax, [text.xy for text in ax.texts])
    assert all(ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 for box in boxes)


def apart(figure, ax, points):
    """The boxes of the names, less the lines to their points; none is on another one or on a point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    FigureCanvasAgg(figure).draw()
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert not any(one.contains(*ax.transData.transform(at)) for one in boxes for at in points)
    return boxes
