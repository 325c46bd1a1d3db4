"""Estimators with fit and predict, Lightning modules, and everything that only looks like a model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.errors import BadInput
from amends.evidence.network import Network
from amends.evidence.prepare import prepare
from amends.likelihoods import Categorical, Gaussian
from amends.models import load, module_of

skorch = pytest.importorskip("skorch")


def points(n=90, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def wrong_world():
    """Labels right of 1 are turned in half of the training set's examples there."""
    x, y = points()
    far = np.flatnonzero(x[:, 0] > 0.8)
    given = y.copy()
    given[far] = 0
    held_x, held_y = points(120, 1)
    return x, given, held_x, held_y


def softmaxed():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2), nn.Softmax(-1))


def plain(outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, outputs))


def fitted(net, x, y):
    torch.manual_seed(0)
    return net.fit(x, y)


OPTIONS = {"max_epochs": 40, "lr": 0.05, "optimizer": torch.optim.Adam, "verbose": 0, "train_split": None}


def test_a_classifier_with_probabilities_is_repaired_to_one_that_predicts():
    x, y, held_x, held_y = wrong_world()
    net = fitted(skorch.NeuralNetClassifier(softmaxed(), **OPTIONS), x, y)
    before = {k: v.clone() for k, v in net.module_.state_dict().items()}
    wrong = net.predict(held_x) != held_y
    result = amends.repair(
        net, (x, y), (held_x[wrong], held_y[wrong]), (held_x[~wrong], held_y[~wrong]),
        identify_with=amends.methods.ewc(), remove=0.2, learn=False,
    )  # fmt: skip
    assert isinstance(result.model, skorch.NeuralNetClassifier)
    assert result.model is not net
    assert all(torch.equal(v, before[k]) for k, v in net.module_.state_dict().items())
    assert set(result.model.predict(held_x)) <= {0, 1}
    after = amends.treat(net, (x, y), np.flatnonzero(x[:, 0] > 0.8), method=amends.methods.fine_tune(rate=0.02))
    assert (after.predict(held_x[wrong]) == held_y[wrong]).mean() > 0.5
    after.partial_fit(x, y)  # its optimiser goes on with its own weights
    assert not torch.equal(after.module_[0].weight, net.module_[0].weight)


def test_the_likelihood_is_that_of_the_criterion():
    """What amends climbs is what skorch descended, up to its mean."""
    x, y, *_ = wrong_world()
    weight = torch.tensor([0.3, 2.0])
    nets = {
        "probabilities": skorch.NeuralNetClassifier(softmaxed(), **OPTIONS),
        "logits": skorch.NeuralNetClassifier(plain(), criterion=nn.CrossEntropyLoss, **OPTIONS),
        "weighted": skorch.NeuralNetClassifier(
            plain(), criterion=nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1, reduction="sum"), **OPTIONS
        ),
        "binary": skorch.NeuralNetBinaryClassifier(
            plain(1), criterion=nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0)), **OPTIONS
        ),
    }
    for name, net in nets.items():
        net = fitted(net, x, y.astype(np.float32) if name == "binary" else y)
        data = prepare(net, None, None, 64, train=(x, y))["train"]
        ours = float(data.per_example(data.network.params).sum())
        wanted = torch.as_tensor(y, dtype=torch.float32 if name == "binary" else torch.long)
        loss = net.get_loss(net.infer(torch.as_tensor(x)).squeeze(), wanted, training=False).detach()
        assert_close(-ours, float(loss) * (1 if name == "weighted" else len(x)), rtol=1e-4, atol=1e-3)
        assert isinstance(data.network.likelihood.family, Categorical)
        ok = data.network.likelihood.right(data.outputs(data.network.params), torch.as_tensor(y)).numpy()
        assert (ok == (net.predict(x) == y)).all(), name


def test_a_regressor():
    x, _ = points()
    y = x[:, :1] * 2
    net = fitted(skorch.NeuralNetRegressor(plain(1), **OPTIONS), x, y)
    assert isinstance(module_of(net).likelihood, Gaussian)
    after = amends.treat(net, (x, y), [0, 1, 2], method=amends.methods.newton())
    assert after.predict(x).shape == (90, 1)


def test_a_likelihood_of_ones_own_sees_what_the_module_gives():
    x, y, *_ = wrong_world()
    net = fitted(skorch.NeuralNetClassifier(softmaxed(), **OPTIONS), x, y)
    opened = module_of(net, lambda p, t: p.log().gather(1, t[:, None])[:, 0])
    assert opened.module is net.module_
    net.criterion_ = nn.HuberLoss()
    with pytest.raises(BadInput, match="the likelihood of HuberLoss is not known"):
        module_of(net)


class Compiled(nn.Module):
    pass


Compiled.__name__ = "OptimizedModule"


def export():
    return torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),))


class Int8(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(2, 2)
        self.inside.weight = nn.Parameter(torch.zeros(2, 2, dtype=torch.int8), requires_grad=False)


def estimator():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


NO_MODELS = {
    "sklearn": (estimator, "a scikit-learn estimator has no gradients to follow"),
    "not fitted": (lambda: skorch.NeuralNetClassifier(plain()), "is not fitted"),
    "a class": (lambda: nn.Linear, "model is the class Linear"),
    "a path": (lambda: "model.pt", "load the model first, with amends.models.load"),
    "a function": (lambda: plain, "model is a function, expected a torch.nn.Module"),
    "exported": (export, "a torch.export program"),
    "compiled": (Compiled, "pass the module inside, model._orig_mod"),
    "parallel": (lambda: nn.DataParallel(plain()), "wrapped in DataParallel"),
    "quantised": (Int8, "inside is quantised (Linear)"),
}


@pytest.mark.parametrize("kind", NO_MODELS)
def test_what_is_no_model_is_refused_with_the_reason(kind):
    make, said = NO_MODELS[kind]
    with pytest.raises(BadInput) as caught:
        amends.identify(make(), (torch.zeros(2, 2), torch.zeros(2).long()), (torch.zeros(2, 2), torch.zeros(2).long()))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # it exists, so it is refused
def test_torchscript_is_refused():
    with pytest.raises(BadInput, match="a TorchScript module"):
        module_of(torch.jit.trace(plain(), torch.zeros(1, 2)))


def test_several_models_do_not_fit_into_one_net():
    x, y, *_ = wrong_world()
    net = fitted(skorch.NeuralNetClassifier(softmaxed(), **OPTIONS), x, y)
    several = amends.methods.ensemble(amends.methods.newton(), models=[module_of(net).module])
    with pytest.raises(BadInput, match="several models cannot go back into one NeuralNetClassifier"):
        amends.treat(net, (x, y), [0], method=several)


# --- Lightning --------------------------------------------------------------------------------

LIGHTNING = """
import lightning
import torch
from torch import nn

class Lit(lightning.LightningModule):
    def __init__(self, width=6):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A module trained by a Trainer that is still attached to it, and its checkpoint."""
    lightning = pytest.importorskip("lightning")
    folder = tmp_path_factory.mktemp("lightning")
    (folder / "lit.py").write_text(LIGHTNING)
    model = load(function="lit:Lit", folder=folder).model
    x, y, *_ = wrong_world()
    data = torch.utils.data.TensorDataset(torch.as_tensor(x), torch.as_tensor(y))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", default_root_dir=folder, enable_checkpointing=False, **quiet
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, 32))
    trainer.save_checkpoint(folder / "lit.ckpt")
    return folder, model


def quiet_lightning(test):
    for message in (
        "ignore:.*does not have many workers:UserWarning",  # advice, on machines with many cores
        "ignore:.*isinstance.*LeafSpec.*:FutureWarning",  # of its own use of torch
    ):
        test = pytest.mark.filterwarnings(message)(test)
    return test


@quiet_lightning
def test_a_lightning_module_and_its_checkpoint(trained, tmp_path):
    folder, model = trained
    loaded = load(function="lit:Lit", weights="lit.ckpt", folder=folder)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in loaded.model.state_dict().items())
    loaded.write(loaded.model, tmp_path)
    again = load(function="lit:Lit", weights=tmp_path / "model.safetensors", folder=folder)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in again.model.state_dict().items())


@quiet_lightning
def test_a_copy_does_not_drag_the_trainer_along(trained):
    _, model = trained
    assert model._trainer is not None
    assert Network.of(model, Categorical()).module._trainer is None
    x, y, *_ = wrong_world()
    after = amends.treat(model, (x, y), [0, 1], method=amends.methods.newton())
    assert after._trainer is None
    assert model._trainer is not None
    assert copy.deepcopy(after)(torch.as_tensor(x)).shape == (90, 2)
