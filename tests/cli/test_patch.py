"""amends patch, apply and revert: a repair as a file beside the model, put on and taken off to the bit."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import amends as library
from amends.patches import refit
from tests.projects import amends


@pytest.fixture(scope="module")
def patches(repaired, tmp_path_factory):
    """The small patch of a repair and the exact one."""
    folder = tmp_path_factory.mktemp("patches")
    run = shutil.copytree(repaired, folder / "run")  # a run shows the patches that are made of it
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(repaired.parent.parent)
        inside.setattr(refit, "STEPS", 150)
        assert amends("patch", run, "-o", folder / "small.safetensors") == 0
        assert amends("patch", run, "-o", folder / "exact.safetensors", "--exact") == 0
    return folder


def said(capsys) -> str:
    """The one line of an error."""
    line = capsys.readouterr().err.strip().splitlines()
    assert len(line) == 1
    return line[0]


def test_the_exact_form_leads_to_the_repaired_weights(patches, repaired, tmp_path):
    assert amends("apply", patches / "exact.safetensors", "model.safetensors", "-o", tmp_path / "new.safetensors") == 0
    new, wanted = load_file(tmp_path / "new.safetensors"), load_file(repaired / "repaired/model.safetensors")
    assert all(torch.equal(new[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("form", ["small", "exact"])
def test_taken_off_again_it_is_the_same_file(patches, form, project, tmp_path):
    patch, before = patches / f"{form}.safetensors", (project / "model.safetensors").read_bytes()
    assert amends("apply", patch, "model.safetensors", "-o", tmp_path / "new.safetensors") == 0
    assert amends("revert", patch, tmp_path / "new.safetensors", "-o", tmp_path / "old.safetensors") == 0
    assert (tmp_path / "old.safetensors").read_bytes() == before == (project / "model.safetensors").read_bytes()
    assert (tmp_path / "new.safetensors").read_bytes() != before


def test_the_small_form_is_smaller_and_has_the_verdict(patches, repaired):
    small, exact = (library.Patch.read(patches / f"{form}.safetensors") for form in ("small", "exact"))
    metrics = json.loads((repaired / "metrics.json").read_text())
    assert metrics["verdict"] != "not repaired"
    assert small.size < exact.size
    assert not small.exact
    assert small.bases[0].judged["verdict"] == exact.bases[0].judged["verdict"] == metrics["verdict"]
    assert exact.bases[0].judged["overall"] == pytest.approx(metrics["overall"], abs=1e-4)
    assert abs(small.bases[0].judged["overall"]["after"] - metrics["overall"]["after"]) < 0.02
    assert len(small.about["removed"]) == metrics["removed"]
    assert small.about["recipe"]["config"]["model"]["function"] == "my_model:build"
    assert small.about["versions"]["torch"] == torch.__version__


def test_what_it_says_is_what_the_weights_do(patches, project):
    """Figures of a small patch are of the weights it leads to, not of those it came from."""
    import numpy as np

    patch = library.Patch.read(patches / "small.safetensors")
    model = library.models.load(function="my_model:build", weights="model.safetensors").model
    there = library.apply(model, patch)
    pool = np.load(project / "evaluation.npz")
    x, y = torch.tensor(pool["x"]), torch.tensor(pool["y"])
    with torch.no_grad():
        was, now = (m(x).argmax(1) == y for m in (model, there))
    share = patch.about["overall"]["before"]
    assert abs(float(was.double().mean()) - share) < 1e-6
    assert float(now.double().mean()) > share


def test_checkpoints_keep_everything_else(patches, tmp_path):
    state = load_file("model.safetensors")
    whole = {"state_dict": {f"module.{k}": v for k, v in state.items()}, "epoch": 3, "optimizer": {"lr": 0.1}}
    torch.save(whole, tmp_path / "last.ckpt")
    patch = patches / "exact.safetensors"
    assert amends("apply", patch, tmp_path / "last.ckpt", "-o", tmp_path / "new.ckpt") == 0
    assert amends("revert", patch, tmp_path / "new.ckpt", "-o", tmp_path / "old.ckpt") == 0
    new, old = (torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("new", "old"))
    assert new["epoch"] == 3
    assert new["optimizer"] == {"lr": 0.1}
    assert not torch.equal(new["state_dict"]["module.0.weight"], state["0.weight"])
    assert all(torch.equal(old["state_dict"][f"module.{k}"], v) for k, v in state.items())
    assert amends("apply", patch, tmp_path / "last.ckpt", "-o", tmp_path / "new.safetensors") == 0
    assert torch.equal(load_file(tmp_path / "new.safetensors")["module.0.weight"], new["state_dict"]["module.0.weight"])


def test_narrower_weights_come_back_as_they_were(tmp_path, patches):
    """A file in bfloat16 of a model that was repaired in float32: what moves is float32 while the patch is on."""
    from amends.patches.patch import between

    narrow = {"a": torch.randn(5, 4).bfloat16(), "b": torch.randn(3).bfloat16(), "n": torch.tensor(4)}
    wide = {k: v.float() if v.is_floating_point() else v for k, v in narrow.items()}
    patch = between(wide, {**wide, "a": wide["a"] + 0.001})
    patch = type(patch)(patch.layers, patch.bases, patch.tied, {"a": "bfloat16"})
    patch.save(tmp_path / "p.safetensors")
    save_file(narrow, tmp_path / "narrow.safetensors", metadata={"format": "pt"})
    assert (
        amends("apply", tmp_path / "p.safetensors", tmp_path / "narrow.safetensors", "-o", tmp_path / "new.safetensors")
        == 0
    )
    new = load_file(tmp_path / "new.safetensors")
    assert [new[k].dtype for k in "abn"] == [torch.float32, torch.bfloat16, torch.int64]
    assert torch.equal(new["a"], wide["a"] + 0.001)
    assert (
        amends("revert", tmp_path / "p.safetensors", tmp_path / "new.safetensors", "-o", tmp_path / "old.safetensors")
        == 0
    )
    old = load_file(tmp_path / "old.safetensors")
    assert all(torch.equal(old[k], v) and old[k].dtype == v.dtype for k, v in narrow.items())


@pytest.mark.parametrize(
    ("order", "wants"),
    [
        (
            "apply small new",
            "the patch is applied to these weights already; weights .*new.safetensors; revert it first",
        ),
        (
            "revert small model",
            "the patch is not applied to these weights; weights .*model.safetensors; there is nothing",
        ),
        (
            "apply small other",
            r"the patch is for other weights: 2\.bias differs; weights .*other.safetensors; give the",
        ),
        ("apply small foreign", "the patch is of another model, without 0.bias, .* and with w; weights .*foreign"),
        ("apply small pickle", "the safetensors file is damaged .*; weights .*pickle.safetensors; copy it again"),
        ("apply small none", "no such file; weights .*none.safetensors; check the path"),
        ("apply model small", "this is no patch; patch .*model.safetensors; give a file that amends patch wrote"),
        ("apply cut model", "the patch is damaged .*; patch .*cut.safetensors; copy it again"),
        ("apply pickle model", "the patch is damaged .*; patch .*pickle.safetensors; copy it again"),
        ("apply empty model", "there are no weights in this folder|no such file"),
    ],
)
def test_bad_input_is_one_line(order, wants, patches, tmp_path, capsys):
    import re

    state = load_file("model.safetensors")
    shutil.copy("model.safetensors", tmp_path / "model.safetensors")
    shutil.copy(patches / "small.safetensors", tmp_path / "small.safetensors")
    save_file({**state, "2.bias": state["2.bias"] + 1}, tmp_path / "other.safetensors")
    save_file({"w": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    torch.save(state, tmp_path / "pickle.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "small.safetensors").read_bytes()[:-50])
    if "new" in order:
        assert (
            amends("apply", tmp_path / "small.safetensors", "model.safetensors", "-o", tmp_path / "new.safetensors")
            == 0
        )
    capsys.readouterr()
    verb, *names = order.split()
    before = sorted(tmp_path.iterdir())
    assert amends(verb, *(tmp_path / f"{name}.safetensors" for name in names), "-o", tmp_path / "out.safetensors") == 2
    assert re.search(wants, said(capsys))
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_is_overwritten(patches, repaired, tmp_path, capsys):
    (tmp_path / "mine").write_text("mine")
    for order in (("patch", repaired), ("apply", patches / "small.safetensors", "model.safetensors")):
        assert amends(*order, "-o", tmp_path / "mine") == 2
        assert f"the target exists; {tmp_path / 'mine'}; choose another with -o" in said(capsys)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_run_that_repaired_nothing_has_no_patch(repaired, tmp_path, capsys):
    from amends.runs.manifest import seal

    refused = shutil.copytree(repaired, tmp_path / "refused")
    metrics = json.loads((refused / "metrics.json").read_text())
    (refused / "metrics.json").write_text(json.dumps({**metrics, "verdict": "not repaired", "removed": 0}))
    seal(refused)
    assert amends("patch", refused, "-o", tmp_path / "fix.safetensors") == 2
    assert "there is no patch, since nothing was repaired; " in said(capsys)
    assert not (tmp_path / "fix.safetensors").exists()


def test_a_run_made_in_python_is_asked_for_its_weights(repaired, tmp_path, capsys):
    import tomllib

    import tomli_w

    from amends.runs.manifest import seal

    run = shutil.copytree(repaired, tmp_path / "run")
    about = tomllib.loads((run / "run.toml").read_text())
    del about["config"]
    (run / "run.toml").write_text(tomli_w.dumps(about))
    seal(run)
    assert amends("patch", run, "-o", tmp_path / "fix.safetensors") == 2
    assert "made in Python, so nothing says where the model is" in said(capsys)
    assert amends("patch", run, "-o", tmp_path / "fix.safetensors", "--weights", "model.safetensors", "--json") == 0
    assert json.loads(capsys.readouterr().out)["exact"]
    assert amends("apply", tmp_path / "fix.safetensors", "model.safetensors", "-o", tmp_path / "new.safetensors") == 0
    new, wanted = load_file(tmp_path / "new.safetensors"), load_file(run / "repaired/model.safetensors")
    assert all(torch.equal(new[name], wanted[name]) for name in wanted)
    capsys.readouterr()
    save_file({k: v + 1 for k, v in new.items()}, tmp_path / "other.safetensors")
    assert amends("patch", run, "-o", tmp_path / "f.safetensors", "--weights", tmp_path / "other.safetensors") == 3
    assert "the weights are not what this run was made with" in said(capsys)


@pytest.mark.parametrize("stored", ["both names", "one name"])
def test_tied_weights_of_a_run_made_in_python(stored, repaired, tmp_path):
    """A file of weights has both names of a tensor, or one of them; the patch is the same."""
    import tomllib

    import tomli_w
    from safetensors.torch import save_model

    from amends.data.hashes import weights_hash
    from amends.runs.manifest import seal
    from tests.patches.kinds import Tied, moved, same

    torch.manual_seed(0)
    model = Tied()
    run = shutil.copytree(repaired, tmp_path / "run")
    about = tomllib.loads((run / "run.toml").read_text())
    del about["config"]
    about["model"]["sha256"] = weights_hash(model.state_dict())
    (run / "run.toml").write_text(tomli_w.dumps(about))
    save_model(moved(model), str(run / "repaired/model.safetensors"))
    seal(run)
    if stored == "one name":
        save_file({"out.weight": model.out.weight.detach()}, tmp_path / "w.safetensors")
    else:
        torch.save(model.state_dict(), tmp_path / "w.safetensors".replace("safetensors", "pt"))
    weights = next(tmp_path.glob("w.*"))
    assert amends("patch", run, "-o", tmp_path / "fix.safetensors", "--weights", weights) == 0
    assert same(library.apply(model, tmp_path / "fix.safetensors"), moved(model))
    out = tmp_path / f"new{weights.suffix}"
    assert amends("apply", tmp_path / "fix.safetensors", weights, "-o", out) == 0
    new = load_file(out) if stored == "one name" else torch.load(out, weights_only=True)
    assert all(torch.equal(value, moved(model).out.weight) for value in new.values())


def test_run_card_and_report_show_it(repaired, tmp_path, capsys):
    run = shutil.copytree(repaired, tmp_path / "run")
    capsys.readouterr()
    for name in ("one.safetensors", "two.safetensors"):  # the second takes the place of the first
        assert amends("patch", run, "-o", tmp_path / name, "--exact", "--json") == 0
        told = json.loads(capsys.readouterr().out)
    assert json.loads((run / "patch.json").read_text()) == told
    assert {row["name"] for row in told["layers"]} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert told["bytes"] == (tmp_path / "two.safetensors").stat().st_size
    card, page = ((run / name).read_text() for name in ("repaired/README.md", "report.html"))
    assert card.count("## The patch") == card.count("two.safetensors") == 1
    assert "one.safetensors" not in card
    assert card.rstrip().endswith("recoverable from the weights.")
    assert "The layers it moves" in page
    assert f"{told['bytes']:,} bytes" in page
    assert amends("verify", run) == 0


def test_any_tool_can_read_what_it_says(patches):
    with safe_open(patches / "small.safetensors", framework="np") as file:
        told = file.metadata()
    assert told["verdict"] in ("repaired", "partly repaired")
    about = library.Patch.read(patches / "small.safetensors").about
    assert {name: told[name] for name in ("name", "verdict")} == {name: about[name] for name in ("name", "verdict")}
    assert {"holdout", "overall", "recipe", "versions", "model", "removed", "relabelled"} <= set(about)
