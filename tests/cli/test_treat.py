"""`amends treat`: the second half, with a person's decisions or without."""

from __future__ import annotations

import json
import tomllib

import pandas as pd

from tests.projects import amends


def test_decisions_stay_and_only_what_was_approved_goes(identified):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ""
    table.loc[:24, "decision"] = "remove"
    table.loc[2, "decision"] = "keep"
    table["note"] = ["look again" if i == 5 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("treat", identified, "--approved", "-q", "--no-learn") == 0
    after = pd.read_csv(identified / "causes.csv", keep_default_na=False)
    assert after["decision"].tolist()[:25] == ["remove", "remove", "keep", *["remove"] * 22]
    assert set(after["decision"][25:]) == {""}
    assert after["note"][5] == "look again"
    picked = set(table["index"][:25]) - {table["index"][2]}
    metrics = json.loads((identified / "metrics.json").read_text())
    assert metrics["removed"] in (0, 24)
    assert {r["removed"] for r in metrics["curve"]} == {0, 24}
    if metrics["removed"]:
        assert set(pd.read_csv(identified / "dataset/removed.csv")["index"]) == picked
    assert "24 examples picked by a person" in tomllib.loads((identified / "run.toml").read_text())["run"]["rule"]


def test_decisions_as_a_spreadsheet_saves_them(identified, capsys):
    """With semicolons and commas in numbers, and a capital."""
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ["Remove " if i < 20 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    for verb in (["runs", "show"], ["report"]):
        assert amends(*verb, identified) == 0
    capsys.readouterr()
    assert amends("treat", identified, "--approved", "-q", "--json") == 0
    assert {r["removed"] for r in json.loads(capsys.readouterr().out)["curve"] if r["by"] == "causes"} == {20}


def test_decisions_that_are_not_followed_are_noted(identified, capsys):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ["keep" if i < 3 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("treat", identified, "--top", "20", "-q") == 0
    assert "note: 3 decisions are written in causes.csv and not followed; give --approved" in capsys.readouterr().err


def test_a_column_sorted_alone_is_seen(identified, capsys):
    """Ids stand beside other positions then, and nobody can say which of the two is meant."""
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["index"] = sorted(table["index"])
    table.loc[:9, "decision"] = "remove"
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("treat", identified, "--approved", "-q") == 2
    said = capsys.readouterr().err
    assert f"; {identified}/causes.csv line " in said
    assert "but its row says " in said
    assert "when you sort, sort whole rows" in said


def test_a_table_saved_in_another_encoding_is_the_users_and_no_damage(identified, capsys):
    text = (identified / "causes.csv").read_text()
    (identified / "causes.csv").write_text(text, encoding="utf-16")
    assert amends("treat", identified, "--approved", "-q") == 2
    assert f"the file is not text in UTF-8; {identified}/causes.csv; save it as CSV in UTF-8" in capsys.readouterr().err


def test_a_decision_nobody_knows_is_named_with_its_place(identified, capsys):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table.loc[3, "decision"] = "remov"
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("treat", identified, "--approved", "-q") == 2
    assert (
        f"decision is 'remov'; {identified}/causes.csv at index {table['index'][3]}; write" in capsys.readouterr().err
    )


def test_treat_by_count_by_share_and_by_ids(identified, tmp_path, capsys):
    (tmp_path / "ids.csv").write_text("index\n3\n4\n5\n")
    for args, count in ((["--top", 12], 12), (["--fraction", 0.05], 15), (["--ids", tmp_path / "ids.csv"], 3)):
        out = tmp_path / f"out{count}"
        assert amends("treat", identified, *args, "-o", out, "--json", "-q") == 0
        said = json.loads(capsys.readouterr().out)
        assert {r["removed"] for r in said["curve"] if r["by"] == "causes"} == {count}
        assert said["run"] == str(out)
    assert not (identified / "metrics.json").exists(), "with -o the search stays as it is"


def test_a_list_with_decisions_is_not_taken_for_a_list_to_remove(identified, tmp_path, capsys):
    (tmp_path / "ids.csv").write_text("index,decision\n3,keep\n4,remove\n")
    assert amends("treat", identified, "--ids", tmp_path / "ids.csv", "-o", tmp_path / "out", "-q") == 2
    assert (
        "error: the list has a column decision, and here every row of it would be chosen; " in capsys.readouterr().err
    )


def test_relabelled_causes_are_called_so(identified, tmp_path):
    assert amends("treat", identified, "--top", 40, "--relabel", "-q", "-o", tmp_path / "again") == 0
    told = json.loads((tmp_path / "again/metrics.json").read_text())
    assert told["removed"] == 40
    table = pd.read_csv(tmp_path / "again/causes.csv", keep_default_na=False)
    assert (table["decision"] == "relabel").sum() == 40
    moved = pd.read_csv(tmp_path / "again/dataset/relabelled.csv")
    assert sorted(moved["index"]) == sorted(table.loc[table["decision"] == "relabel", "index"])
    assert (moved["label"] != moved["given"]).mean() > 0.5
    assert len(pd.read_csv(tmp_path / "again/dataset/removed.csv")) == 0


def test_requirements_decide_the_exit_code(identified, tmp_path, capsys):
    met, missed = "holdout>=0.01,remaining>=0.5", "holdout>=0.999"
    assert amends("treat", identified, "--top", 45, "-o", tmp_path / "a", "--require", met, "-q") == 0
    assert amends("treat", identified, "--top", 45, "-o", tmp_path / "b", "--require", missed, "-q") == 1
    assert "not met: holdout is" in capsys.readouterr().err
    assert (tmp_path / "b/metrics.json").exists(), "done all the same"


def test_a_failure_whose_label_is_wrong_leaves_the_query(identified, capsys):
    failures = pd.read_csv(identified / "failures.csv", dtype=str, keep_default_na=False)
    query, holdout = (failures[failures["part"] == part]["index"].astype(int) for part in ("query", "holdout"))
    for wrong, said in (
        (str(holdout.iloc[0]), f"failure {holdout.iloc[0]} was not searched with"),
        (",".join(map(str, query)), "no failure would be left"), ("x", "'x' is not a list such as 3,17"),
        ("-1", "'-1' is not a list such as 3,17"),
    ):  # fmt: skip
        assert amends("treat", identified, "--top", 10, "--leave-out", wrong, "-q", "-o", identified / "out") == 2
        assert said in capsys.readouterr().err
        assert not (identified / "out").exists()
    gone = query.iloc[:2].tolist()
    assert amends("treat", identified, "--top", 10, "--leave-out", ",".join(map(str, gone)), "-q", "--no-learn") == 0
    assert json.loads((identified / "metrics.json").read_text())["query"]["n"] == len(query) - 2
    after = pd.read_csv(identified / "failures.csv", dtype=str, keep_default_na=False).set_index("index")["part"]
    assert [after[str(i)] for i in gone] == ["", ""]
