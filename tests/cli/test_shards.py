"""`amends identify --shard` and `amends merge`: several runs that know nothing of each other end as one."""

from __future__ import annotations

import json

import pytest

from tests.projects import amends

ASK = ("-q", "--method", "ewc", "--batch-size", 16, "--seed", 1)
FILES = ("causes.csv", "failures.csv", "looks.json", "identified/scores.npz", "identified/edited.safetensors")


@pytest.fixture(scope="module")
def parts(project):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        for i in range(3):
            assert amends("identify", "-o", f"runs/part-{i}", "--shard", f"{i}/3", *ASK) == 0
    return [project / f"runs/part-{i}" for i in range(3)]


def test_shards_merge_to_the_bytes_of_one_search(parts, project, tmp_path):
    assert amends("identify", "-o", tmp_path / "whole", *ASK) == 0
    assert amends("merge", *reversed(parts), "-o", tmp_path / "merged", "-q") == 0
    for name in FILES:
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert amends("treat", tmp_path / "merged", "--top", 20, "-q") == 0


def test_shards_of_the_default_merge_to_the_bytes_of_one_search(project, tmp_path, monkeypatch):
    """Members are tried in every shard, and in the end; what they count for is known then."""
    monkeypatch.chdir(project)
    ask = ("-q", "--budget", "quick", "--batch-size", 64)
    for i in range(2):
        assert amends("identify", "-o", tmp_path / f"part-{i}", "--shard", f"{i}/2", *ask) == 0
    assert amends("identify", "-o", tmp_path / "whole", *ask) == 0
    assert amends("merge", tmp_path / "part-0", tmp_path / "part-1", "-o", tmp_path / "merged", "-q") == 0
    found = sorted(path.name for path in (tmp_path / "whole/identified").iterdir())
    for name in (*FILES[:3], *(f"identified/{name}" for name in found)):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("identify", "--method", "loss", "--shard", "0/3"),
            "with this method the scores of a part depend on all of train; --shard; leave --method out, name one",
        ),
        (("identify", "--shard", "3/3"), "--shard is '3/3'; it must be i/n with i from 0 to n - 1; give 0/4, 1/4,"),
        (("identify", "--shard", "one"), "--shard is 'one'; it must be i/n"),
        (("merge", "runs/part-0", "runs/part-2"), "shard 1/3 is missing; runs/part-0; run amends identify --shard for"),
        (("merge", "runs/part-0", "runs/part-0"), "shard 0/3 is there twice; runs/part-0; give each once"),
        (("merge", "runs/none"), "no such run folder; runs/none; make it with amends identify --shard"),
    ],
)
def test_what_cannot_be_merged_is_named(parts, args, said, capsys, tmp_path):
    assert amends(*args, "-o", tmp_path / "out", "-q") == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")
    assert not (tmp_path / "out").exists()


def test_shards_of_another_search_or_that_were_damaged_are_refused(parts, capsys, tmp_path):
    assert amends("identify", "-o", tmp_path / "other", "--shard", "1/3", *ASK[:-1], 2) == 0
    assert amends("merge", parts[0], tmp_path / "other", parts[2], "-o", tmp_path / "out", "-q") == 3
    assert "but the run was begun with another config" in capsys.readouterr().err
    with (tmp_path / "other/shard.npz").open("ab") as file:
        file.write(b"x")
    assert amends("merge", tmp_path / "other", "-o", tmp_path / "out", "-q") == 3
    assert "shard.npz is not as it was written" in capsys.readouterr().err


def test_a_shard_is_listed_named_as_one_verified_and_removed(tmp_path, capsys):
    part = tmp_path / "part-0"
    assert amends("identify", "-o", part, "--shard", "0/2", *ASK) == 0
    capsys.readouterr()
    assert amends("runs", "ls", tmp_path, "--json") == 0
    listed = capsys.readouterr()
    assert [row["state"] for row in json.loads(listed.out)] == ["shard"]
    assert not listed.err
    assert amends("treat", part, "-q") == 2
    assert f"the run is one shard of a search; {part}; run amends merge" in capsys.readouterr().err
    assert amends("verify", part) == 0
    with (part / "shard.npz").open("ab") as file:
        file.write(b"x")
    assert amends("verify", part) == 3
    assert amends("runs", "rm", part, "--yes") == 0
    assert not part.exists()
