"""What a user touches: signatures, results, and the shapes data may have."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import amends
from amends.data import flip_labels
from amends.editors import follow
from amends.editors.climb import Adam
from amends.evaluation.rankings import average_precision
from amends.evidence.prepare import prepare


@pytest.fixture(scope="module")
def digits():
    """Real 8x8 digits, 600 to train with flips, a small MLP that learned them, failures and the rest."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x, y = torch.tensor(images[order] / 16.0, dtype=torch.float32), labels[order].astype(np.int64)
    given, wrong = flip_labels(y[:600], {(1, 7): 0.4, (9, 4): 0.4, (3, 8): 0.4}, 0)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in torch.randperm(600).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), torch.tensor(given)[batch]).backward()
            optimiser.step()
    net.eval()
    with torch.no_grad():
        ok = (net(x[600:]).argmax(1).numpy() == y[600:]).nonzero()[0] + 600
    bad = np.setdiff1d(np.arange(600, len(x)), ok)
    return net, (x[:600], given), (x[bad], y[bad]), (x[ok], y[ok]), wrong


@pytest.fixture(scope="module")
def result(digits):
    net, train, failures, remaining, _ = digits
    return amends.repair(net, train, failures, remaining)


def test_signatures_are_those_of_the_contract():
    common = ["method", "likelihood", "seed", "device", "batch_size", "progress"]
    assert list(inspect.signature(amends.identify).parameters) == ["model", "train", "failures", "remaining", *common]
    assert list(inspect.signature(amends.treat).parameters) == [
        "model", "train", "causes", "failures", "remaining", *common,
    ]  # fmt: skip
    assert list(inspect.signature(amends.repair).parameters) == [
        "model", "train", "failures", "remaining", "identify_with", "treat_with", "learn", "remove", "holdout",
        "group_by", "keep", "floor", "likelihood", "seed", "device", "batch_size", "progress",
    ]  # fmt: skip
    for f in (amends.identify, amends.treat, amends.repair):
        assert f.__doc__


def test_the_functions_are_not_shadowed_by_modules():
    import amends.algorithm.identify
    import amends.algorithm.treat
    import amends.workflow.repair

    assert all(callable(f) for f in (amends.repair, amends.identify, amends.treat))


def test_influence(digits):
    net, train, failures, remaining, wrong = digits
    found = amends.identify(net, train, failures, remaining=remaining)
    assert isinstance(found.scores, np.ndarray)
    assert found.scores.dtype == np.float64
    assert found.scores.shape == (600,)
    top = found.top(20)
    assert np.array_equal(found.scores[top], np.sort(found.scores)[::-1][:20])
    assert len(found.fraction(0.1)) == 60
    assert (found.scores[found.positive()] > 0).all()
    assert average_precision(found.scores, wrong) > 2 * wrong.mean()
    frame = found.frame()
    assert list(frame.columns) == [
        "id", "index", "rank", "score", "given", "predicted", "predicted_after", "p_given", "p_given_after",
        "suggested", "group", "conflicts_with", "decision",
    ]  # fmt: skip
    assert frame["index"].tolist()[:20] == top.tolist()
    assert len(frame) == 600
    row = frame.iloc[0]
    assert row["given"] == train[1][row["index"]]
    with torch.no_grad():
        p = net(train[0][row["index"]][None]).softmax(1)[0, int(row["given"])]
    assert row["p_given"] == pytest.approx(float(p), rel=1e-4)
    assert len(row["conflicts_with"]) <= 5


def test_remaining_may_be_given_by_position(digits):
    net, train, failures, remaining, _ = digits
    by_position, by_name = (
        amends.identify(net, train, failures, *more, method=amends.methods.functional(), **named)
        for more, named in (((remaining,), {}), ((), {"remaining": remaining}))
    )
    assert np.array_equal(by_position.scores, by_name.scores)


def test_default_by_either_name(digits):
    net, train, failures, remaining, _ = digits
    a = amends.identify(net, train, failures, remaining=remaining)
    b = amends.identify(net, train, failures, remaining=remaining, method=amends.methods.default())
    assert np.array_equal(a.scores, b.scores)
    assert np.isfinite(amends.identify(net, train, failures).scores).all()  # no remaining: another default


def test_repair_fixes_failures_it_did_not_search_with(result, digits):
    _, _, failures, remaining, wrong = digits
    metrics = result.metrics
    assert metrics["verdict"] in ("repaired", "partly repaired")
    for name in ("query", "holdout", "remaining", "overall"):
        assert {"before", "after", "n"} <= set(metrics[name])
    assert metrics["query"]["before"] == metrics["holdout"]["before"] == 0.0
    assert metrics["remaining"]["before"] == 1.0
    assert metrics["query"]["n"] + metrics["holdout"]["n"] == len(failures[0])
    assert abs(metrics["remaining"]["n"] - len(remaining[0]) / 2) <= 5
    assert metrics["fixed"] == round(metrics["holdout"]["after"] * metrics["holdout"]["n"])
    assert metrics["newly_broken"] == round((1 - metrics["remaining"]["after"]) * metrics["remaining"]["n"])
    assert metrics["removed"] == len(result.causes) == len(result.removed)
    share = len(failures[0]) / (len(failures[0]) + len(remaining[0]))
    mixed = share * metrics["holdout"]["after"] + (1 - share) * metrics["remaining"]["after"]
    assert metrics["overall"]["after"] == pytest.approx(mixed)
    assert metrics["overall"]["after"] > metrics["overall"]["before"]
    assert metrics["holdout"]["after"] > metrics["controls"]["nothing"]["holdout"]
    assert metrics["holdout"]["after"] > metrics["controls"]["random"]["holdout"]
    assert wrong[result.removed].mean() > 2 * wrong.mean()
    json.dumps(metrics)
    assert result.verdict in repr(result)


def test_the_causes_table_follows_the_repaired_model(result, digits):
    _, train, failures, _, _ = digits
    causes = result.causes
    assert (causes["decision"] == "remove").all()
    assert causes["rank"].tolist() == list(range(1, len(causes) + 1))
    at = causes["index"].to_numpy().copy()
    with torch.no_grad():
        after = result.model(train[0][at]).argmax(1).numpy()
    assert (causes["predicted_after"] == after).all()
    positions = {j for row in causes["conflicts_with"] for j in row}
    assert positions <= set(result.query_positions.tolist())
    assert max(positions) < len(failures[0])


def test_a_saved_run_loads_again(result, digits, tmp_path):
    from safetensors.torch import load_model

    result.save(tmp_path / "runs" / "digits")
    folder = tmp_path / "runs" / "digits"
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(result.metrics))
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    load_model(net, str(folder / "repaired" / "model.safetensors"))
    assert torch.equal(net[0].weight, result.model[0].weight)
    assert len((folder / "causes.csv").read_text().splitlines()) == len(result.causes) + 1
    with pytest.raises(ValueError, match="the folder exists"):
        result.save(folder)
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["digits"]


def test_when_it_does_not_help_nothing_changes(digits):
    """Failures with random labels have no cause in the data."""
    net, train, _, remaining, _ = digits
    x = remaining[0][:40]
    with torch.no_grad():
        nonsense = (net(x).argmax(1) + torch.arange(40) % 9 + 1) % 10
    result = amends.repair(net, train, (x, nonsense), (remaining[0][40:], remaining[1][40:]))
    assert result.verdict == "not repaired"
    assert result.metrics["removed"] == 0
    assert len(result.causes) == 0
    assert torch.equal(result.model[0].weight, net[0].weight)


def test_options_of_repair(digits):
    net, train, failures, remaining, _ = digits
    count = amends.repair(net, train, failures, remaining, remove=60)
    share = amends.repair(net, train, failures, remaining, remove=0.1)
    assert np.array_equal(count.influence.top(60), share.influence.top(60))
    assert count.metrics["curve"] == share.metrics["curve"]
    learned = amends.repair(net, train, failures, remaining, remove=60, learn=True)
    assert learned.metrics["query"]["after"] >= count.metrics["query"]["after"]
    alone = amends.repair(net, train, failures, remove=60)
    assert alone.metrics["remaining"] is None
    assert alone.metrics["newly_broken"] == 0
    kept = amends.repair(net, train, failures, remaining, remove=60, keep=[(train[0][:50], train[1][:50])])
    assert "keep[0]" in kept.metrics["keep"]
    strict = amends.repair(net, train, failures, remaining, remove=500, floor=0.0)
    assert strict.verdict == "not repaired"
    grouped = amends.repair(net, train, failures, remaining, remove=60, group_by=["a", "b"] * (len(failures[0]) // 2)
                            + ["a"] * (len(failures[0]) % 2))  # fmt: skip
    assert set(grouped.metrics["groups"]) == {"a", "b"}


class Items(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


class Columns:
    """The part of a Hugging Face dataset that amends relies on."""

    def __init__(self, x, y):
        self.columns = {"pixels": x.numpy().tolist(), "label": y.tolist()}
        self.column_names = list(self.columns)

    def __getitem__(self, name):
        return self.columns[name]


def test_data_may_come_in_several_shapes(digits):
    net, (x, y), failures, _, _ = digits
    x, y, method = x[:80], torch.as_tensor(y[:80]), amends.methods.grad_dot()
    expected = amends.identify(net, (x, y), failures, method=method).scores
    for train in (
        (x.numpy().astype(np.float64), y.numpy()), [x, y], TensorDataset(x, y), Items(x, y), Columns(x, y),
        {"x": x, "label": y}, list(zip(x, y.tolist(), strict=True)),
    ):  # fmt: skip
        found = amends.identify(net, train, failures, method=method).scores
        assert np.allclose(found, expected, rtol=1e-5)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Embedding(5, 3)

    def forward(self, dense, token):
        return self.a(dense) + self.b(token).mean(1)


def test_inputs_may_be_a_tuple_or_a_dict():
    torch.manual_seed(0)
    dense, token, y = torch.randn(20, 4), torch.randint(0, 5, (20, 2)), torch.randint(0, 3, (20,))
    net = TwoInputs()
    rows = []
    for x in ((dense, token), {"dense": dense, "token": token}):
        f = tuple(v[:3] for v in x) if isinstance(x, tuple) else {k: v[:3] for k, v in x.items()}
        chosen = (amends.methods.ewc(prior=1.0), amends.methods.linear(amends.curvature.Diagonal(prior=1.0)))
        rows += [amends.identify(net, (x, y), (f, (y[:3] + 1) % 3), method=method).scores for method in chosen]
        assert isinstance(amends.treat(net, (x, y), [1, 2]), TwoInputs)
    assert np.allclose(rows[0], rows[2])
    assert np.allclose(rows[1], rows[3])
    two = (dense[:2], token[:2])  # a pair of examples is not a pair of arrays
    assert len(amends.identify(net, (two, y[:2]), (two, y[:2]), method=amends.methods.grad_dot()).scores) == 2


def test_other_likelihoods():
    torch.manual_seed(0)
    x = torch.randn(30, 4)
    gaussian = amends.likelihoods.Gaussian(sigma=0.5)
    target = x.sum(1, keepdim=True)
    found = amends.identify(nn.Linear(4, 1), (x, target), (x[:5], target[:5] + 3), likelihood=gaussian)
    assert np.isfinite(found.scores).all()
    assert len(found.frame()) == 30
    labels = (x[:, :3] > 0).float()
    found = amends.identify(
        nn.Linear(4, 3), (x, labels), (x[:5], 1 - labels[:5]), likelihood=amends.likelihoods.Bernoulli()
    )
    assert np.isfinite(found.scores).all()

    def smoothed(outputs, targets):
        return -nn.functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.1)

    y = torch.randint(0, 3, (30,))
    net = nn.Linear(4, 3)
    found = amends.identify(net, (x, y), (x[:5], y[:5]), likelihood=smoothed, method=amends.methods.loss())
    with torch.no_grad():
        assert np.allclose(found.scores, -smoothed(net(x), y).numpy(), rtol=1e-6)
    soft = amends.identify(net, (x, torch.eye(3)[y]), (x[:5], y[:5]), method=amends.methods.loss())
    hard = amends.identify(net, (x, y), (x[:5], y[:5]), method=amends.methods.loss())
    assert np.allclose(soft.scores, hard.scores, rtol=1e-5)


def test_a_user_s_own_loss_works_with_every_default(digits):
    """A prediction anchor must not ask the user's function for soft targets."""
    net, train, failures, remaining, _ = digits
    weights = torch.linspace(1, 2, 10)
    for mine in (
        lambda o, t: -nn.functional.nll_loss(o.log_softmax(-1), t, reduction="none"),
        lambda o, t: -weights[t] * nn.functional.cross_entropy(o, t, reduction="none"),
    ):
        found = amends.identify(net, train, failures, remaining=remaining, likelihood=mine)
        assert np.isfinite(found.scores).all()


def test_weighing_by_loss_keeps_the_sign_where_densities_exceed_one():
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    y = x.sum(1, keepdim=True)
    net = nn.Linear(4, 1)
    with torch.no_grad():
        net.weight.fill_(1.0)
        net.bias.fill_(0.05)
    found = amends.identify(net, (x, y), (x[:6], y[:6] - 0.3), likelihood=amends.likelihoods.Gaussian(sigma=0.1))
    assert (found.before > 0).all()
    assert (found.scores[found.raw > 0] > 0).all()
    assert np.median(found.scores[found.raw < 0]) < 0


def test_random_scores_do_not_repair(digits):
    """More training fixes some failures whatever is removed; the verdict looks at the controls."""
    net, train, failures, remaining, _ = digits
    for seed in range(3):
        result = amends.repair(net, train, failures, remaining, identify_with=amends.methods.random(seed), seed=seed)
        assert result.verdict == "not repaired", result
        assert result.metrics["removed"] == 0


def test_a_floor_counts_from_where_the_model_was(digits):
    net, train, failures, remaining, _ = digits
    mixed = tuple(np.concatenate([a, b[:15]]) for a, b in zip(remaining, failures, strict=True))
    result = amends.repair(net, train, tuple(f[15:] for f in failures), mixed, floor=0.03)
    assert result.metrics["remaining"]["before"] < 0.995
    assert result.verdict in ("repaired", "partly repaired"), result
    assert result.metrics["remaining"]["after"] >= result.metrics["remaining"]["before"] - 0.03


def test_keep_takes_part_in_the_choice_and_is_reported_as_it_is(digits):
    net, train, failures, remaining, _ = digits
    with torch.no_grad():
        stubborn = (failures[0], net(failures[0]).argmax(1))  # must stay as wrong as it is
    result = amends.repair(net, train, failures, remaining, keep=[stubborn], floor=0.05)
    assert result.verdict == "not repaired"
    assert result.metrics["keep"]["keep[0]"] == {"before": 1.0, "after": 1.0}


def test_seeds_matter_and_numpy_numbers_are_numbers(digits):
    net, train, failures, remaining, _ = digits
    a, b, c = (amends.treat(net, train, [1, 2], seed=s, batch_size=np.int64(64))[0].weight for s in (0, 1, 1))
    assert not torch.equal(a, b)
    assert torch.equal(b, c)
    result = amends.repair(net, train, failures, remaining, remove=np.int64(60), seed=np.int64(2))
    assert result.metrics["curve"][1]["removed"] == 60
    assert json.loads(json.dumps(result.metrics)) == result.metrics


def test_named_columns_may_hold_more_than_the_model_takes():
    torch.manual_seed(0)
    dense, token, y = torch.randn(12, 4), torch.randint(0, 5, (12, 2)), torch.randint(0, 3, (12,))
    rows = [
        {"dense": d.tolist(), "token": t.tolist(), "text": "hello", "label": int(k)}
        for d, t, k in zip(dense, token, y, strict=True)
    ]
    net = TwoInputs()
    method = amends.methods.grad_dot()
    a = amends.identify(net, rows, rows[:3], method=method).scores
    b = amends.identify(net, ({"dense": dense, "token": token}, y), ((dense[:3], token[:3]), y[:3]), method=method)
    assert np.allclose(a, b.scores, rtol=1e-5)
    listed = [(d.tolist(), int(k)) for d, k in zip(dense, y, strict=True)]
    assert len(amends.identify(nn.Linear(4, 3), listed, listed[:3], method=method).scores) == 12
    turned = dense.numpy()[:, ::-1]
    assert len(amends.identify(nn.Linear(4, 3), (turned, y), (turned[:3], y[:3]), method=method).scores) == 12
    narrow = y.to(torch.uint8)
    assert len(amends.identify(nn.Linear(4, 3), (dense, narrow), (dense[:3], narrow[:3])).scores) == 12


def test_several_labels_and_regression_can_be_repaired():
    torch.manual_seed(0)
    x = torch.randn(120, 4)
    labels = (x[:, :1] > 0).float()
    for likelihood, y, wrong in (
        (amends.likelihoods.Bernoulli(), labels, 1 - labels),
        (amends.likelihoods.Gaussian(0.5), x.sum(1, keepdim=True), x.sum(1, keepdim=True) + 5),
    ):
        net = nn.Linear(4, 1)
        result = amends.repair(net, (x, y), (x[:20], wrong[:20]), (x[20:60], y[20:60]), likelihood=likelihood, remove=5)
        assert {"query", "holdout", "remaining", "overall"} <= set(result.metrics)
        frame = result.influence.frame()
        given = frame.sort_values("index")["given"].to_numpy(dtype=float)
        assert np.allclose(given, y[:, 0].numpy(), atol=1e-6)


def test_in_inference_mode_and_in_half_precision(digits):
    net, train, failures, remaining, _ = digits
    with torch.inference_mode():
        assert np.isfinite(amends.identify(net, train, failures, method=amends.methods.ewc()).scores).all()
    half = nn.Sequential(nn.Linear(64, 10)).to(torch.bfloat16)
    result = amends.repair(half, train, failures, remaining, remove=10)
    assert result.model[0].weight.dtype == torch.bfloat16


def test_tables_and_causes_as_pandas_gives_them(result, digits):
    import pandas as pd

    net, (x, y), failures, _, _ = digits
    table = pd.DataFrame(x[:80].numpy()).rename(columns=str).assign(label=y[:80], note="text")
    method = amends.methods.grad_dot()
    expected = amends.identify(net, (x[:80], y[:80]), failures, method=method)
    assert np.allclose(amends.identify(net, table, failures, method=method).scores, expected.scores, rtol=1e-5)
    one = amends.treat(net, (x, y), result.causes)
    two = amends.treat(net, (x, y), result.causes["index"].tolist())
    assert torch.equal(one[0].weight, two[0].weight)
    assert len(repr(expected)) < 300


def test_what_a_stranger_gets_wrong_is_said(digits):
    net, train, failures, remaining, _ = digits
    swapped = amends.repair(net, train, remaining, failures)
    assert swapped.verdict == "not repaired"
    assert "swapped" in swapped.metrics["reason"]
    with pytest.warns(UserWarning, match="look like probabilities"):
        amends.identify(nn.Sequential(net, nn.Softmax(1)), train, failures, method=amends.methods.loss())
    alone = amends.repair(net, train, failures)
    assert "still works" not in alone.metrics["reason"]


def test_deletion_is_guarded_by_default(digits):
    """An unlearning path that would break everything ends where remaining, or D∖C, still holds."""
    net, train, failures, remaining, wrong = digits
    fast = amends.methods.ewc(unlearn=Adam(rate=3e-3, epochs=20, every=1))
    x, y = remaining[0], torch.as_tensor(remaining[1])

    def share(model, x, y):
        with torch.no_grad():
            return float((model(x).argmax(1) == torch.as_tensor(y)).float().mean())

    data = prepare(net, None, None, 256, train=train)["train"]
    free = follow(fast.editor(fast.remember(data, None), -data[wrong]))
    broken = data.network.module_with(free.mean, net)
    assert share(broken, x, y) < 0.9, "unguarded it breaks what worked"
    guarded = amends.treat(net, train, wrong, failures=failures, remaining=remaining, method=fast)
    assert share(guarded, x, y) >= 0.98
    assert not torch.equal(guarded[0].weight, net[0].weight)
    alone = amends.treat(net, train, wrong, method=fast)
    kept = ~wrong
    assert share(alone, train[0][kept], train[1][kept]) >= share(net, train[0][kept], train[1][kept]) - 0.021
