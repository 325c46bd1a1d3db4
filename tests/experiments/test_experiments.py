"""Every experiment of the paper in a quick form: the real code, a small network, 500 real digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments import ITEMS
from experiments.input_noise import with_all
from experiments.running import Row
from experiments.sets import SETS, SHARE


def drawn(figures):
    """Files that hold something."""
    return {Path(f).name for f in figures if Path(f).stat().st_size > 100}


def test_wrong_labels_are_found(reproduced, capsys):
    """Fig. 2: of what EWC-influence ranks first more is wrong than of what chance does; the oracle finds all."""
    folder, rows, figures = reproduced("annotation-noise", capsys, "ewc", "random", "oracle")
    wrong = int(rows["base", "wrong labels"][0])
    assert 40 < wrong < 90
    assert sum(rows["base", "failures of class"].values()) == pytest.approx(2000 * (1 - rows["base", "accuracy"][0]))
    assert rows["oracle", "average precision"][0] == 1
    shares = {name: rows[name, "damaged"] for name in ("ewc", "random", "oracle")}
    assert shares["oracle"][50] == 1
    assert shares["ewc"][50] > 0.6 > 0.3 > shares["random"][50]
    assert all(s[500] == pytest.approx(wrong / 500) for s in shares.values())
    assert drawn(figures) == {"figure.png", "table.md", "most_and_least_harmful.png"}
    shown = np.load(folder / "seed_0.npz")
    for end in ("most", "least"):
        given, true, wrong = (shown[f"ewc, {end} {which}"] for which in ("given", "true", "damaged"))
        assert ((given != true) == wrong).all()
        confused = set(zip(true[wrong].tolist(), given[wrong].tolist(), strict=True))
        assert confused <= set(SETS["digits"].confusion)


def test_removing_causes_fixes_failures(reproduced, capsys):
    """Fig. 3: more of the failures never shown than removing as many at random, and than removing nothing."""
    _, rows, figures = reproduced("causes", capsys, "ewc", "random", remove=(100,))
    fixed = rows["ewc", "holdout"][100]
    assert fixed > rows["random", "holdout"][100] + 0.05
    assert fixed > rows["nothing removed", "holdout"][0] + 0.05
    assert rows["every damaged one removed", "remaining"].popitem()[1] > 0.9
    assert drawn(figures) == {"figure.png", "table.md"}


@pytest.mark.parametrize(("item", "changed"), [("random-noise", False), ("poisoning", True)])
def test_damaged_inputs(reproduced, capsys, item, changed):
    """Fig. 4: 30 % of four classes; noise keeps the labels, an attack gives those the victim says."""
    _, rows, figures = reproduced(item, capsys, "ewc_as_printed", "oracle", remove=(50,))
    damaged = rows["base", "damaged"][0]
    assert damaged == pytest.approx(SHARE * 0.4 * 500, rel=0.15)
    assert rows["base", "label changed"][0] == (pytest.approx(damaged, rel=0.2) if changed else 0)
    assert rows["every damaged one removed", "holdout"].keys() == {damaged}
    assert rows["oracle", "damaged"][50] == 1
    assert set(rows["ewc_as_printed", "holdout"]) == {50}
    assert 0 <= rows["ewc_as_printed", "of the noisy classes"][50] <= 1
    assert drawn(figures) == {"figure.png", "table.md", "most_harmful.png"}


def test_all_test_images_are_told_of_networks_whose_sizes_are_known():
    """A seed that was stopped before its network had been looked at has none."""
    parts = {"query": 0.5, "holdout": 0.25, "other": 0.0, "remaining": 1.0}
    rows = [Row(seed, "default", 300, part, share) for seed in (0, 1) for part, share in parts.items()]
    sizes = [Row(0, "base", 0, f"size of {part}", 10.0) for part in (*parts, "guard")]
    made = [row for row in with_all([*rows, *sizes]) if row.measure == "all test images"]
    assert made == [Row(0, "default", 300, "all test images", pytest.approx(0.55))]


def test_fewer_failures_to_search_with(reproduced, capsys):
    """Appendix: precision and recall are those of what is removed."""
    _, rows, figures = reproduced("sample-efficiency", capsys, "linear, kronecker")
    removed, precision, recall = (rows["linear, kronecker", m] for m in ("removed", "precision", "recall"))
    assert set(removed) == {0.05, 0.1, 0.25, 0.5, 1}
    found = {share: precision[share] * removed[share] / recall[share] for share in removed}
    wrong = next(iter(rows["every damaged one removed", "holdout"]))
    assert all(total == pytest.approx(wrong, rel=1e-3) for total in found.values())
    assert rows["linear, kronecker", "average precision"][1] > 2 * wrong / 500
    assert drawn(figures) == {"figure.png", "table.md"}


def test_deletions_over_their_step_size(reproduced, capsys):
    """Fig. 5: a larger Newton step fixes more and breaks more; the guard takes a step that breaks little, or none."""
    plain, guarded = "Newton removal, plain", "Newton removal, guarded"
    ewc = ("EWC-deletion, plain", "EWC-deletion, stopped by accuracy")
    _, rows, figures = reproduced("trade-off", capsys, plain, guarded, *ewc, "SISA, 5 shards")
    kept = rows[plain, "remaining"]
    assert kept[0.0003] > kept[0.01] > kept[0.1]
    assert rows[plain, "holdout"][0.01] > rows[plain, "holdout"][0.0003]
    assert min(rows[guarded, "remaining"].values()) > 0.95
    assert rows[guarded, "remaining"][0.1] == 1
    assert set(rows[ewc[0], "holdout"]) == set(rows[ewc[1], "holdout"]) == set(kept)
    assert rows[ewc[1], "holdout"][0.01] >= rows[ewc[0], "holdout"][0.01]  # none is right at the start
    assert 0.1 < rows["SISA, 5 shards", "remaining"][0] < 0.9  # 85 images a shard teach little
    assert drawn(figures) == {"figure.png", "table.md"}


def test_forgetting_and_learning(reproduced, capsys):
    """Appendix: failures alone fix most and break most; a pull holds what worked."""
    _, rows, figures = reproduced("forget-and-learn", capsys)
    alone = rows["failures", "remaining"]
    assert alone[0] < alone[1e5]
    assert rows["failures", "holdout"][0] > rows["D∖C", "holdout"][0] > rows["nothing removed", "holdout"][0]
    assert rows["D∖C and failures", "remaining"][0] > alone[0]
    assert drawn(figures) == {"figure.png", "table.md"}


def test_seconds(reproduced, capsys):
    """Appendix: a time for each kind of damage, and the table names it."""
    _, rows, figures = reproduced("speed", capsys, "ewc_as_printed", "random")
    kinds = {method.split(": ")[1] for method, _ in rows}
    assert kinds == {"label noise", "random input noise", "adversarial poisoning"}
    assert all(rows[f"ewc_as_printed: {kind}", "seconds"][0] > 0 for kind in kinds)
    assert "| ewc_as_printed | " in Path(figures[0]).read_text()


def test_one_kind_of_failure(reproduced, capsys):
    """The kind that was searched with is fixed more than with nothing removed, and its wrong labels are what goes."""
    _, rows, figures = reproduced("specificity", capsys, "ewc")
    kinds = ("1 called 7", "9 called 4", "3 called 5", "6 called 0")
    fixed = {n: [rows[f"{n}: {kind}", "this kind"] for kind in kinds] for n in ("ewc", "nothing removed")}
    assert [list(v) for v in fixed["ewc"]] == [[25]] * 4
    assert sum(v[25] for v in fixed["ewc"]) > sum(v[0] for v in fixed["nothing removed"]) + 0.4
    gone, others = (sum(rows[f"ewc: {k}", f"removed, of {w}"][25] for k in kinds) for w in ("this kind", "other kinds"))
    assert gone > others
    assert drawn(figures) == {"figure.png", "table.md"}


def test_every_experiment_has_a_script_that_says_what_it_is():
    from importlib import import_module

    for item in ITEMS:
        script = import_module(f"experiments.{item.replace('-', '_')}")
        assert script.__doc__
        assert f"python -m experiments.{item.replace('-', '_')}" in script.__doc__
        assert callable(script.one_seed)
        assert callable(script.draw)


def test_a_colour_means_one_thing():
    from matplotlib.colors import to_hex

    from experiments.figures import FRAME, OTHERS, STYLE, TREATMENTS
    from experiments.rankings import EVERY, USUAL

    frame = to_hex([c / 255 for c in FRAME])
    colours = [*(colour for _, colour in STYLE.values()), *TREATMENTS.values(), OTHERS, frame]
    assert len(set(colours)) == len(colours)
    assert set(USUAL) <= set(STYLE) <= set(EVERY)
    assert set(SETS) == {"mnist", "cifar10", "digits"}


def test_the_front_is_what_nothing_beats_in_both():
    from experiments.trade_off import front

    points = [(0.1, 0.9), (0.5, 0.8), (0.5, 0.7), (0.3, 0.8), (0.2, 0.95), (0.6, 0.1)]
    assert front(points) == [(0.2, 0.95), (0.5, 0.8), (0.6, 0.1)]
    assert front([]) == []
