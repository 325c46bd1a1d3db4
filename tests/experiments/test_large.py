"""What is shared where a network is large: its weights, rankings and curvature. A small one stands for it."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from amends import methods
from amends.algorithm.treat import treat
from amends.cli.app import run
from amends.curvature import GGN, Diagonal
from amends.errors import BadInput, NonFinite, OutOfMemory
from amends.remember import Laplace
from benchmarks.resnet import ResNet
from experiments import protocol, rankings, sets, trade_off
from experiments.all import jobs, parts
from experiments.running import Plan, Rows, read, reproduce


def in_three_colours(folder, seed):
    (x, y), (xt, yt) = sets.small_digits(folder, seed)
    return (np.repeat(x[:200], 3, 1), y[:200]), (np.repeat(xt[:300], 3, 1), yt[:300])


def two_epochs(net, x, y):
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for part in torch.arange(len(x)).repeat(2).split(50):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x[part]), y[part]).backward()
        optimiser.step()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Where a network of the kind of CIFAR-10's begins, with few weights and few images."""
    small = replace(
        sets.SETS["cifar10"], read=in_three_colours, make=lambda: ResNet((1, 1), width=4), fit=two_epochs,
        confusion=sets.DIGITS["confusion"], sizes=(20, 60), tuning={"epochs": 1},
    )  # fmt: skip
    monkeypatch.setitem(sets.SETS, "cifar10", small)
    monkeypatch.setattr(protocol, "KEPT", tmp_path)
    protocol.case_of.cache_clear()
    yield protocol.Start("cifar10", None, 0, "cpu")
    protocol.case_of.cache_clear()


def flipped(start):
    """As another process has it."""
    protocol.case_of.cache_clear()
    return protocol.case_of(start, protocol.flipped_labels)


def test_a_ranking_is_kept_for_the_network_it_is_of(start, monkeypatch):
    scores, seconds = rankings.ranked(flipped(start), "grad_dot")
    monkeypatch.setattr(rankings, "rank", lambda *given: (np.zeros(200), 0.0))
    again, took = rankings.ranked(flipped(start), "grad_dot")
    assert np.array_equal(again, scores)
    assert took == seconds
    for path in protocol.KEPT.glob("*.pt"):
        path.unlink()
    other = flipped(replace(start, device="cpu", patience=1))
    with torch.no_grad():
        next(other.net.parameters()).add_(1)
    assert not rankings.ranked(other, "grad_dot")[0].any()


def test_the_network_in_the_file_is_the_one_that_was_searched(start):
    """Also the first time, when it was just trained: otherwise no ranking of it would be known again."""
    case = flipped(start)
    (path,) = protocol.KEPT.glob("*.pt")
    stored = torch.load(path, weights_only=True)
    for name, value in case.net.state_dict().items():
        assert torch.equal(stored[name].to(value.dtype), value), name
        assert stored[name].dtype in (torch.float16, torch.int64)
    assert rankings.mark(flipped(start)) == rankings.mark(case)


@pytest.mark.parametrize(("why", "stored", "again"), [
    (lambda: time.sleep(3), 1, {1: False, 2: True}),
    (lambda: fail(OutOfMemory("a busy device; identify; wait")), 0, {1: True}),
    (lambda: fail(NonFinite("NaN in the weights; identify; take another method")), math.inf, {10**9: False}),
])  # fmt: skip
def test_a_row_that_was_given_up_is_made_where_more_seconds_may_do(start, tmp_path, monkeypatch, why, stored, again):
    plan = Plan("annotation-noise", "cifar10", out=tmp_path / "out", methods=("random",), device="cpu", patience=1)
    with monkeypatch.context() as broken:
        broken.setattr(rankings, "identify", lambda *given, **more: why())
        reproduce(plan)

    def rows():
        made = read(plan.folder / "seed_0.csv")
        return {row.measure: row.value for row in made if row.method == "random"}

    assert rows() == {"given up": stored}
    for patience, tried in again.items():
        protocol.case_of.cache_clear()
        asked = replace(plan, patience=patience)
        assert len(jobs(asked, ("annotation-noise",))) == tried
        reproduce(asked)
        assert ("average precision" in rows()) == tried
        assert ("given up" in rows()) != tried


def fail(error):
    raise error


@pytest.mark.parametrize(("words", "seconds"), [([], 120), (["--patience", "500"], 500)])
def test_the_command_hands_on_how_many_seconds_a_method_may_take(words, seconds, monkeypatch):
    plans = []
    monkeypatch.setattr("experiments.running.reproduce", lambda plan: plans.append(plan) or [])
    assert run(["reproduce", "causes", "--on", "cifar10", *words]) == 0
    assert plans[0].start(0).patience == seconds


def test_a_row_of_two_kinds_is_there_once_both_are(tmp_path):
    plan = Plan("specificity", "digits", out=tmp_path, methods=("random",))
    rows = Rows(plan.folder, 0, plan.patience)
    for kind in parts(plan, "random"):
        assert "random" in {job.row for job in jobs(plan, ("specificity",))}
        rows.add(kind, [(0, "this kind", 0.5)])
    assert {job.row for job in jobs(plan, ("specificity",))} == {"nothing removed"}


def test_the_same_fit_is_made_once(start, monkeypatch):
    case, made = flipped(start), []
    monkeypatch.setattr(protocol, "treat", lambda *given, **more: made.append(given) or case.net)
    for causes, more in (([1, 2], {}), ([2, 1], {"pull": 0.0}), ([1, 3], {}), ([1, 2], {"learn": True})):
        protocol.fine_tuned(case, np.array(causes), **more)
    assert [list(given[2]) for given in made] == [[1, 2], [1, 3], [1, 2]]


def test_deletions_that_share_curvature_are_those_that_do_not(start):
    """The second γ finds everything there."""
    case, causes, gamma = flipped(start), np.arange(0, 60, 3), 0.01
    part = rankings.of_a_part(case, methods.kronecker())
    alone = {
        "Newton removal, plain": methods.newton(part, gamma),
        "Newton removal, searched": methods.newton(part, gamma, line_search=True),
        "EWC-deletion, searched": methods.ewc(gamma=gamma)._replace(
            remember=Laplace(rankings.of_a_part(case, Diagonal(GGN())), gamma=gamma)
        ),
    }

    def weights(method):
        model = treat(case.net, case.train, causes, failures=case.sets["query"], method=method)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    for name, method in alone.items():
        far, shared = (weights(trade_off.WAYS[name].make(case, g)) for g in (0.1, gamma))
        assert_close(shared, weights(method), rtol=1e-5, atol=1e-7)  # γ is multiplied in another order
        assert not torch.allclose(far, shared, rtol=1e-3)


def test_one_victim_where_there_are_few(start):
    assert protocol.seeds_of_victims(start) == (1000,)
    assert protocol.seeds_of_victims(replace(start, on="digits")) == (1000, 2000, 3000)


def test_each_experiment_takes_the_rows_it_has(tmp_path):
    plan = Plan("causes", "digits", out=tmp_path, methods=("ewc", "random", "Newton removal, plain"))
    made = jobs(plan, ("annotation-noise", "trade-off", "specificity", "forget-and-learn"))
    rows = {item: [job.row for job in made if job.items == (item,)] for item in {job.items[0] for job in made}}
    assert rows["annotation-noise"] == ["ewc", "random"]
    assert rows["trade-off"] == ["Newton removal, plain"]
    assert rows["specificity"] == ["nothing removed", "ewc", "random"]
    assert len(rows["forget-and-learn"]) == 4
    with pytest.raises(BadInput, match=r"no row 'ewcc'; --methods; .*ewc"):
        jobs(replace(plan, methods=("ewcc",)), ("annotation-noise",))


def test_a_deletion_goes_on_from_the_step_sizes_it_has(start, tmp_path, monkeypatch):
    """Stopped by time in its second γ, it makes the second and third, not the first again."""
    plan = Plan("trade-off", "cifar10", out=tmp_path / "out", methods=("EWC-deletion, searched",), device="cpu")
    made, stopped = [], {trade_off.FEW[1]}

    def deleted(case, causes, way, gamma):
        made.append(gamma)
        if gamma in stopped:
            raise KeyboardInterrupt
        return [(gamma, "holdout", 0.5)]

    monkeypatch.setattr(trade_off, "deleted", deleted)
    with pytest.raises(KeyboardInterrupt):
        reproduce(plan)
    assert jobs(plan, ("trade-off",))
    stopped.clear()
    reproduce(plan)
    assert made == [*trade_off.FEW[:2], *trade_off.FEW[1:]]
    rows = read(plan.folder / "seed_0.csv")
    assert [(row.k, row.measure) for row in rows] == [(gamma, "holdout") for gamma in trade_off.FEW]
    assert not jobs(plan, ("trade-off",))
