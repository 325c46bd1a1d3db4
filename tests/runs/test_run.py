"""One reader of run folders: what it gives, and what it says of a folder it cannot read."""

from __future__ import annotations

import json
import math

import pytest

from amends.errors import BadInput, RunMismatch
from amends.runs.run import FORMAT, Run, runs_in
from tests import reported
from tests.projects import amends


def test_words_stay_as_the_file_has_them_for_a_person_to_look_at(folder):
    """A class called NA or 007 is not a number, nor missing."""
    rows, total = Run.open(folder).first_causes(10)
    assert total == 1  # the other one was not removed
    (row,) = rows
    assert (row["given"], row["suggested"], row["note"]) == ("007", "NA", "first")
    assert (row["index"], row["score"], row["conflicts_with"]) == (2, 3.5, [4, 0])


def test_where_nothing_was_removed_all_of_them_are_shown_and_the_first_alone_are_kept(folder):
    path = folder / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"removed": 0}))
    rows, total = Run.open(folder).first_causes(1)
    assert ([row["index"] for row in rows], total) == ([2], 2)
    rows, _ = Run.open(folder).first_causes(10)
    assert math.isnan(rows[1]["p_given_after"])


def test_the_table_for_programs_has_numbers_and_decisions(folder):
    frame = Run.open(folder).causes()
    assert frame["index"].tolist() == frame["id"].tolist() == [2, 0]
    assert frame["decision"].tolist() == ["remove", ""]


def test_a_table_that_a_spreadsheet_has_saved_again(folder):
    """Semicolons, commas in numbers, a mark at the start, a capital, and a score turned into a date."""
    text = (folder / "causes.csv").read_text().replace(",", ";").replace("[4; 0]", "[4, 0]")
    text = text.replace("0.25", "0,25").replace("3.5", "03. May").replace("remove", "Remove ")
    (folder / "causes.csv").write_text(text, encoding="utf-8-sig")
    for frame in (Run.open(folder).causes(), Run.open(folder).first_causes(10)[0]):
        first = frame[0] if isinstance(frame, list) else frame.iloc[0]
        assert first["p_given"] == 0.25
        assert math.isnan(first["score"])
        assert first["decision"] == "remove"
    assert Run.open(folder).first_causes(10)[0][0]["conflicts_with"] == [4, 0]


def test_the_curve_counts_in_whole_numbers_and_what_was_not_measured_is_none(folder):
    nothing, causes = Run.open(folder).curve
    assert nothing == {"by": "nothing", "removed": 0, "holdout": 0.25, "holdout_low": 0.2, "remaining": None,
                       "refits": 3}  # fmt: skip
    assert [type(causes[k]) for k in ("removed", "refits", "holdout")] == [int, int, float]


def test_a_search_has_no_metrics_and_a_curve_once_one_is_made(folder):
    path = folder / "run.toml"
    path.write_text(path.read_text().replace('"done"', '"identified"'))
    assert len(Run.open(folder).curve) == 2
    (folder / "curve.csv").unlink()
    run = Run.open(folder)
    assert (run.curve, run.members, run.looks) == ([], [], {"kind": "none"})
    with pytest.raises(BadInput, match="nothing is repaired yet"):
        _ = run.metrics
    (folder / "identified").mkdir()
    (folder / "identified/members.json").write_text('[{"name": "si"}]')
    assert [row["name"] for row in run.members] == ["si"]


def test_the_members_of_a_repair_are_those_of_its_metrics(folder):
    assert Run.open(folder).members == [{"name": "ewc", "weight": 1.0}]


def test_what_was_kept_is_read_word_for_word(folder):
    kept = Run.open(folder).dataset("kept")
    assert kept["index"].tolist() == [0, 1]
    assert kept["given"].tolist() == ["NA", "007"]


def reading(attribute, *given):
    def read(run):
        value = getattr(run, attribute)
        return value(*given) if callable(value) else value

    return read


DAMAGE = {
    "an index that is a word": ("causes.csv", ("\n2,2,", "\n2,two,"), "index is 'two'; {path} line 2"),
    "an index that is a fraction": ("causes.csv", ("\n0,0,", "\n0,0.5,"), "index is '0.5'; {path} line 3"),
    "a row of nothing": ("causes.csv", (",,\n", ",,\n,,,,,,,,,,,,,\n"), "index is 'nan'; {path} line 4"),
    "no decisions": ("causes.csv", ("decision", "verdict"), "column decision is missing; {path}"),
    "a size that is a word": ("curve.csv", ("nothing,0", "nothing,none"), "removed is 'none'; {path} line 2"),
    "a share that is a word": ("curve.csv", ("0.25,", "a quarter,"), "column holdout holds something that is not"),
    "a verdict that is a number": ("metrics.json", ('"repaired"', "3"), "verdict is missing or is not a str; {path}"),
    "a share without its size": ("metrics.json", ('"n": 4', '"m": 4'), "query lacks before, after or n; {path}"),
    "half a document": ("metrics.json", ('"verdict"', '"verdict'), "metrics.json is damaged"),
    "another state": ("run.toml", ('"done"', '"begun"'), "state is 'begun', not 'identified' or 'done'; {path}"),
    "no table of the run": ("run.toml", ("[run]\n", ""), "there is no table [run]; {path}"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_damaged_is_named_with_its_place(name, folder):
    file, (old, new), said = DAMAGE[name]
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    read = {"causes.csv": reading("causes"), "curve.csv": reading("curve")}.get(file, reading("metrics"))
    with pytest.raises(RunMismatch) as e:
        read(Run.open(folder))
    assert said.format(path=path) in str(e.value)
    assert str(e.value).count("; ") == 2
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("cell", ["[4, 0", "[4, x]", "4", '["a"]'])
def test_a_list_that_is_none_is_named_with_its_line(cell, folder):
    path = folder / "causes.csv"
    quoted = cell.replace('"', '""')
    path.write_text(path.read_text().replace("[4, 0]", quoted))
    with pytest.raises(RunMismatch, match=r"conflicts_with is .* line 2; put the list back"):
        Run.open(folder).first_causes(10)


def test_one_run_that_cannot_be_read_does_not_hide_the_others(folder):
    (folder.parent / "second").mkdir()
    (folder.parent / "second/run.toml").write_text("[run")
    runs, damaged = runs_in(folder.parent)
    assert [run.name for run in runs] == ["first"]
    (line,) = damaged
    assert line.startswith("run.toml is damaged")


# --- the format of the folder ------------------------------------------------------------------------------

OTHER = {
    "": "was made by an earlier amends (format 1, this one reads 3)",
    "format = 2\n": "was made by an earlier amends (format 2, this one reads 3)",
    "format = 4\n": "was made by a later amends (format 4, this one reads 3)",
}


@pytest.fixture(params=OTHER)
def other(request, folder):
    """A run folder of another format, and what is said of it."""
    path = folder / "run.toml"
    path.write_text(path.read_text().replace("format = 3\n", request.param))
    return folder, f"{folder} {OTHER[request.param]}; make the run again"


VERBS = [["runs", "show"], ["runs", "rm", "--yes"], ["report"], ["treat"], ["curve"], ["export", "--to", "csv"]]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_folder_of_another_format_is_refused(verb, other, capsys):
    folder, said = other
    before = sorted(folder.rglob("*"))
    assert amends(*verb, folder) == 3
    told = capsys.readouterr()
    assert told.err == f"error: {said}\n"
    assert told.out == ""
    assert sorted(folder.rglob("*")) == before


def test_a_list_of_runs_names_it_and_goes_on(other, capsys):
    folder, said = other
    readable = folder.parent / "second"
    readable.mkdir()
    (readable / "run.toml").write_text('[run]\nformat = 3\nstate = "identified"\n')
    assert amends("runs", "ls", folder.parent, "--json") == 0
    told = capsys.readouterr()
    assert [row["run"] for row in json.loads(told.out)] == [str(readable)]
    assert told.err == f"warning: {said}\n"


def test_a_run_that_is_saved_has_the_format_that_is_read(tmp_path):
    folder = reported.saved(reported.texts(), tmp_path / "run")
    assert Run.open(folder).about["run"]["format"] == FORMAT
