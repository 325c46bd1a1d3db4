"""report.html, part by part, against the run folder it was made from."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from amends.errors import BadInput, RunMismatch
from amends.report.charts import BOTTOM, HIGH, TOP
from amends.report.markup import Html, change, probability, share, tag
from amends.report.matrix import MOST, matrices
from amends.report.page import LARGEST, report
from amends.tables.looks import png
from tests import reported

VOID = {"img", "meta", "br", "hr", "col"}


class Page(HTMLParser):
    """A document as a tree of [tag, attributes, children]; fails on a tag that is not closed in its turn."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = ["", {}, []]
        self.open = [self.root]
        self.feed(text)
        assert len(self.open) == 1, self.open[-1][0]

    def handle_starttag(self, tag, attrs):
        node = [tag, dict(attrs), []]
        self.open[-1][2].append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, (self.open[-1][0], tag)
        self.open.pop()

    def handle_data(self, data):
        self.open[-1][2].append(data)

    def all(self, name="", node=None, **wanted):
        """Elements of a name whose attributes hold these words."""
        found = []
        for child in (node or self.root)[2]:
            if isinstance(child, str):
                continue
            has = all(set(v.split()) <= set((child[1].get(k.rstrip("_")) or "").split()) for k, v in wanted.items())
            if child[0] == (name or child[0]) and has:
                found.append(child)
            found += self.all(name, child, **wanted)
        return found

    def text(self, node):
        return "".join(c if isinstance(c, str) else self.text(c) for c in node[2])

    def section(self, name):
        return self.all("section", id=name)[0]

    def table(self, node, caption):
        """The rows of the table with this caption, as texts."""
        found = next(t for t in self.all("table", node) if caption in self.text(t))
        rows = [[self.text(c) for c in r[2] if not isinstance(c, str)] for r in self.all("tr", found)]
        return rows


@pytest.fixture(scope="module")
def result():
    return reported.pictures()


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    return reported.saved(result, tmp_path_factory.mktemp("runs") / "digits")


@pytest.fixture(scope="module")
def page(folder):
    return Page(report(folder))


@pytest.fixture
def copy(folder, tmp_path):
    """A run folder a test may damage."""
    return shutil.copytree(folder, tmp_path / "run")


def changed(copy, **metrics):
    """The same run with other metrics."""
    path = copy / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | metrics))
    return Page(report(copy))


def looks_of(copy):
    return json.loads((copy / "looks.json").read_text())


# --- one file that asks nobody -----------------------------------------------------------------------------


def test_it_is_the_file_in_the_run_folder(folder):
    assert (folder / "report.html").read_text() == report(folder)


def test_it_asks_for_nothing_and_runs_nothing(folder):
    text = report(folder)
    assert "http:" not in text
    assert "https:" not in text
    for word in ("<script", "<link", "<iframe", "@import", "url(", "javascript:", " onload", " onclick"):
        assert word not in text
    page = Page(text)
    assert all(img[1]["src"].startswith("data:image/png;base64,") for img in page.all("img"))
    policy = next(m for m in page.all("meta") if m[1].get("http-equiv"))
    assert policy[1]["content"].startswith("default-src 'none'")


def test_a_reader_who_does_not_see_finds_their_way(page):
    assert page.all("html")[0][1]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert all(img[1]["alt"] for img in page.all("img"))
    assert all(th[1].get("scope") in ("col", "row") for th in page.all("th"))
    assert all(page.all("caption", t) for t in page.all("table"))
    for svg in page.all("svg"):
        assert svg[1].get("aria-hidden") == "true" or (svg[1]["role"] == "img" and page.all("title", svg))
    ids = [n[1]["id"] for n in page.all() if "id" in n[1]]
    assert len(ids) == len(set(ids))
    links = [a[1]["href"] for a in page.all("a")]
    assert len(links) == len(page.all("section"))
    assert {h[1:] for h in links} <= set(ids)


def test_light_dark_print_and_no_colour(folder):
    text = report(folder)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "stroke-dasharray" in text
    assert "repeating-linear-gradient" in text


# --- what it says ------------------------------------------------------------------------------------------


def test_the_verdict_its_reason_and_the_warnings_come_first(page, copy, result):
    m = result.metrics
    assert page.text(page.all("h1")[0]).lower() == m["verdict"]
    top = page.text(page.all("div", class_="verdict")[0])
    assert m["reason"][1:] in top
    assert not page.all("aside")
    other = changed(copy, warnings=["too few; failures; give 40 or more"])
    assert page.text(other.all("aside")[0]) == "WarningToo few. Give 40 or more. failures"


def test_before_and_after_with_intervals(page, result):
    m, part = result.metrics, page.section("before-after")
    rows = {r[0]: r[1:] for r in page.table(part, "Accuracy before and after")}
    for name in ("query", "holdout", "remaining", "overall"):
        row = m[name]
        assert rows[name][:3] == [str(row["n"]), share(row["before"]), share(row["after"])]
        assert rows[name][4] == change(row["before"], row["after"])
    for name in ("query", "holdout", "remaining"):
        low, high = m["intervals"][name]
        assert rows[name][3] == f"{share(low)} to {share(high)}"
        assert rows[name][6] == probability(m["p_values"][name])
    assert f"{m['fixed']} of {m['holdout']['n']} holdout failures are fixed" in page.text(part)
    assert f"{m['newly_broken']} of {m['remaining']['n']} examples that were right are newly broken" in page.text(part)


def test_the_dumbbells_are_where_the_shares_are(page, result):
    m = result.metrics
    drawn = page.all("svg", page.section("before-after"), class_="dumbbell", role="img")
    for svg, name in zip(drawn, ("query", "holdout", "remaining", "overall"), strict=True):
        at = {c[1]["class"]: float(c[1]["cx"].rstrip("%")) for c in page.all("circle", svg)}
        assert at["before"] == pytest.approx(2 + 96 * m[name]["before"], abs=0.01)
        assert at["after"] == pytest.approx(2 + 96 * m[name]["after"], abs=0.01)
        spans = page.all("line", svg, class_="interval")
        assert len(spans) == 1
        assert all(float(s[1]["x1"][:-1]) <= at["after"] <= float(s[1]["x2"][:-1]) for s in spans)


def test_the_curve_has_both_controls_and_the_chosen_size(page, result):
    m = result.metrics
    figures = page.all("figure", page.section("curve"))
    assert [page.text(page.all("figcaption", f)[0]) for f in figures] == [
        "Accuracy on holdout failures", "Accuracy on remaining"
    ]  # fmt: skip
    for figure in figures:
        kinds = [line[1]["class"] for line in page.all("polyline", figure)]
        assert sorted(kinds) == ["line causes", "line control", "line nothing"]
        assert len(page.all("polygon", figure, class_="band")) == 3
        assert len(page.all("circle", figure, class_="mark")) == sum(r["by"] == "causes" for r in m["curve"])
        assert len(page.all("rect", figure, class_="mark")) == sum(r["by"] == "random" for r in m["curve"])
        chosen, mark = page.all("line", figure, class_="chosen")[0], page.all("circle", figure, class_="mark")[0]
        assert float(chosen[1]["x1"]) == pytest.approx(float(mark[1]["cx"]))
        assert f"chosen: {m['removed']}" in page.text(figure)
    rows = page.table(page.section("curve"), "every number")
    assert len(rows) == 1 + len(m["curve"])
    controls = page.table(page.section("curve"), "and of its controls")
    assert [r[3] for r in controls[1:]] == [
        share(m["holdout"]["after"]), *(share(row["holdout"]) for row in m["controls"].values())
    ]  # fmt: skip


def test_points_of_the_curve_are_at_their_height(page, result):
    figure = page.all("figure", page.section("curve"))[0]
    at = {r["holdout"]: r for r in result.metrics["curve"] if r["by"] == "causes"}
    labels = [t for t in page.all("text", figure) if page.text(t).endswith("%")]
    y = [float(t[1]["y"]) - 4 for t in labels]
    shown = [float(page.text(t).rstrip("%")) / 100 for t in labels]
    assert (min(y), max(y)) == (TOP, HIGH - BOTTOM)
    slope, start = np.polyfit(y, shown, 1)
    for mark, value in zip(page.all("circle", figure, class_="mark"), at, strict=True):
        assert slope * float(mark[1]["cy"]) + start == pytest.approx(value, abs=1e-3)


def test_confusion_before_after_and_difference(page, result):
    found = result.metrics["confusion"]
    assert found["classes"] == list(reported.DIGITS)
    tables = page.all("table", page.section("confusion"), class_="matrix")

    def numbers(table):
        rows = [[page.text(c) for c in r[2] if c[0] == "td"] for r in page.all("tr", table)[1:]]
        return np.array([[int(c.replace("−", "-").replace(",", "")) for c in row] for row in rows])

    before, after, difference = map(numbers, tables)
    assert before.tolist() == found["before"]
    assert after.tolist() == found["after"]
    assert np.array_equal(difference, after - before)
    for i, row in enumerate(page.all("tr", tables[2])[1:]):
        for j, cell in enumerate(c for c in row[2] if c[0] == "td"):
            change = difference[i, j]
            better = "zero" if not change else "better" if (change > 0) == (i == j) else "worse"
            assert cell[1]["class"] == better


def test_the_confusion_is_that_of_the_models(result):
    """Rows true, columns predicted, over what judged: as the two models themselves say."""
    m = result.metrics
    before, after = (np.array(m["confusion"][k]) for k in ("before", "after"))
    n = m["holdout"]["n"] + m["remaining"]["n"]
    assert before.sum() == after.sum() == n
    assert np.array_equal(before.sum(1), after.sum(1))
    for table, key in ((before, "before"), (after, "after")):
        right = m["holdout"][key] * m["holdout"]["n"] + m["remaining"][key] * m["remaining"]["n"]
        assert np.trace(table) == round(right)
    for name, row in m["classes"].items():
        k = reported.DIGITS.index(name)
        assert before[k].sum() == row["n"]
        assert after[k, k] == round(row["after"] * row["n"])


def test_many_classes_are_put_together():
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 5, (2, 40, 40))
    found = {"classes": [f"c{i}" for i in range(40)], "before": before.tolist(), "after": after.tolist()}
    html, merged = matrices(found)
    page = Page(html)
    assert merged == 40 - (MOST - 2)
    rows = page.all("tr", page.all("table")[0])[1:]
    cells = [[int(page.text(c).replace(",", "")) for c in page.all("td", r)] for r in rows]
    assert np.sum(cells) == before.sum()
    assert "others" in page.text(page.all("table")[0])


# --- examples ----------------------------------------------------------------------------------------------


def test_a_cause_is_shown_with_what_is_known_of_it(page, folder, result):
    causes, looks = result.causes, looks_of(folder)
    cards = page.all("article", page.section("causes"))
    assert len(cards) == min(60, len(causes))
    for card, cause in zip(cards, causes.to_dict("records"), strict=False):
        facts = dict(zip(map(page.text, page.all("dt", card)), map(page.text, page.all("dd", card)), strict=True))
        assert facts["given"] == cause["given"]
        assert facts["suggested"].startswith(cause["suggested"])
        assert facts["score"] == f"{cause['score']:.2f}"
        assert facts["p(given)"] == f"{probability(cause['p_given'])} → {probability(cause['p_given_after'])}"
        assert "removed" in page.text(card)
        images = [img[1]["src"] for img in page.all("img", card)]
        beside = [looks["failures"][str(j)]["image"] for j in cause["conflicts_with"]]
        assert images == [looks["train"][str(cause["index"])]["image"], *beside]


def test_never_mislabelled(page):
    assert "mislabel" not in page.text(page.root).lower()


def test_what_changed_is_shown_with_what_the_models_say(page, folder, result):
    m, looks = result.metrics, looks_of(folder)
    part = page.section("changed")
    lists = page.all("ul", part, class_="tiles")
    shown = [[page.text(li) for li in page.all("li", found)] for found in lists]
    for tiles, at, kind in zip(shown, (m["broken_at"], m["fixed_at"]), ("remaining", "failures"), strict=True):
        assert len(tiles) == len(at) > 0
        for text, position in zip(tiles, at, strict=True):
            look = looks[kind][str(position)]
            said = f"predicted {look['predicted']} → {look['predicted_after']}"
            assert text == f"{look['label']} {said} {kind}[{position}]"
            assert (look["label"] == look["predicted_after"]) == (kind == "failures")
            assert (look["label"] == look["predicted"]) == (kind == "remaining")


def test_near_copies_stand_together(page, folder, result):
    (pair,) = result.metrics["duplicates"]
    images = [img[1]["src"] for img in page.all("img", page.section("copies"))]
    looks = looks_of(folder)
    assert images == [looks["train"][str(i)]["image"] for i in pair]
    assert images[0] == images[1]


def test_doubtful_failures_are_shown(page, folder, result):
    images = [img[1]["src"] for img in page.all("img", page.section("suspects"))]
    assert images == [looks_of(folder)["failures"][str(i)]["image"] for i in result.metrics["suspects"]]


def test_groups_classes_calibration_and_keep(page, result):
    m = result.metrics
    groups = page.table(page.section("groups"), "by group")
    largest = max(m["groups"].values(), key=lambda row: row["n"])
    assert groups[1][1:4] == [str(largest["n"]), share(largest["before"]), share(largest["after"])]
    assert len(page.all("tr", page.section("groups"))) >= 1 + len(m["groups"])
    classes = {r[0]: r[1:] for r in page.table(page.section("classes"), "true class")}
    for name, row in m["classes"].items():
        assert classes[name][:3] == [str(row["n"]), share(row["before"]), share(row["after"])]
    errors = page.table(page.section("calibration"), "confidence")[1]
    assert errors[1:] == [f"{m['calibration'][k]['error']:.3f}" for k in ("before", "after")]
    (name,) = m["keep"]
    kept = page.table(page.section("keep"), "must hold")[1]
    assert kept[:3] == [name, share(m["keep"][name]["before"]), share(m["keep"][name]["after"])]


def test_a_harmed_class_is_marked_and_comes_first(copy):
    page = changed(copy, harmed=["four"])
    first = page.table(page.section("classes"), "true class")[1]
    assert first[0] == "four ▼ harmed"
    assert "Accuracy fell beyond chance (5% level over all classes) on: four." in page.text(page.section("classes"))


def test_settings_versions_and_how_to_make_it_again(copy):
    path = copy / "run.toml"
    path.write_text(
        path.read_text() + '\n[config.repair]\nmethod = "ewc"\nholdout = 0.5\n[config.model]\noptions = { a = "<b>" }\n'
    )
    text = report(copy)
    page = Page(text)
    part = page.section("method")
    settings = dict(page.table(part, "as they were used")[1:])
    assert settings == {"repair.method": "ewc", "repair.holdout": "0.5", "model.options.a": "<b>"}
    about = dict(page.table(part, "The run")[1:])
    assert {"amends", "torch", "Python", "device", "seed"} <= set(about)
    assert re.fullmatch(r"[0-9a-f]{64}", next(r for r in page.table(part, "made from") if r[0] == "train")[2])
    assert "amends repair digits/run.toml -o digits-again" in page.text(page.all("pre", part)[0])
    assert "amends report digits" in page.text(page.all("pre", part)[0])
    assert "not a privacy guarantee" in page.text(page.all("footer")[0])


# --- other kinds of run ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory):
    result = reported.texts()
    return result, reported.saved(result, tmp_path_factory.mktemp("runs") / "<i>reviews")


def test_texts_are_quoted_and_never_markup(of_texts):
    result, folder = of_texts
    text = report(folder)
    assert "<script" not in text
    assert "<b>bold" not in text
    assert "<i>" not in text
    page = Page(text)
    card = page.all("article")[0]
    own = result.causes.iloc[0]["text"]
    assert reported.NASTY in own
    assert page.text(page.all("blockquote", card)[0]) == own
    assert "<i>poor</i>" in page.text(page.section("classes"))
    assert "<i>reviews" in page.text(page.all("title")[0])
    beside = page.all("ul", card, class_="beside")[0]
    assert page.all("blockquote", beside)
    assert "conflicts with" in page.text(card)


def test_rows_show_the_columns_that_stand_out(tmp_path):
    result = reported.rows()
    folder = reported.saved(result, tmp_path / "rows")
    page, looks = Page(report(folder)), looks_of(folder)
    assert looks["kind"] == "row"
    cause = result.causes.iloc[0]
    card = page.all("article")[0]
    seen = looks["train"][str(cause["index"])]
    rows = [[page.text(c) for c in r[2]] for r in page.all("tr", page.all("table", card)[0])]
    assert [r[0] for r in rows] == seen["stands_out"]
    assert rows[0][1] == f"{seen['values'][0]:.4g}".replace("-", "−")
    assert rows[0][2] == f"{seen['deviations'][0]:+.1f} sd".replace("-", "−")
    assert cause["id"] in page.text(card)
    assert cause["suggested"] in page.text(card)


def identified(copy):
    for name in ("metrics.json", "curve.csv"):
        (copy / name).unlink()
    path = copy / "run.toml"
    path.write_text(path.read_text().replace('state = "done"', 'state = "identified"'))
    frame = pd.read_csv(copy / "causes.csv").assign(decision="")
    frame.to_csv(copy / "causes.csv", index=False)
    (copy / "identified" / "heard.json").write_text(
        '[{"name": "ewc", "found": 0.1, "unseen": 0.5, "weight": 1, "refused": ""}]'
    )
    return frame


def test_a_search_has_its_causes_and_says_that_nothing_is_judged(copy):
    frame = identified(copy)
    page = Page(report(copy))
    assert page.text(page.all("h1")[0]) == "Causes identified"
    assert f"{len(frame)} training examples were scored" in page.text(page.root)
    assert [s[1]["id"] for s in page.all("section")] == ["causes", "method"]
    assert len(page.all("article")) == min(60, len(frame))
    assert "undecided" in page.text(page.all("article")[0])
    assert page.table(page.section("method"), "What scored")[1][:4] == ["ewc", "10.0%", "0.500", "100.0%"]
    assert "amends treat digits" in page.text(page.section("method"))


def test_only_what_was_removed_counts_as_a_cause_after_a_search(copy, result):
    frame = pd.read_csv(copy / "causes.csv")
    kept = frame.assign(decision=["remove", "keep", ""] * (len(frame) // 3) + [""] * (len(frame) % 3))
    kept.to_csv(copy / "causes.csv", index=False)
    page = Page(report(copy))
    assert len(page.all("article")) == (kept["decision"] == "remove").sum()


def test_a_model_that_was_not_repaired(copy):
    page = changed(copy, verdict="not repaired", reason="a control does as well", removed=0, fixed_at=[], broken_at=[])
    top = page.text(page.all("div", class_="verdict")[0])
    assert "Not repaired" in top
    assert "is returned unchanged" in top
    assert "None of these was removed" in page.text(page.section("causes"))
    assert not page.all("line", class_="chosen")
    assert not page.all("section", id="changed")


def test_without_remaining_or_holdout(copy):
    none = {"before": None, "after": None, "n": 0}
    path = copy / "curve.csv"
    frame = pd.read_csv(path)
    frame[[c for c in frame if c.startswith(("remaining", "guard", "holdout"))]] = np.nan
    frame.to_csv(path, index=False)
    page = changed(copy, remaining=None, holdout=none, calibration=None, confusion=None)
    assert len(page.all("figure")) == 1
    assert "Accuracy on query failures" in page.text(page.section("curve"))
    assert "no remaining examples were given" in page.text(page.root)
    assert not page.all("section", id="confusion")
    assert not page.all("section", id="calibration")


def test_groups_repaired_in_turn_have_a_table(copy):
    row = {"groups": ["9→4"], "verdict": "repaired", "reason": "good", "fixed": 3, "n": 5, "removed": 9}
    row |= {"learned": True, "p_value": 0.01}
    page = changed(copy, rounds=[row, row | {"groups": ["1→7"]}])
    table = page.table(page.section("curve"), "one after the other")
    assert [r[0] for r in table[1:]] == ["9→4", "1→7"]
    assert table[1][2] == "3 of 5"
    assert not page.all("line", class_="chosen")


# --- size and damage ---------------------------------------------------------------------------------------


def test_it_never_grows_beyond_5_megabytes(copy):
    import base64

    noise = np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8)
    heavy = "data:image/png;base64," + base64.b64encode(png(noise)).decode()
    looks = looks_of(copy)
    for name in ("train", "failures", "remaining"):
        looks[name] = {k: {**v, "image": heavy} for k, v in looks[name].items()}
    (copy / "looks.json").write_text(json.dumps(looks))
    text = report(copy)
    page = Page(text)
    assert len(heavy) * 6 * len(pd.read_csv(copy / "causes.csv")) > LARGEST
    assert LARGEST * 0.9 < len(text.encode()) <= LARGEST
    assert "do not fit into this report" in page.text(page.section("causes"))
    assert page.all("img", page.section("suspects"))
    assert page.all("img", page.section("changed"))


@pytest.mark.parametrize("name", ["run.toml", "metrics.json", "curve.csv", "causes.csv"])
def test_a_missing_file_is_named_in_one_line(copy, name):
    (copy / name).unlink()
    with pytest.raises(RunMismatch, match=re.escape(name)) as said:
        report(copy)
    assert str(said.value).count("; ") == 2
    assert "\n" not in str(said.value)


DAMAGE = {
    "run.toml": ["[run", "name = 1", "\xff"],
    "metrics.json": ["{", "[]", "{}", '{"verdict": 3}'],
    "curve.csv": ["", "by,removed\ncauses,many\n", "a,b\n1,2\n"],
    "causes.csv": ["", "index,score\nx,y\n", 'index,score,given\n"1,2'],
    "looks.json": ["{", "[]", '{"train": 3}', '{"train": {"1": {"image": "http://far.away/x.png"}}}'],
}


@pytest.mark.parametrize(("name", "text"), [(k, t) for k, texts in DAMAGE.items() for t in texts])
def test_a_damaged_file_is_said_in_one_line(copy, name, text):
    (copy / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(RunMismatch) as said:
        report(copy)
    assert str(said.value).count("; ") == 2, said.value
    assert "\n" not in str(said.value)


def test_numbers_of_another_kind_deep_inside_are_a_mismatch_too(copy):
    with pytest.raises(RunMismatch, match="do not fit together"):
        changed(copy, groups={"9→4": {"n": "many"}})


def test_no_folder_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="no such run folder"):
        report(tmp_path / "nowhere")


def test_a_run_without_looks_is_told_in_words(copy, result):
    (copy / "looks.json").unlink()
    page = Page(report(copy))
    assert not page.all("img")
    assert len(page.all("article")) == min(60, len(result.causes))
    assert "failures[" in page.text(page.all("article")[0])


# --- in a notebook, and markup -----------------------------------------------------------------------------


def test_results_show_themselves_in_a_notebook(result, of_texts):
    html = result._repr_html_()
    page = Page(html)
    text = page.text(page.root)
    assert result.metrics["verdict"].capitalize() in text
    assert result.metrics["reason"][1:] in text
    assert len(page.all("figure")) == 2
    assert len(page.all("article")) == 6
    assert page.all("img", page.all("article")[0])
    assert not [n for n in page.all() if "id" in n[1]]
    assert len(html) < 300_000
    assert "<script" not in of_texts[0]._repr_html_()
    found = Page(result.influence._repr_html_())
    assert len(found.all("article")) == 6
    assert found.all("img")


def test_whatever_is_not_markup_is_escaped():
    assert tag("p", "<b>", Html("<i>x</i>"), title='"&') == '<p title="&quot;&amp;">&lt;b&gt;<i>x</i></p>'
    assert tag("th", None, class_=None, hidden=True, aria_label="a") == '<th hidden aria-label="a"></th>'


@pytest.mark.parametrize(("value", "text"), [(0.0004, "<0.001"), (0.9999, ">0.999"), (1.0, "1.000"), (None, "–")])
def test_probabilities_are_never_rounded_to_certainty(value, text):
    assert probability(value) == text
