"""What a caller may ask of a repair."""

from __future__ import annotations

import pytest
import torch

import amends
from amends.errors import BadInput
from amends.settings import DEFAULT
from tests.worlds import cheaply


def test_sets_to_keep_may_have_names(planted):
    net, train, failures, (x, y) = planted[:4]
    zeros = x[y == 0], y[y == 0]
    result = amends.repair(
        net, train, failures, (x, y), keep={"zeros": zeros}, identify_with=amends.methods.ewc(), remove=5
    )
    assert result.metrics["keep"]["keep['zeros']"]["before"] == 1.0


def test_a_set_to_keep_may_be_asked_to_be_right_to_a_share(planted, result):
    net, train, failures, (x, y) = planted[:4]
    zeros = x[y == 0], y[y == 0]
    options = cheaply(result, treat_with=amends.methods.fine_tune(epochs=10), learn=False)
    repair = amends.repair(net, train, failures, (x, y), keep={"zeros": amends.Keep(zeros, 0.5)}, **options)
    assert repair.verdict == "repaired"
    assert repair.rounds[0].limits.keep == (0.5,)
    wrong = zeros[0], (zeros[1] + 1) % 10
    repair = amends.repair(net, train, failures, (x, y), keep={"never": amends.Keep(wrong, 0.5)}, **options)
    assert repair.metrics["reason"].endswith("broken: accuracy on keep['never'] would be 0.000, below 0.500")
    with pytest.raises(
        BadInput, match=r"least of keep\[0\] is 2; it must be from 0 to 1; pass the share that must be right"
    ):
        amends.repair(net, train, failures, (x, y), keep=[amends.Keep(zeros, 2)], **options)


@pytest.mark.parametrize("learn", ["no", 2, [False]])
def test_whether_to_learn_is_yes_or_no(planted, learn):
    with pytest.raises(BadInput, match=r"learn is .*; it must be True, False or None"):
        amends.repair(*planted[:4], learn=learn)


@pytest.mark.parametrize(
    ("failures", "examples", "right", "outweighs"),
    [(30, 60, 0, False), (31, 60, 0, True), (124, 60, 3, True), (124, 60, 47, False), (200, 60, 1000, False),
     (301, 60, 1000, True)],
)  # fmt: skip
def test_failures_that_outweigh_all_else_are_not_learned(failures, examples, right, outweighs):
    """Twice as heavy as an example of D; right examples are four times as heavy, and at most twice as many as D."""
    assert DEFAULT.learning.outweighs(failures, examples, right) is outweighs


@pytest.mark.parametrize(("learn", "learned"), [(None, False), (True, True)])
def test_a_repair_does_not_learn_what_outweighs_its_training_data(learn, learned):
    torch.manual_seed(0)
    x = torch.randn(260, 4)
    y, model = (x[:, 0] > 0).long(), torch.nn.Linear(4, 2)
    wrong = model(x).argmax(1) != y
    train = x[:20], y[:20]
    made = amends.repair(model, train, (x[20:][wrong[20:]], y[20:][wrong[20:]]), learn=learn, anyway=True, remove=3,
                         identify_with=amends.methods.grad_dot(), budget="quick")  # fmt: skip
    assert any(row["by"] == "causes, failures learned" for row in made.metrics["curve"]) is learned
