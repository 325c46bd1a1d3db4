"""Wrong things a person might pass: one clear line each, before anything is computed or ranked."""

from __future__ import annotations

import click
import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.cli.app import code_of, run
from amends.errors import BadInput, NonFinite
from tests.evidence.small import data, model


def spoiled(value, at=5):
    x, y = data()
    x[at, 2] = value
    return x, y


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return x @ self.w  # [batch], not [batch, classes]


class Pair(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


class Exploding(nn.Linear):
    def forward(self, x):
        return super().forward(x) * torch.where(x[:, :1] > 10, torch.inf, 1.0)


def frozen():
    net = model()
    for p in net.parameters():
        p.requires_grad_(False)
    return net


def broken_weights():
    net = model()
    with torch.no_grad():
        net.weight[0, 0] = torch.nan
    return net


def high_label():
    x, y = data()
    y[7] = 9
    return x, y


EMPTY = (torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))
CASES = {
    "empty failures": (lambda: amends.identify(model(), data(), EMPTY), "failures has no examples"),
    "empty train": (lambda: amends.identify(model(), EMPTY, data()), "train has no examples"),
    "label out of range": (lambda: amends.identify(model(), high_label(), data(3)), r"train\[7\] has label 9"),
    "negative label": (
        lambda: amends.identify(model(), data(), (torch.zeros(1, 4), torch.tensor([-1]))),
        r"failures\[0\] has label -1"),
    "NaN in train": (
        lambda: amends.identify(model(), spoiled(torch.nan), data(3)), r"train\[5\] holds NaN or infinity"),
    "inf in failures": (lambda: amends.identify(model(), data(), spoiled(torch.inf, 2)), r"failures\[2\] holds NaN"),
    "inf in remaining": (
        lambda: amends.identify(model(), data(), data(3), remaining=spoiled(-torch.inf, 0)),
        r"remaining\[0\] holds NaN"),
    "lengths differ": (
        lambda: amends.identify(model(), (data()[0], data()[1][:-1]), data(3)), "train has 12 inputs but 11 labels"),
    "cause outside train": (lambda: amends.treat(model(), data(), [3, 12]), "index 12, but train has 12 examples"),
    "negative cause": (lambda: amends.treat(model(), data(), [-1]), "index -1"),
    "mask of another set": (lambda: amends.treat(model(), data(), np.ones(5, bool)), r"mask has shape \[5\]"),
    "causes that are no positions": (lambda: amends.treat(model(), data(), [0.5]), "causes hold float64"),
    "everything a cause": (lambda: amends.treat(model(), data(), np.arange(12)), "all of train"),
    "k larger than N": (lambda: amends.identify(model(), data(), data(3)).top(13), "k is 13, but train has 12"),
    "negative k": (lambda: amends.identify(model(), data(), data(3)).top(-1), "k is -1"),
    "share above one": (lambda: amends.identify(model(), data(), data(3)).fraction(1.5), "share is 1.5"),
    "remove larger than N": (lambda: amends.repair(model(), data(), data(4), remove=13), "remove is 13 .*, but train"),
    "no trainable parameters": (lambda: amends.identify(frozen(), data(), data(3)), "no trainable parameters"),
    "weights not finite": (lambda: amends.identify(broken_weights(), data(), data(3)), "model parameter weight"),
    "output not [batch, classes]": (lambda: amends.identify(Wide(), data(), data(3)), r"expected \[batch, classes\]"),
    "output not a tensor": (lambda: amends.identify(Pair(4, 3), data(), data(3)), "returns a tuple"),
    "inputs of another shape": (
        lambda: amends.identify(model(), (torch.zeros(5, 9), torch.zeros(5).long()), data(3)),
        "cannot take the inputs of train"),
    "no model": (lambda: amends.identify("model.pt", data(), data(3)), "load the model first, with amends.models.load"),
    "no data": (lambda: amends.identify(model(), 7, data(3)), "train is an int, which cannot be read"),
    "method by name": (lambda: amends.identify(model(), data(), data(3), method="ewc"), "an object of amends.methods"),
    "method that does not treat": (
        lambda: amends.treat(model(), data(), [1], method=amends.methods.loss()), "does not treat"),
    "anchor without remaining": (
        lambda: amends.identify(model(), data(), data(3), method=amends.methods.functional()), "pass remaining"),
    "batch of nothing": (lambda: amends.identify(model(), data(), data(3), batch_size=0), "batch_size is 0"),
    "one failure": (lambda: amends.repair(model(), data(), data(1)), "there is only 1 failure"),
    "holdout of all": (lambda: amends.repair(model(), data(), data(4), holdout=1.0), "holdout is 1.0"),
    "groups of another set": (lambda: amends.repair(model(), data(), data(4), group_by=[1]), "group_by has shape"),
    "mask of zeros and ones": (
        lambda: amends.treat(model(), data(), np.array([0, 1] * 6, dtype=np.uint8)), "look like a mask"),
    "removal that is no number": (lambda: amends.repair(model(), data(), data(4), remove="10"), "remove is '10'"),
    "holdout that is no number": (lambda: amends.repair(model(), data(), data(4), holdout="a"), "holdout is 'a'"),
    "device that is not there": (lambda: amends.identify(model(), data(), data(3), device="banana"), "device banana"),
    "method that was not called": (
        lambda: amends.identify(model(), data(), data(3), method=amends.methods.ewc), r"of amends.methods; .*ewc\(\)"),
    "scores of another set": (
        lambda: amends.identify(model(), data(), data(3), method=lambda t, f: torch.zeros(3)), r"returns \[3\]"),
    "loss that was summed": (
        lambda: amends.identify(model(), data(), data(3), likelihood=lambda o, t: -nn.functional.cross_entropy(o, t)),
        "one log-likelihood per example"),
    "soft labels that are none": (
        lambda: amends.identify(model(), (data()[0], data()[0][:, :3]), data(3)), "do not sum to 1"),
    "one number for a label": (lambda: amends.identify(model(), (data()[0], 3), data(3)), "cannot be read as"),
    "labels as text": (
        lambda: amends.identify(model(), (data()[0], np.array(["a"] * 12)), data(3)), "labels of train"),
    "labels as floats": (
        lambda: amends.identify(model(), (data()[0], data()[1].float()), data(3)),
        "labels of train are .*expected whole numbers"),
    "ragged inputs": (
        lambda: amends.identify(model(), [(torch.zeros(4), 0), (torch.zeros(5), 1), (torch.zeros(4), 1)], data(3)),
        "cannot be stacked"),
    "two kinds of labels": (
        lambda: amends.treat(model(), (data()[0], torch.eye(3)[data()[1]]), [1], failures=data(3),
                             method=amends.methods.fine_tune(learn=True)), "are of two kinds"),
    "learning from nothing": (
        lambda: amends.treat(model(), data(), [1], method=amends.methods.fine_tune(learn=True)), "pass failures"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_a_value_error_in_one_line(case):
    call, message = CASES[case]
    with pytest.raises(BadInput, match=message) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value), "what and where; what to do"


def far():
    x, y = data()
    x[4, 0] = 11.0
    return x, y


def test_a_loss_that_is_not_finite_is_never_ranked():
    net = Exploding(4, 3)
    with pytest.raises(NonFinite, match=r"train\[4\]") as caught:
        amends.identify(net, far(), data(3))
    assert isinstance(caught.value, ArithmeticError)


def test_a_score_that_is_not_finite_is_never_ranked():
    def nan_scores(train, failures):
        return torch.tensor([0.0] * 6 + [torch.nan] + [1.0] * 5)

    with pytest.raises(NonFinite, match=r"the score is nan; train\[6\]"):
        amends.identify(model(), data(), data(3), method=nan_scores)


@pytest.fixture
def command(monkeypatch):
    """A command of the real program whose body is one library call."""

    def as_command(call):
        from amends.cli import app

        body = click.Command("demo", callback=call)
        monkeypatch.setattr(app.Lazy, "get_command", lambda self, ctx, name: body)
        return run(["demo"])

    return as_command


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_code_2_on_the_command_line(case, command, capsys):
    assert command(CASES[case][0]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_other_errors_have_their_codes(command, capsys):
    def raises(error):
        def call():
            raise error

        return call

    errors = amends.errors
    for error, code in [
        (errors.RunMismatch("x"), 3), (errors.Locked("x"), 4), (errors.DiskError("x"), 5), (errors.NonFinite("x"), 6),
        (errors.OutOfMemory("x"), 7), (MemoryError(), 7), (RuntimeError("x"), 70), (KeyboardInterrupt(), 130),
    ]:  # fmt: skip
        assert command(raises(error)) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert err.strip().count("\n") == 0
        assert "Traceback" not in err
    assert command(lambda: amends.identify(Exploding(4, 3), far(), data(3))) == 6
    assert code_of(ValueError("no error of ours")) == 70
    assert isinstance(errors.DiskError("x"), OSError)
    assert isinstance(errors.OutOfMemory("x"), MemoryError)


def test_no_arguments_show_the_help(capsys):
    assert run([]) == 0
    assert "Usage: amends" in capsys.readouterr().out


def test_debug_shows_the_traceback(command, capsys):
    assert command(CASES["empty failures"][0]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert run(["demo", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_model_that_writes_into_a_buffer_is_refused_by_the_name_of_the_buffer():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 2)
            self.register_buffer("times", torch.zeros(()))

        def forward(self, x):
            self.times += 1
            return self.net(x)

    data = torch.randn(6, 2), torch.tensor([0, 1] * 3)
    with pytest.raises(BadInput, match="forward changes the buffer times in place"):
        amends.identify(Counts(), data, data, method=amends.methods.grad_dot())
