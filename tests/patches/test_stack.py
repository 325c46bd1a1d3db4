"""Three repairs of three groups of failures, one after the other: stacked, put on in another order, one taken out."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.errors import BadInput
from tests.patches.conftest import trained
from tests.patches.kinds import moved, same
from tests.projects import amends as command

FLIPS = {(1, 7): 0.6, (9, 4): 0.6, (6, 0): 0.6}
GROUPS = ("1→7", "9→4", "6→0")


@pytest.fixture(scope="module")
def series():
    """A model, its three patches with what each says of its neighbours, and what they are judged on."""
    from sklearn.datasets import load_digits

    found, true = load_digits(return_X_y=True)
    x, y = torch.tensor(found / 16).float(), torch.tensor(true)
    given, wrong = amends.data.flip_labels(y[:900].numpy(), FLIPS, seed=0)
    model = trained(x[:900], torch.tensor(given), 48)
    models, patches, results, kept = [model.eval()], [], [], np.arange(900)
    for group in GROUPS:
        here, there = (int(k) for k in group.split("→"))
        with torch.no_grad():
            right = models[-1](x[900:]).argmax(1) == y[900:]
        failures, remaining = ((x[900:][at], y[900:][at]) for at in (~right, right))
        causes = (wrong & (y[:900].numpy() == here) & (given == there))[kept]
        result = amends.repair(
            models[-1], (x[kept], torch.tensor(given)[kept]), failures, remaining, remove=np.flatnonzero(causes),
            identify_with=causes.astype(float), treat_with=amends.methods.fine_tune(epochs=4), learn=False,
            progress=False, group_by=amends.Groups(only=group), budget="quick",
        )  # fmt: skip
        kept = kept[~causes]
        assert result.verdict != "not repaired", (group, result.metrics["reason"])
        results.append(result)
        patches.append(result.patch(exact=len(patches) == 1, beside=patches[-1:]))
        models.append(amends.apply(models[-1], patches[-1]))
    return models, patches, (x[900:], y[900:]), results


def fixed(model: nn.Module, data) -> list[float]:
    """Accuracy on each of the three classes that were called something else."""
    with torch.no_grad():
        right = model(data[0]).argmax(1) == data[1]
    return [float(right[data[1] == int(group[0])].double().mean()) for group in GROUPS]


def test_each_step_repairs_its_group(series):
    models, _, data, _ = series
    steps = [fixed(model, data) for model in models]
    for k in range(3):
        assert steps[k + 1][k] > steps[k][k] + 0.1
        assert steps[3][k] > steps[0][k] + 0.1


def test_reverted_from_the_top_they_are_what_they_were(series):
    models, patches, *_ = series
    for k in (2, 1, 0):
        assert same(patches[k].revert(models[k + 1]), models[k])


def test_below_the_top_a_patch_is_not_taken_off_alone(series):
    models, patches, *_ = series
    with pytest.raises(BadInput, match=r"is for other weights: .*; take off what was applied after it first"):
        patches[1].revert(models[3])


def test_one_in_the_middle_is_taken_out(series):
    """The third said that it holds without the second; its group stays repaired, and the second's is not any more."""
    models, patches, data, results = series
    out = patches[1].revert(models[3], later=[patches[2]])
    judged = patches[2].bases[1].judged
    assert judged["verdict"] == results[2].verdict
    held = results[2].given["failures"][results[2].split.holdout].examples
    with torch.no_grad():
        now = (out(held.fetch(0, len(held))[0]).argmax(1) == held.y).double().mean()
    assert judged["holdout"]["after"] == pytest.approx(float(now))
    assert judged["holdout"]["before"] < judged["holdout"]["after"]
    was, now = fixed(models[3], data), fixed(out, data)
    assert now[2] > fixed(models[0], data)[2] + 0.1
    assert now[1] < was[1] - 0.1
    assert same(patches[2].revert(out), models[1])


def test_in_another_order(series):
    """The third on the first, then the second on both, once it was asked about that; and all of it back."""
    models, patches, data, results = series
    third_first = amends.apply(models[1], patches[2])
    assert not same(third_first, models[2])
    with pytest.raises(BadInput, match="is for other weights"):
        amends.apply(third_first, patches[1])
    asked = results[1].patch(exact=True, beside=[patches[2]])
    all_three = amends.apply(third_first, asked)
    for now, was in zip(fixed(all_three, data), fixed(models[0], data), strict=True):
        assert now > was + 0.1
    assert same(patches[2].revert(asked.revert(all_three)), models[1])


def test_what_was_not_judged_is_refused(series):
    """The first is below the second, but the third was never judged without it."""
    models, patches, *_ = series
    with pytest.raises(BadInput, match="patch 2 of the later ones does not say that it holds without this one"):
        patches[0].revert(models[3], later=patches[1:])
    with pytest.raises(BadInput, match="is for other weights"):
        amends.apply(models[0], patches[2])


def test_by_the_command_line(series, tmp_path, monkeypatch, capsys):
    from safetensors.torch import load_file, save_file

    models, patches, *_ = series
    monkeypatch.chdir(tmp_path)
    save_file(models[0].state_dict(), "model.safetensors")
    for number, patch in enumerate(patches):
        patch.save(f"{number}.safetensors")
    names = [f"{number}.safetensors" for number in range(3)]
    assert command("apply", *names, "model.safetensors", "-o", "all.safetensors") == 0
    assert torch.equal(load_file("all.safetensors")["0.weight"], models[3][0].weight)
    assert command("revert", names[1], "all.safetensors", "-o", "two.safetensors", "--later", names[2], "--json") == 0
    assert "0.weight" in json.loads(capsys.readouterr().out.partition("\n")[2])["changed"]
    out = patches[1].revert(models[3], later=[patches[2]])
    assert torch.equal(load_file("two.safetensors")["2.weight"], out[2].weight)
    assert command("apply", names[1], names[0], "model.safetensors", "-o", "no.safetensors") == 2
    assert "is for other weights" in capsys.readouterr().err


def test_a_patch_of_another_series_says_nothing(series):
    models, patches, *_ = series
    from amends.patches.names import tensors
    from amends.patches.patch import between
    from amends.patches.stack import next_to

    other = between(tensors(moved(models[0], 5)), tensors(moved(models[0], 6)))
    with pytest.raises(BadInput, match="neither ends nor begins at the weights this one is for"):
        next_to(tensors(models[1]), patches[1], other)
