"""The user's own columns, from what they pass to what they are shown; and failures named in several ways."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import amends
from amends.data import Records, examples, read, select
from amends.data.failures import positions
from amends.errors import BadInput
from amends.evaluation.predictions import failing
from amends.tables.columns import COLUMNS


@pytest.fixture(scope="module")
def world():
    """Real digits, a linear model that learned some of them."""
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16.0, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    net = nn.Linear(64, 10)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[:300]), y[:300]).backward()
        optimiser.step()
    return net, x, y


def known(x, y, n=60):
    names = np.array([f"scan-{i:03}" for i in range(n)], dtype=object)
    return Records(x[:n], y[:n], {"id": names, "score": np.arange(n) * 2.0, "source": np.array(["a", "b"] * (n // 2))})


def test_columns_stay_with_their_examples(world):
    _, x, y = world
    data = examples(known(x, y), "train")
    part = data[[7, 3, 5]][1:]
    assert part.own()["id"].tolist() == ["scan-003", "scan-005"]
    assert (data[:2] + data[4:5]).own()["id"].tolist() == ["scan-000", "scan-001", "scan-004"]
    assert (data[:2] + examples((x[:3], y[:3]), "failures")).own() == {}
    assert part.to(torch.device("cpu")).own()["score"].tolist() == [6.0, 10.0]


def test_columns_reach_the_tables_a_person_reads(world):
    net, x, y = world
    wrong = np.flatnonzero(failing(net, (x, y)))
    ids = np.array([f"s{i}" for i in range(120)], dtype=object)
    train = Records(x[:120], y[:120], {"id": ids, "score": np.arange(120), "note": y[:120].numpy()})
    influence = amends.identify(net, train, (x[wrong], y[wrong]), method=amends.methods.grad_dot())
    frame = influence.frame()
    assert list(frame.columns) == [*COLUMNS, "own_score", "note"]
    assert frame["id"].tolist() == [f"s{i}" for i in frame["index"]]
    assert frame["own_score"].tolist() == frame["index"].tolist()
    assert not np.array_equal(frame["score"], frame["own_score"])
    repaired = amends.repair(
        net, train, (x[wrong], y[wrong]), remove=5, identify_with=influence.scores,
        treat_with=amends.methods.newton(amends.methods.diagonal()),
    )  # fmt: skip
    shown = amends.tables.frames.causes_frame(repaired.rounds[0].search.influence, np.array([4, 2]))
    assert shown["id"].tolist() == ["s4", "s2"]
    assert list(repaired.causes.columns) == list(frame.columns)


def test_pandas_keeps_what_is_no_input(world):
    _, x, y = world
    frame = pd.DataFrame(x[:20].numpy()).assign(
        label=y[:20].numpy(), id=range(100, 120), idx=5, note="text", when=pd.Timestamp("2024")
    )
    data = examples(frame, "train")
    assert data.x.shape == (20, 64)  # neither id nor idx is a feature
    assert data.features == tuple(map(str, range(64)))
    assert data.own()["id"].tolist() == list(range(100, 120))
    assert set(data.columns) == {"id", "idx", "note", "when"}
    asked = examples(pd.DataFrame({"id": [1, 2], "a": [3, 4], "label": [0, 1]}), "train", accepts={"id"})
    assert asked.x["id"].tolist() == [1, 2]  # unless the model takes it
    named = frame.assign(label=pd.Categorical.from_codes(y[:20].numpy() % 2, ["even", "odd"]))
    assert examples(named, "train").classes == ("even", "odd")
    assert examples(named, "train").y.tolist() == (y[:20] % 2).tolist()


class Moody(torch.utils.data.Dataset):
    """The third item raises, or the set grows as it is read."""

    def __init__(self, raises=None):
        self.raises, self.asked = raises, 0

    def __len__(self):
        self.asked += self.raises is None
        return 5 + (self.asked > 2)

    def __getitem__(self, i):
        if self.raises is not None and i == 3:
            raise self.raises
        return torch.zeros(2), 0


def test_a_set_that_raises_or_changes_its_length_is_refused():
    for error in (OSError("gone"), KeyError("x"), IndexError("too far")):
        with pytest.raises(BadInput, match=rf"train\[3\] cannot be read \({type(error).__name__}: .*; correct it"):
            examples(Moody(error), "train")
    with pytest.raises(BadInput, match="train had 5 examples and has 6 now; pass a set whose length stays the same"):
        examples(Moody(), "train")


def test_two_columns_of_one_name_are_refused():
    twice = pd.DataFrame([[1.0, 2.0, 0, 1]], columns=["a", "b", "label", "label"])
    with pytest.raises(BadInput, match="two columns are named 'label'; train; rename one of them"):
        examples(twice, "train")


def test_hugging_face_keeps_what_is_no_input(world):
    datasets = pytest.importorskip("datasets")
    _, x, y = world
    features = datasets.Features(
        {"text": datasets.Value("string"), "pixels": datasets.List(datasets.Value("float32")),
         "id": datasets.Value("int64"), "label": datasets.ClassLabel(names=list("0123456789")),
         "image": datasets.Image()}
    )  # fmt: skip
    rows = {"text": ["a", "b"], "pixels": x[:2].tolist(), "id": [7, 8], "label": y[:2].tolist(), "image": [None, None]}
    data = examples(datasets.Dataset.from_dict(rows, features=features), "train")
    assert torch.equal(data.x, x[:2])
    assert data.own()["text"].tolist() == ["a", "b"]
    assert data.own()["id"].tolist() == [7, 8]
    assert "image" not in data.columns
    assert data.classes == tuple("0123456789")

    def made(batch):
        return {"x": [torch.tensor(p) * 2 for p in batch["pixels"]], "label": batch["label"]}

    late = examples(datasets.Dataset.from_dict(rows, features=features).with_transform(made), "train")
    assert torch.equal(late.x, x[:2] * 2)


def test_records_that_do_not_fit():
    x, y = torch.zeros(3, 2), torch.zeros(3).long()
    with pytest.raises(BadInput, match="the set has 3 inputs but 2 labels"):
        Records(x, y[:2])
    with pytest.raises(BadInput, match="column note of here has 2 entries but 3 labels"):
        Records(x, y, {"note": np.zeros(2)}, where="here")
    with pytest.raises(BadInput, match="training view of the set has 2 examples, but the scoring view has 3"):
        Records(x, y, training=[1, 2])
    with pytest.raises(BadInput, match="train has no examples"):
        examples(Records(x[:0], y[:0]), "train")


def test_select(world, tmp_path):
    _, x, y = world
    data = known(x, y)
    for which in ([5, 2], np.array([5, 2]), ["scan-005", "scan-002"], torch.tensor([5, 2])):
        chosen = select(data, which)
        assert chosen.columns["id"].tolist() == ["scan-005", "scan-002"]
        assert torch.equal(chosen.x, x[[5, 2]])
        assert torch.equal(chosen.y, y[[5, 2]])
    mask = np.zeros(60, bool)
    mask[[2, 5]] = True
    assert select(data, mask).columns["score"].tolist() == [4.0, 10.0]
    for text in ("id\nscan-002\nscan-005\n", "index\n2\n5\n", "rank,id,index\n1,scan-002,9\n2,scan-005,9\n"):
        (tmp_path / "list.csv").write_text(text)
        assert positions(data, tmp_path / "list.csv").tolist() == [2, 5]
        assert len(select(data, str(tmp_path / "list.csv"))) == 2
    numbered = Records(x[:3], y[:3], {"id": np.array([30, 10, 20])})
    assert positions(numbered, ["10"]).tolist() == [1]  # ids are text, whatever they look like
    assert positions(numbered, [1]).tolist() == [1]
    plain = Records(x[:3], y[:3])
    (tmp_path / "list.csv").write_text("id,index\n0,2\n")
    assert positions(plain, tmp_path / "list.csv").tolist() == [2]
    paths = Records(x[:2], y[:2], {"path": np.array(["a/1.png", "b/2.png"], dtype=object)})
    assert positions(paths, ["b/2.png"]).tolist() == [1]


def listed(path, text):
    (path / "list.csv").write_text(text)
    return path / "list.csv"


WRONG = {
    "position": (lambda d, p: [3, 60], "position 60 is chosen, but there are 60 examples; select"),
    "negative position": (lambda d, p: [-1], "position -1"),
    "position twice": (lambda d, p: [4, 2, 4], "position 4 is listed 2 times"),
    "unknown id": (lambda d, p: ["scan-001", "scan-0001"], "no example has the id 'scan-0001'; .*did you mean scan-0"),
    "id twice": (lambda d, p: ["scan-001", "scan-001"], "id 'scan-001' is listed 2 times"),
    "mask of another set": (lambda d, p: np.ones(3, bool), "the mask has 3 entries, 3 of them true, for 60 examples"),
    "mask of nothing": (lambda d, p: np.zeros(60, bool), "0 of them true"),
    "nothing": (lambda d, p: [], "no examples are chosen"),
    "fractions": (lambda d, p: [0.5], "the choice holds float64"),
    "no such list": (lambda d, p: p / "gone.csv", "list cannot be read .*gone.csv"),
    "list of something": (
        lambda d, p: listed(p, "ids\n1\n"),
        "no column id or index; .*list.csv; there are|did you mean",
    ),
    "list of no numbers": (
        lambda d, p: listed(p, "index\n1\n1.5\n"),
        "index '1.5' is not a position; .*list.csv row 1",
    ),
    "empty list": (lambda d, p: listed(p, "id\n"), "no examples are chosen.*list.csv"),
    "unknown id in a list": (lambda d, p: listed(p, "id\nscan-1\n"), "no example has the id 'scan-1'; .*list.csv"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_choice_that_cannot_be_made(case, world, tmp_path):
    which, message = WRONG[case]
    data = known(*world[1:])
    with pytest.raises(BadInput, match=message) as caught:
        select(data, which(data, tmp_path))
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ids_must_tell_examples_apart(world):
    _, x, y = world
    twins = Records(x[:3], y[:3], {"id": np.array(["a", "b", "b"])})
    assert len(select(twins, ["a"])) == 1
    with pytest.raises(BadInput, match="2 examples have the id 'b'"):
        select(twins, ["b"])
    with pytest.raises(BadInput, match="the examples have no ids"):
        select(Records(x[:3], y[:3]), ["a"])
    with pytest.raises(BadInput, match="select takes records, got a tuple"):
        select((x, y), [1])


def test_failures_found_by_running_the_model(world):
    net, x, y = world
    wrong = failing(net, Records(x, y))
    with torch.no_grad():
        assert np.array_equal(wrong, (net(x).argmax(1) != y).numpy())
    assert 0 < wrong.sum() < len(y)
    assert len(select(Records(x, y), wrong)) == wrong.sum()
    with pytest.raises(BadInput, match=r"data\[0\] has label 10"):
        failing(net, (x, y + 10))
    line = nn.Linear(64, 1)
    target = line(x).detach() + torch.arange(len(x))[:, None] % 2
    near = failing(line, (x, target), likelihood=amends.likelihoods.Gaussian(bound=0.5), batch_size=100)
    assert near.tolist() == [bool(i % 2) for i in range(len(x))]


def test_ids_are_kept_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("key,a,label\n007,1,0\n12,2,1\n")
    data = read(tmp_path / "t.csv", id="key")
    assert data.columns["id"].tolist() == ["007", "12"]
    assert data.x.tolist() == [[1.0], [2.0]]
    assert positions(data, ["007"]).tolist() == [0]


def test_a_file_from_end_to_end(world, tmp_path):
    """Read, find the failures, identify: the ids of the file come back."""
    net, x, y = world
    frame = (
        pd.DataFrame(x.numpy())
        .rename(columns=lambda c: f"p{c}")
        .assign(label=y.numpy(), id=[f"n{i}" for i in range(len(y))])
    )
    frame[:200].to_csv(tmp_path / "train.csv", index=False)
    frame[200:].to_csv(tmp_path / "test.csv", index=False)
    train, test = read(tmp_path / "train.csv"), read(tmp_path / "test.csv")
    failures = select(test, failing(net, test))
    scored = amends.identify(net, train, failures, method=amends.methods.grad_dot()).frame()
    assert set(scored["id"]) == {f"n{i}" for i in range(200)}


def test_a_stream_of_hugging_face_is_named_as_one():
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"x": [[0.0, 1.0], [1.0, 2.0]], "label": [0, 1]}).to_iterable_dataset()
    with pytest.raises(BadInput, match="train is an IterableDataset, a stream without positions"):
        examples(made, "train")
