"""amends.toml: every key checked before anything is loaded, and a first one that can be read back."""

from __future__ import annotations

import tomllib

import pytest

from amends.config import TABLES, as_config, read_config
from amends.config.first import SHOWN, first_text, look_at, write_first
from amends.config.read import requirements, unmet
from amends.errors import BadInput

LEAST = {"model": {"function": "m:f"}, "train": {"path": "t"}, "evaluation": {"path": "e"}}


def config(tmp_path, **tables):
    return as_config({**LEAST, **tables}, tmp_path, "amends.toml")


def test_keys_of_data_hold_for_every_set_that_has_none_of_its_own(tmp_path):
    made = config(tmp_path, data={"format": "csv", "label": "y"}, train={"path": "t", "label": "intent"},
                  keep={"night": {"path": "n"}})  # fmt: skip
    assert made.set("train") == {"format": "csv", "label": "intent", "path": "t"}
    assert made.set("evaluation") == {"format": "csv", "label": "y", "path": "e"}
    assert made.set("keep.night") == {"format": "csv", "label": "y", "path": "n"}
    assert made.keep == ["night"]


def test_options_win_over_the_file_and_top_puts_fraction_aside(tmp_path):
    made = config(tmp_path, repair={"seed": 3, "fraction": 0.1, "method": "ewc"})
    both = made.with_options(seed=7, top=20, method=None)
    assert (both.repair("seed"), both.repair("top"), both.repair("fraction")) == (7, 20, None)
    assert both.repair("method") == "ewc"
    assert made.repair("seed") == 3
    assert made.repair("holdout") == 0.5


def test_options_are_checked_like_the_file(tmp_path):
    with pytest.raises(BadInput, match=r"method is 'ewk'.*did you mean ewc"):
        config(tmp_path).with_options(method="ewk")


def test_a_run_can_be_made_again_from_its_run_toml(tmp_path):
    (tmp_path / "run.toml").write_text(
        f'[run]\nfolder = "{tmp_path.as_posix()}/where"\n[config.model]\nfunction = "m:f"\n[config.train]\npath = "t"\n'
        '[config.evaluation]\npath = "e"\n'
    )
    made = read_config(tmp_path / "run.toml")
    assert made.folder == tmp_path / "where"
    assert made.path("train", "path") == tmp_path / "where" / "t"


def test_the_first_config_shows_every_key_and_is_valid_with_all_of_them():
    text = first_text({})
    shown = {line.removeprefix("# ").partition(" = ")[0] for line in text.splitlines() if " = " in line}
    assert shown == {key for keys in TABLES.values() for key in keys}
    assert set(SHOWN) == shown
    live = "\n".join(
        line.removeprefix("# ") if line.removeprefix("# ").startswith(("[", *(f"{k} =" for k in SHOWN))) else "#"
        for line in text.splitlines()
    )
    tables = tomllib.loads(live)
    tables["repair"].pop("fraction")
    tables["model"].pop("huggingface")
    for key in ("ids", "indices"):
        tables["failures"].pop(key)
    as_config(tables, None, "amends.toml")


def test_every_example_value_is_one_its_key_takes():
    for keys in TABLES.values():
        for key, rule in keys.items():
            value = tomllib.loads(f"v = {SHOWN[key]}")["v"]
            assert isinstance(value, (*rule.kinds, *([int] if float in rule.kinds else []))), key
            assert not rule.choices or value in rule.choices, key


def test_a_first_config_from_a_table(tmp_path):
    (tmp_path / "reviews.csv").write_text("id,text,stars,label\n1,good,5,pos\n")
    filled = write_first(tmp_path / "amends.toml", tmp_path / "reviews.csv")
    assert filled["data"] == {"format": "csv", "label": "label", "id": "id", "text": "text"}
    made = tomllib.loads((tmp_path / "amends.toml").read_text())
    assert made["train"] == {"path": "reviews.csv"}
    assert made["data"] == filled["data"]


def test_a_first_config_from_numbers_names_the_features(tmp_path):
    (tmp_path / "t.csv").write_text("age,income,name,target\n1,2.5,ann,0\n")
    assert look_at(tmp_path / "t.csv", tmp_path)["data"]["features"] == ["age", "income"]


def test_a_first_config_from_images_finds_both_parts_and_the_classes(tmp_path):
    for part in ("train", "test"):
        for name in ("dog", "cat"):
            (tmp_path / "pets" / part / name).mkdir(parents=True)
            (tmp_path / "pets" / part / name / "1.png").touch()
    filled = look_at(tmp_path / "pets", tmp_path)
    assert filled["train"] == {"path": "pets/train"}
    assert filled["evaluation"] == {"path": "pets/test"}
    assert filled["data"] == {"format": "images", "classes": ["cat", "dog"]}


def test_a_first_config_from_hugging_face_directories(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert look_at(tmp_path / "model", tmp_path) == {"model": {"huggingface": "model"}}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    assert look_at(tmp_path / "data", tmp_path)["evaluation"]["split"] == "validation"


def test_a_config_that_exists_is_left_alone(tmp_path):
    (tmp_path / "amends.toml").write_text("mine")
    with pytest.raises(BadInput, match="the file already exists"):
        write_first(tmp_path / "amends.toml", None)
    assert (tmp_path / "amends.toml").read_text() == "mine"


def test_requirements():
    assert requirements("holdout>=0.5, remaining >= 0.98") == [("holdout", 0.5), ("remaining", 0.98)]
    measured = {"holdout": {"after": 0.4}, "remaining": None}
    assert unmet("holdout>=0.5,remaining>=0.9", measured) == [
        "holdout is 0.400, required 0.5", "remaining is not measured, required 0.9",
    ]  # fmt: skip
    assert unmet("holdout>=0.4", measured) == []
    assert unmet(None, measured) == []


@pytest.mark.parametrize("text", ["holdout>0.5", "holdout>=", "holdout>=2", "holdout>=nan", ""])
def test_requirements_that_cannot_be_read(text):
    with pytest.raises(BadInput, match="cannot read"):
        requirements(text)


@pytest.mark.parametrize(("modes", "gray"), [("LL", True), ("LR", False), ("RR", False)])
def test_pictures_with_one_channel_are_read_with_one(modes, gray, tmp_path):
    from PIL import Image

    for i, mode in enumerate(modes):
        (tmp_path / "photos" / f"class-{i}").mkdir(parents=True)
        Image.new({"L": "L", "R": "RGB"}[mode], (4, 4)).save(tmp_path / "photos" / f"class-{i}" / "a.png")
    assert look_at(tmp_path / "photos", tmp_path)["data"].get("gray", False) is gray
    (tmp_path / "photos/class-0/a.png").write_bytes(b"no picture")
    assert "gray" not in look_at(tmp_path / "photos", tmp_path)["data"]
