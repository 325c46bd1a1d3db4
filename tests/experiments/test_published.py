"""Benchmarks of others, run as a user runs them on a small table of the same shape."""

from __future__ import annotations

import csv
import io
import zipfile
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from amends import methods
from amends.algorithm.identify import identify
from benchmarks.published import aqua, corrective, kronfluence, opendataval
from benchmarks.published.aqua import ResNet1D
from benchmarks.published.resnet9 import ResNet9


def spread_within(values, cut):
    return sum(((part - part.mean()) ** 2).sum() for part in (values[values < cut], values[values >= cut]) if len(part))


def test_two_means_is_the_best_cut_of_all():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = np.concatenate([rng.normal(size=15), rng.normal(3, 0.5, 5)])
        ordered = np.sort(values)
        least = min(spread_within(values, (a + b) / 2) for a, b in pairwise(ordered))
        called = opendataval.two_means(values)
        assert values[called].min() > values[~called].max()
        assert spread_within(values, values[called].min()) == pytest.approx(least)


def test_f1_is_that_of_precision_and_recall():
    called, wrong = np.array([1, 1, 1, 0, 0], bool), np.array([1, 0, 0, 1, 0], bool)
    precision, recall = 1 / 3, 1 / 2
    assert opendataval.f1(called, wrong) == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_row_for_every_method(tmp_path, capsys, monkeypatch):
    """On people whose salary follows from two columns the loss finds most of what was flipped, chance does not."""
    monkeypatch.setattr(opendataval, "BAGS", 12)
    rng = np.random.default_rng(1)
    age, capital = rng.normal(40, 10, 1200), rng.normal(0, 1, 1200)
    rich = (age - 40) / 10 + capital > 0
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["age", "capital-gain", "sex_Male", "salary_<=50K", "salary_>50K"])
    table.writerows((a, c, i % 2 == 0, not r, r) for i, (a, c, r) in enumerate(zip(age, capital, rich, strict=True)))
    with zipfile.ZipFile(tmp_path / "adult.csv.zip", "w") as archive:
        archive.writestr("adult.csv", text.getvalue())
    opendataval.main(["--data", str(tmp_path), "--seeds", "1"])
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    found = {name: float(cell.split()[0]) for name, cell, _ in lines[1:]}
    assert set(found) == set(opendataval.ROWS)
    assert found["loss"] > 0.7 > 0.4 > found["random"]
    assert found["Data-OOB"] > 0.7


def test_self_influence_is_the_gradient_by_itself():
    """∇log p(z)ᵀ P⁻¹ ∇log p(z) of a softmax regression, whose gradient is (y − p) ⊗ x."""
    torch.manual_seed(0)
    x, y = torch.randn(40, 3, dtype=torch.float64), torch.randint(4, (40,))
    net = torch.nn.Linear(3, 4, bias=False).double()
    found = {}

    class Watched(kronfluence.SelfInfluence):
        def __call__(self, train, failures):
            found["precision"] = methods.ekfac()(train, train.network.params)
            return super().__call__(train, failures)

    scores = identify(net, (x, y), (x[:5], y[:5]), method=Watched(at_once=16), progress=False).scores
    left = torch.nn.functional.one_hot(y, 4) - net(x).detach().softmax(1)
    for row in (0, 17, 39):
        grad = torch.outer(left[row], x[row])
        by_hand = float((grad * found["precision"].solve({"weight": grad})["weight"]).sum())
        assert scores[row] == pytest.approx(by_hand, rel=1e-6)


def test_a_tenth_of_the_labels_is_wrong(tmp_path, capsys, monkeypatch):
    """On a few images of noise, one epoch: every label of the first tenth is changed, and every method has a row."""
    rng = np.random.default_rng(0)
    for name, n in [*((f"train_part{i}", 12) for i in range(1, 6)), ("test", 30)]:
        images, labels = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)
        np.savez(tmp_path / f"cifar10_{name}.npz", x_delta=images, y=labels)
    monkeypatch.setattr(kronfluence, "ResNet9", lambda: ResNet9(width=2))
    data = kronfluence.Data(str(tmp_path))
    world, true = kronfluence.world(data, 0, "cpu", 1), data.all_of_cifar()[0][1]
    assert world.wrong.tolist() == [True] * 6 + [False] * 54
    assert ((world.train[1].numpy() != true) == world.wrong).all()
    assert len(world.failures[1]) / 30 == pytest.approx(1 - world.accuracy)
    kronfluence.main(["--data", str(tmp_path), "--epochs", "1", "--device", "cpu"])
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [line[0] for line in lines[1:]] == list(kronfluence.ROWS)
    kronfluence.main(["--data", str(tmp_path), "--epochs", "1", "--device", "cpu", "--methods", "random", "loss"])
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[3:]] == ["| random", "| loss"]


def test_pen_strokes():
    """A label that is wrong is the next digit; rows with known labels are not learned; F1 is scikit-learn's; the
    margin is the given label's logit less the highest other one."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 10
    values = rng.normal(labels[:, None, None] / 10, 0.1, (300, 2, 8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aqua, "TRAIN", 200)
        patch.setattr(aqua, "EPOCHS", 1)
        patch.setattr(aqua, "ResNet1D", lambda: ResNet1D(width=2))
        world = aqua.world(values, labels, 0.3, 0)
        assert len(world.train[1]) == 180
        assert world.wrong.sum() == 54
        assert ((world.train[1] - world.true)[world.wrong] % 10 == 1).all()
        shown = {tuple(row) for row in world.train[0].flatten(1).tolist()}
        assert not any(tuple(row) in shown for row in (*world.known[0].flatten(1).tolist(),
                                                       *world.test[0].flatten(1).tolist()))  # fmt: skip
        assert (world.margins[aqua.lowest(world)].max() <= np.delete(world.margins, aqua.lowest(world))).all()
    truth, said = rng.integers(0, 4, 50), rng.integers(0, 5, 50)
    assert aqua.weighted_f1(said, truth) == pytest.approx(f1_score(truth, said, average="weighted", zero_division=0))
    net = torch.nn.Linear(2, 3)
    x, y = torch.randn(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    by_hand = [
        o[c] - max(v for i, v in enumerate(o) if i != c) for o, c in zip(net(x).tolist(), y.tolist(), strict=True)
    ]
    assert aqua.margins(net, x, y).tolist() == pytest.approx(by_hand)


def images(folder):
    """A hundred images of noise to train on and sixty to test with, in the files of CIFAR-10."""
    rng = np.random.default_rng(0)
    for name, n in [*((f"train_part{i}", 20) for i in range(1, 6)), ("test", 60)]:
        pixels, labels = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), np.arange(n, dtype=np.uint8) % 10
        np.savez(folder / f"cifar10_{name}.npz", x_delta=pixels, y=labels)
    return kronfluence.Data(str(folder))


def test_bad_images(tmp_path):
    """Poison: a white corner and the label of planes, in so many. Confusion: as many cats are dogs as dogs are cats."""
    data = images(tmp_path)
    true = data.all_of_cifar()[0][1]
    poison = corrective.world(data, "poison", 12, 0, "cpu")
    corner = poison.train[0][:, :, -3:, -3:].flatten(2)
    white = (corner == corner.amax((0, 2), keepdim=True)).all(2).all(1)
    assert white.nonzero().flatten().tolist() == sorted(poison.bad.tolist())
    assert (poison.train[1][poison.bad] == 0).all()
    confusion = corrective.world(data, "confusion", 8, 0, "cpu")
    before, after = true[confusion.bad], confusion.train[1][confusion.bad].tolist()
    assert before.tolist() == [3] * 4 + [5] * 4
    assert after == [5] * 4 + [3] * 4
    assert (confusion.train[1].numpy() != true).sum() == 8
    for world in (poison, confusion):
        assert sum(len(y) for _, y in world.judges) == (60 if world is poison else 30)
    assert set(confusion.judges[0][1].tolist()) == {3, 5}


def test_dampening_shrinks_what_matters_more_for_the_bad():
    """SSD by hand for a softmax regression, one batch each: importance is the square of the mean gradient."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3, bias=False).double()
    x, y = torch.randn(30, 4, dtype=torch.float64), torch.randint(3, (30,))
    told = torch.tensor([2, 5, 6])
    left = torch.nn.functional.one_hot(y, 3) - net(x).detach().softmax(1)
    every, bad = ((left[at].T @ x[at] / len(at)).square() for at in (torch.arange(30), told))
    made = corrective.shrunk(net, {"weight": every}, {"weight": bad}, 10, 2).weight
    by_hand = torch.where(bad > 10 * every, 2 * every / bad, 1) * net.weight
    assert torch.allclose(made, by_hand)
    assert 0 < (made != net.weight).sum() < made.numel()
    found = corrective.importance(net, x[told], y[told])["weight"]
    assert torch.allclose(found, bad)
    good = x[told], left[told].argmax(1)  # other labels than those they were told with
    best = corrective.dampened(net, corrective.World("poison", (x, y), told, (good, (x, y)), (good, good), 0), told)

    def right(selection, times):
        weight = torch.where(bad > selection * every, (selection * times * every / bad).clamp(max=1), 1) * net.weight
        return sum(float(((a @ weight.T).argmax(1) == b).double().mean()) for a, b in (good, (x, y)))

    every_score = {right(s, t) for s in corrective.SELECTIONS for t in corrective.DAMPENINGS}
    score = sum(float((best(a).argmax(1) == b).double().mean()) for a, b in (good, (x, y)))
    assert score == pytest.approx(max(every_score))
    assert min(every_score) < score
