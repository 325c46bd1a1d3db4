"""The documentation is true: every block of it runs, and nothing that exists is missing from the reference.

Pages run in a quick form, with fewer steps of each edit and each fit; what they show of numbers is "for example".
"""

from __future__ import annotations

import csv
import importlib
import inspect
import re
import tomllib
from statistics import fmean

import pytest

import amends
from tests.pages import DOCS, ROOT, Reader, blocks

PAGES = sorted(p for p in DOCS.rglob("*.md") if blocks(p))
ROOMS = ("callbacks", "data", "models", "likelihoods", "methods", "curvature", "export", "errors", "trace")


@pytest.fixture
def quick(monkeypatch):
    """The default with less work."""
    from amends.editors import climb
    from amends.methods.library import default, fine_tune
    from amends.settings import Curve, Forgetting, Settings

    less = Settings(forgetting=Forgetting(epochs=2.0), curve=Curve(shares=(0.1, 0.2), short=1.0, refits=1))
    monkeypatch.setattr(default.Default, "settings_for", lambda self, large: less)
    monkeypatch.setattr(default, "LBFGS", lambda steps: climb.LBFGS(steps=5))
    monkeypatch.setattr(fine_tune, "Adam", lambda epochs, **more: climb.Adam(epochs=min(epochs, 2), **more))


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")  # Lightning's advice
@pytest.mark.filterwarnings("ignore:.*isinstance.*LeafSpec.*:FutureWarning")  # of Lightning's own use of torch
@pytest.mark.parametrize("page", PAGES, ids=[p.relative_to(DOCS).as_posix() for p in PAGES])
def test_every_block_of_a_page_runs(page, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Reader().read(page, monkeypatch)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def sections(text: str, level: str = "##") -> dict[str, str]:
    """What stands below each heading, by its words."""
    parts = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip((h.strip().replace("\\", "") for h in parts[::2]), parts[1::2], strict=True))


def first_cells(text: str) -> list[str]:
    """The code in the first column of all tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


def commands() -> dict:
    import click

    from amends.cli.app import COMMANDS, cli

    found = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        found[f"amends {name}"] = command
        for inner, below in getattr(command, "commands", {}).items():
            found[f"amends {name} {inner}"] = below
    return found


def test_every_command_and_option_is_in_the_reference_and_no_other():
    written = {k: v for k, v in sections(page("reference/cli.md")).items() if k.startswith("amends ")}
    there = commands()
    assert set(written) == set(there)
    for name, command in there.items():
        options = {
            o
            for p in command.params
            if p.param_type_name == "option" and not p.hidden
            for o in (*p.opts, *p.secondary_opts)
        }
        assert {c for c in first_cells(written[name]) if c.startswith("-")} == options, name


def test_every_exit_code_method_and_kind_of_export_is_in_the_reference():
    from amends.cli.app import EXIT
    from amends.cli.export import KINDS
    from amends.config.keys import IDENTIFY, SOLVERS, TREAT

    parts = sections(page("reference/cli.md"))
    codes = {0, 1, 7, 70, 130, 141, 143} | {code for _, code in EXIT}
    assert {int(c) for c in first_cells(parts["Exit codes"])} == codes
    assert set(re.findall(r"^\| (\d+)(?:, \d+)? \|", page("how-to/ci.md"), re.M)) <= set(map(str, codes))
    named = dict(re.findall(r"^For `--(\w+)`: (.+)\.$", parts["Names of methods"], re.M))
    for option, known in (("method", IDENTIFY), ("treat", TREAT), ("solver", SOLVERS)):
        assert re.findall(r"`(\w+)`", named[option]) == list(known)
    assert {c for c in first_cells(parts["amends export"]) if not c.startswith("-")} == set(KINDS)


def test_every_table_and_key_of_a_config_is_in_the_reference_and_no_other():
    from amends.config.keys import SHARED, TABLES

    written = {k.strip("[]").removesuffix(".NAME"): v for k, v in sections(page("reference/config.md")).items()}
    assert set(written) == set(TABLES)
    for name, keys in TABLES.items():
        own = set(keys) if name == "data" or not set(SHARED) <= set(keys) else set(keys) - set(SHARED)
        assert set(first_cells(written[name])) == own, name
        for key in own:
            row = next(line for line in written[name].splitlines() if line.startswith(f"| `{key}` |"))
            shown = () if "#names-of-methods" in row else keys[key].choices
            assert all(f"`{choice}`" in row for choice in shown), f"{name}.{key}"
            assert keys[key].default is None or f"`{keys[key].default}`" in row, f"{name}.{key}"


def documented() -> dict[str, dict[str, str]]:
    """By room the names in the Python reference, each with the signature written there."""
    found = {}
    for room, text in sections(page("reference/api.md")).items():
        own = {}
        for heading, below in sections(text, "###").items():
            if heading.startswith(f"{room}."):
                signature = re.match(r"\s*`([^`]+)`", below)
                own[heading.removeprefix(f"{room}.")] = signature[1] if signature else ""
        tables = re.sub(r"^\| (attribute|argument) \|.*?\n\n", "", text + "\n\n", flags=re.MULTILINE | re.DOTALL)
        own |= {re.match(r"\w+", cell)[0]: cell for cell in first_cells(tables)}
        found[room.removeprefix("amends").lstrip(".")] = own
    return found


def exported(room: str) -> dict:
    module = importlib.import_module(f"amends.{room}") if room else amends
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
    return {n: getattr(module, n) for n in names if not inspect.ismodule(getattr(module, n))}


def test_every_public_name_is_in_the_reference_and_no_other():
    written = documented()
    assert set(written) == {"", *ROOMS}
    assert {n for n in amends.__all__ if inspect.ismodule(getattr(amends, n))} == set(ROOMS)
    for room in ("", *ROOMS):
        assert set(written[room]) == set(exported(room)), room or "amends"


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_signatures_are_those_of_the_code(room):
    for name, written in documented()[room].items():
        if "(" not in written:
            continue
        given = inspect.signature(exported(room)[name]).parameters.values()
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        inside = written[written.index("(") + 1 : written.rindex(")")]
        inside = re.sub(r"\([^()]*\)", "", inside)
        asked = [part.split("=")[0].strip() for part in inside.split(",")]
        expected = [stars.get(p.kind, "") + p.name for p in given]
        assert [a for a in asked if a not in ("*", "")] == expected, f"{room}.{name}"
        by_name = [p.name for p in given if p.kind is inspect.Parameter.KEYWORD_ONLY]
        assert not by_name or asked[asked.index("*") + 1] == by_name[0], f"{room}.{name}"
        for p in given:
            if isinstance(p.default, str | int | float | bool | None) and not isinstance(p.default, type(p.empty)):
                assert f"{p.name}={p.default!r}" in written, f"{room}.{name}: {p.name}"


@pytest.mark.parametrize("name", ["Influence", "Repair", "data.Records"])
def test_attributes_of_results_are_those_of_the_code(name):
    room, _, leaf = name.rpartition(".")
    heading = f"amends.{name}"
    text = sections(sections(page("reference/api.md"))[f"amends.{room}" if room else "amends"], "###")[heading]
    kind = exported(room)[leaf]
    there = {n for n in {*vars(kind), *kind.__dataclass_fields__} if not n.startswith("_")}
    assert {re.match(r"\w+", cell)[0] for cell in first_cells(text)} == there


def test_the_arguments_of_repair_are_explained():
    text = sections(sections(page("reference/api.md"))["amends"], "###")["amends.repair"]
    assert first_cells(text) == list(inspect.signature(amends.repair).parameters)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A whole run, in a quick form."""
    from tests.projects import amends as command
    from tests.projects import digits_project

    folder = tmp_path_factory.mktemp("project")
    config = digits_project(folder)
    assert command("repair", config, "-o", folder / "run", "--top", 30, "-q") == 0
    return folder / "run"


def test_every_file_of_a_run_is_in_the_reference_and_no_other(run):
    written = set(first_cells(sections(page("reference/run-folder.md"))["Files"]))
    there = {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()}
    assert written == there


def test_every_column_and_key_of_a_run_is_in_the_reference_and_no_other(run):
    import json

    import numpy as np
    import pandas as pd

    from amends.tables.columns import COLUMNS

    parts = sections(page("reference/run-folder.md"))
    assert first_cells(parts["causes.csv and causes.parquet"]) == COLUMNS
    assert pd.read_csv(run / "causes.csv").columns.tolist()[: len(COLUMNS)] == COLUMNS
    assert first_cells(parts["curve.csv"]) == pd.read_csv(run / "curve.csv").columns.tolist()
    assert set(first_cells(parts["metrics.json"])) == set(json.loads((run / "metrics.json").read_text()))
    about = tomllib.loads((run / "run.toml").read_text())
    told = re.findall(r"^\| `\[(\w+)\]` \| (.*) \|$", parts["run.toml"], re.M)
    assert {name for name, _ in told} == set(about)
    assert set(re.findall(r"`(\w+)`", dict(told)["run"])) - {"identified", "done"} == set(about["run"])
    assert set(re.findall(r"`(\w+)`", dict(told)["model"])) == set(about["model"])
    assert set(re.findall(r"`(\w+)`", dict(told)["data"])) == set(about["data"]["train"])
    arrays = next(line for line in parts["Files"].splitlines() if "scores.npz" in line).split("|")[2]
    assert re.findall(r"`(\w+)`", arrays) == np.load(run / "identified/scores.npz").files
    members = json.loads((run / "identified/members.json").read_text())
    row = next(line for line in parts["Files"].splitlines() if "members.json" in line).split("|")[2]
    assert re.findall(r"`(\w+)`", row) == list(members[0])


# --- words and numbers that stand in several places -----------------------------------------------


def test_nobody_is_called_mislabelled():
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]:
        assert "mislabel" not in path.read_text(encoding="utf-8").lower(), path


def test_the_version_is_one():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {amends.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert stated == amends.__version__
    assert f"## {amends.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_figures_of_the_limits_are_those_of_the_results():
    """The summary of the results, and what the page on limits says of it."""
    rows = summary()[0]
    default, best = ({name: cells[i][1:5] for name, cells in rows.items()} for i in (0, 1))
    said = page("limits.md")
    assert f"CIFAR-10 ({default['CIFAR']}; the next best {best['CIFAR']})" in said
    assert f"the default {default['Reviews']}, the best other row {best['Reviews']}" in said
    assert f"a mean of {best['Fashion, marked']}, the default {default['Fashion, marked']}" in said
    assert f"({default['D, random']} and {default['Census, random']} in two settings" in said


def summary():
    """Both tables at the end of the results, by their first column."""
    parts = sections(page("results/quality.md"))["Summary"].split("\n\n")
    return [
        {name: cells for name, *cells in (line.strip("| ").split(" | ") for line in part.splitlines()[2:])}
        for part in parts
        if part.startswith("|")
    ]


def test_what_the_default_misses_is_said():
    """The table of what is asked follows from average precision and from the rows of the repairs, and each bold figure
    of it is told in words."""
    found, above = summary()
    with (DOCS / "results/default/repaired.csv").open(encoding="utf8", newline="") as file:
        made = list(csv.DictReader(file))

    def mean(setting, *names):
        return [fmean(float(row[name]) for row in made if row["setting"] == setting) for name in names]

    for setting, cells in above.items():
        default, best, *peers = (float(c.split(" ")[0]) for c in found[setting] if c != "-")
        margins = [default - best + 0.03, default - fmean(peers) - 0.05]
        if setting != "CIFAR":
            repaired, clean, nothing = mean(setting, "repaired", "without_wrong", "nothing")
            assert f"{default:.3f}" == f"{mean(setting, 'precision')[0]:.3f}"
            margins += [repaired - clean + (0.01 if default >= 0.6 else 0.03), repaired - nothing]
        assert [float(c.strip("*")) for c in cells if c != "-"] == pytest.approx(margins, abs=6e-4), setting
        assert all(c.startswith("**-") or c[0] in "+-" for c in cells), setting
        assert not any(c.startswith("-0") for c in cells), setting
    missed = {setting for setting, cells in above.items() if any("**" in c for c in cells)}
    lines = sections(page("results/quality.md"))["What this says"].splitlines()
    told = [line for line in lines if "t misses the bar" in line]
    assert all(any(setting in line for line in told) for setting in missed)
    assert len(re.findall("t misses the bar", "".join(told))) == len(missed)


def test_make_has_the_targets_that_are_named():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for name in re.findall(r"^make (\w+)", path.read_text(encoding="utf-8"), re.M):
            assert name in targets, f"{path.name}: make {name}"
