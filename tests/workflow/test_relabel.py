"""A row that is decided to be relabelled is deleted under its old label and learned under the new one."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.curvature import GGN, Dense
from amends.errors import BadInput
from amends.runs.run import Run
from tests.conftest import at_optimum, classification, plain
from tests.exact import linear_gaussian as exact
from tests.projects import amends as command
from tests.projects import texts_project
from tests.worlds import turned_corner


def table(**columns):
    return pd.DataFrame(columns)


def test_one_newton_step_is_the_posterior_with_the_new_labels():
    """Linear-Gaussian: q / p(old) · p(new) is p(θ | D with the new labels). Its precision is that of q, so one step
    is exact, up to rounding."""
    x, y, network, _ = at_optimum()
    model = nn.Linear(4, 1, bias=False, dtype=torch.float64)
    model.load_state_dict(network.params)
    rows = table(index=[40, 3], decision=["relabel", " Relabel"], new_label=["-1.25", 2.5])
    method, likelihood = methods.newton(Dense(GGN(), prior=0.7)), amends.likelihoods.Gaussian(sigma=0.5)
    fixed = amends.treat(model, (x, y), rows, method=method, likelihood=likelihood)
    new = y.clone()
    new[3], new[40] = 2.5, -1.25
    mean, _ = exact.posterior(x, new, 0.5, 0.7)
    assert_close(fixed.weight[0].detach(), mean, atol=1e-10, rtol=0)
    assert not torch.allclose(model.weight[0].detach(), mean, atol=1e-3)


def test_fine_tuning_ends_at_the_optimum_of_what_was_decided():
    """One goes, two get another label, one that somebody keeps stays as it is, and so does one left undecided."""
    x, y, network = classification(n=80)
    rows = table(index=[7, 5, 9, 20, 21], decision=["remove", "relabel", "relabel", "keep", ""],
                 new_label=[None, 2.0, "1", 1.0, None])  # fmt: skip
    model = amends.treat(plain(network), (x, y), rows, method=methods.fine_tune(0.05, 300, 80))
    new, kept = y.clone(), np.delete(np.arange(80), 7)
    new[5], new[9] = 2, 1
    assert (new != y).sum() == 2
    loss = nn.functional.cross_entropy(model(x[kept]), new[kept])
    assert max(float(g.abs().max()) for g in torch.autograd.grad(loss, list(model.parameters()))) < 1e-3


REFUSED = {
    "no label": ({"decision": ["relabel"], "new_label": [None]}, "new_label is empty; causes at index 3; write"),
    "no column": ({"decision": ["relabel"]}, "new_label is empty; causes at index 3; write"),
    "a label that is none": ({"decision": ["relabel"], "new_label": ["two"]}, "'two' is not a label of train; causes"),
    "the label it has": ({"decision": ["relabel"], "new_label": [0]}, "the label is 0 already, and the decision"),
    "half a class": ({"decision": ["relabel"], "new_label": [1.5]}, "'1.5' is not a label of train; causes at index 3"),
    "a class the model has not": (
        {"decision": ["relabel"], "new_label": ["3"]}, "is label 3, but the model has 3 outputs; causes at index 3"),
    "a decision that is none": ({"decision": ["drop"]}, "decision is 'drop'; causes at index 3; write remove, keep"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_decision_that_cannot_be_followed_is_refused_before_anything_is_computed(name):
    columns, said = REFUSED[name]
    net, train, failures, remaining, _ = turned_corner()
    with pytest.raises(BadInput, match=said):
        amends.repair(net, train, failures, remaining, remove=table(index=[3], **columns))


def test_two_decisions_about_one_example_are_refused():
    rows = table(index=[3, 4, 3], decision=["remove", "remove", "keep"])
    net, train, failures, remaining, _ = turned_corner()
    with pytest.raises(BadInput, match="two rows decide about one example; causes at index 3; keep one of them"):
        amends.repair(net, train, failures, remaining, remove=rows)


def test_a_persons_labels_and_the_models_own_do_not_go_together():
    net, train, failures, remaining, _ = turned_corner()
    rows = table(index=[3], decision=["relabel"], new_label=[(int(train[1][3]) + 1) % 3])
    with pytest.raises(BadInput, match="relabel asks for the model's own labels"):
        amends.repair(net, train, failures, remaining, remove=rows, treat_with=methods.fine_tune(relabel=True))


@pytest.fixture(scope="module")
def corrected():
    """The turned labels turned back, but for two that are removed."""
    net, train, failures, remaining, turned = turned_corner()
    rows = table(index=turned, decision=["remove"] * 2 + ["relabel"] * (len(turned) - 2), new_label="0")
    options = {"identify_with": methods.grad_dot(), "learn": False, "treat_with": methods.fine_tune(0.01, 40, 20)}
    return amends.repair(net, train, failures, remaining, remove=rows, **options), turned


def test_a_repair_says_which_were_relabelled_and_as_what(corrected, tmp_path):
    result, turned = corrected
    assert result.verdict == "repaired"
    assert result.metrics["removed"] == len(turned)
    assert result.metrics["relabelled"] == len(turned) - 2
    assert result.new_labels == dict.fromkeys(turned[2:].tolist(), 0)
    causes = result.causes.set_index("index")
    assert causes.loc[turned[2:], "decision"].eq("relabel").all()
    assert causes.loc[turned[2:], "new_label"].eq("0").all()
    assert causes.loc[turned[:2], ["decision", "new_label"]].eq(["remove", ""]).all().all()
    result.save(tmp_path / "run")
    saved = Run.open(tmp_path / "run")
    assert saved.dataset("removed")["index"].tolist() == [i for i in result.removed if i in turned[:2]]
    moved = saved.dataset("relabelled")
    assert sorted(moved["index"]) == sorted(turned[2:])
    assert set(moved["label"]) == {"0"}
    assert len(saved.dataset("kept")) == 100 - len(turned)
    again = saved.causes().set_index("index")
    assert again.loc[turned[2:], "new_label"].eq("0").all()


def test_new_labels_teach_more_than_removing_alone(corrected):
    """Were relabel a removal, both would end with the same weights."""
    result, turned = corrected
    net, train, *_ = turned_corner()
    removed = amends.treat(net, train, turned, method=methods.fine_tune(0.01, 40, 20))
    assert not torch.equal(removed[0].weight, result.model[0].weight)
    x = train[0][turned[2:]]
    with torch.no_grad():
        p = [float(m(x).softmax(1)[:, 0].log().mean()) for m in (removed, result.model)]
    assert p[1] > p[0]


def test_decisions_in_the_csv_are_followed_to_the_dataset_and_the_exports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts_project(tmp_path)
    assert command("identify", "-o", "run", "-q") == 0
    rows = pd.read_csv("run/causes.csv", dtype=str, keep_default_na=False)
    glad = rows["review"].str.startswith(("sun", "song", "cake"))
    sad = rows.index[(rows["given"] == "sad") & glad]
    rows.loc[sad, "decision"], rows.loc[sad, "new_label"] = "relabel", "glad"
    rows.loc[sad[:5], ["decision", "new_label"]] = ["remove", ""]
    rows.to_csv("run/causes.csv", index=False)
    shutil.copytree("run", "typo")
    for cell, said in (("", "new_label is empty; typo/causes.csv at index"), ("happy", "label 'happy' is not a class")):
        wrong = rows.assign(new_label=rows["new_label"].mask(rows.index == sad[9], cell))
        wrong.to_csv("typo/causes.csv", index=False)
        assert command("treat", "typo", "--approved", "-q") == 2, said
    assert command("export", "run", "--to", "label-studio", "-o", "before.json") == 0
    before = {t["meta"]["index"]: t for t in json.loads((tmp_path / "before.json").read_text())}
    task = before[int(rows["index"][sad[9]])]
    assert task["predictions"][0]["result"][0]["value"] == {"choices": ["glad"]}
    assert task["meta"]["new_label"] == "glad"

    assert command("treat", "run", "--approved", "-q", "--no-learn") == 0
    run = Run.open(tmp_path / "run")
    assert run.metrics["relabelled"] == len(sad) - 5, run.metrics["reason"]
    moved = {int(rows["index"][i]) for i in sad[5:]}
    assert set(run.dataset("relabelled")["index"]) == moved
    after = run.causes().set_index("index")
    assert after.loc[list(moved), ["decision", "new_label"]].eq(["relabel", "glad"]).all().all()
    assert command("export", "run", "--to", "csv", "-o", "cleaned.csv") == 0
    train, cleaned = (pd.read_csv(f, dtype=str, keep_default_na=False) for f in ("train.csv", "cleaned.csv"))
    gone = {int(rows["index"][i]) for i in sad[:5]}
    wanted = train.assign(mood=train["mood"].mask(train.index.isin(moved), "glad")).drop(index=list(gone))
    assert cleaned.to_dict("list") == wanted.to_dict("list")


@pytest.mark.parametrize("more", [{}, {"index": [4.0, 9.0]}, {"index": [9.0, np.nan]}])
def test_a_table_of_ids_alone_is_enough(more):
    """A merge may have made the positions floats, or lost some: ids count."""
    net, (x, y), failures, remaining, _ = turned_corner()
    train = {"input": x, "label": y, "id": [f"r{i}" for i in range(len(y))]}
    options = {
        "identify_with": methods.grad_dot(),
        "treat_with": methods.fine_tune(),
        "budget": "quick",
        "learn": False,
    }
    ids = amends.repair(net, train, failures, remaining, remove=table(id=["r4", "r9"], **more), **options)
    positions = amends.repair(net, train, failures, remaining, remove=[4, 9], **options)
    assert ids.metrics["curve"] == positions.metrics["curve"]
