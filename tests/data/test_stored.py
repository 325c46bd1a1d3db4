"""Sets that stay on disk: the same scores as in memory, one look through them, and a word about what cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

import amends
from amends.data import given, source, stored
from amends.data.examples import examples
from amends.data.hashes import set_hash
from amends.data.stored import Stored
from amends.errors import BadInput
from tests.worlds import planted_digits


class Items(Dataset):
    """A set that counts how often each of its items is read; some of them may be damaged."""

    def __init__(self, x, y, damaged=()):
        self.x, self.y, self.damaged = x, y, set(damaged)
        self.read = np.zeros(len(x), dtype=int)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        self.read[i] += 1
        if i in self.damaged:
            raise OSError("truncated file")
        return self.x[i], int(self.y[i])


def scores(train, world, method):
    model, _, failures, remaining, _ = world
    return amends.identify(model, train, failures, remaining, method=method, batch_size=64).scores


@pytest.fixture(scope="module")
def world():
    return planted_digits()


@pytest.mark.parametrize("workers", [1, 3])
def test_the_scores_are_those_of_the_set_in_memory_to_the_bit(world, workers):
    items = Items(*world[1])
    method = amends.methods.functional()
    found = scores(stored(items, workers=workers), world, method)
    assert np.array_equal(found, scores(world[1], world, method))
    assert items.read.min() == 2  # looked through once, and scored once


def test_a_whole_repair_does_as_it_does_in_memory(world):
    """Failures are learned from as well: they are joined to the set without reading it into memory."""
    model, train, failures, remaining, _ = world
    ask = {"budget": "quick", "learn": True, "remove": 40}
    lazy = amends.repair(model, stored(Items(*train)), failures, remaining, **ask)
    usual = amends.repair(model, train, failures, remaining, **ask)
    assert isinstance(lazy.given["train"].examples.x, Stored)
    assert lazy.metrics == usual.metrics
    assert lazy.causes.equals(usual.causes)
    assert all(torch.equal(lazy.after[k], v) for k, v in usual.after.items())


def test_a_large_dataset_stays_where_it_is_by_itself(world, monkeypatch):
    monkeypatch.setattr(given, "STAYS", 10_000)
    monkeypatch.setattr(given, "MOST", 200)
    small, large = Items(world[1][0][:30], world[1][1][:30]), Items(*world[1])
    assert isinstance(examples(small, "train").x, torch.Tensor)
    assert isinstance(examples(large, "train").x, Stored)


def test_a_mapped_file_is_not_copied(tmp_path):
    rows = np.random.default_rng(0).random((50, 3), dtype=np.float32)
    np.save(tmp_path / "x.npy", rows)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    made = examples((mapped, np.arange(50) % 2), "train")
    assert made.x.data_ptr() == mapped.ctypes.data
    assert set_hash(made.x, made.y) == set_hash(torch.tensor(rows), torch.arange(50) % 2)


def test_what_a_batch_holds_is_a_copy_in_the_order_asked_for(world):
    """A model may write into what it is given; the user's data stays as it is."""
    x, y = world[1]
    for made in (examples((x, y), "train"), examples(stored(Items(x, y)), "train")):
        for rows in (np.arange(20, 90), np.array([5, 3, 4]), np.array([7, 8, 10]), np.array([9]), np.array([2, 2, 3])):
            found = made[rows].fetch(0, len(rows))[0]
            assert torch.equal(found, x[rows])
            found.fill_(-1.0)
        assert float(x.min()) >= 0


def test_an_item_that_cannot_be_read_is_named_or_left_out(world):
    x, y = world[1]
    broken = Items(x, y, damaged=[7, 200])
    with pytest.raises(BadInput, match=r"train\[7\] cannot be read \(OSError: truncated file\); correct it, or"):
        examples(stored(broken), "train")
    with pytest.warns(UserWarning, match=r"2 of the 300 examples of train cannot be read and are left out, train\[7\]"):
        made = examples(stored(broken, on_error="skip"), "train")
    left = np.setdiff1d(np.arange(300), [7, 200])
    assert np.array_equal(made.own()["row"], left)
    assert torch.equal(made.fetch(0, 298)[0], x[left])
    assert torch.equal(made.y, y[left])


def test_a_file_that_goes_bad_later_is_named(world):
    items = Items(*world[1])
    made = examples(stored(items), "train")
    items.damaged.add(64)
    with pytest.raises(BadInput, match=r"train\[64\] cannot be read"):
        list(made.batches([(0, 50), (50, 100)], torch.device("cpu")))


class Sequences(Dataset):
    """Rows of several lengths, and how to make a batch of them."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.arange(1, 2 + i % 5), i % 2

    @staticmethod
    def collate_fn(items):
        rows = nn.utils.rnn.pad_sequence([x for x, _ in items], batch_first=True)
        return {"tokens": rows, "mask": rows > 0}, torch.tensor([y for _, y in items])


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(8, 4), nn.Linear(4, 2)

    def forward(self, tokens, mask):
        return self.out((self.words(tokens) * mask[..., None]).sum(1))


def test_inputs_of_several_sizes_go_through_the_dataset_s_own_collate():
    torch.manual_seed(0)
    model, data = Bag(), Sequences()
    padded = data.collate_fn([data[i] for i in range(40)])
    failures = ({k: v[:6] for k, v in padded[0].items()}, 1 - padded[1][:6])
    found, whole = (amends.identify(model, train, failures, method=amends.methods.grad_dot(), batch_size=3).scores
                    for train in (stored(data), padded))  # fmt: skip
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-7)  # padding adds zeros in another order
    with pytest.raises(BadInput, match="cannot be stacked"):
        examples(stored(_without(data)), "train")


def _without(data):
    return [data[i] for i in range(len(data))]


def test_what_cannot_stay_or_be_checked_is_refused(world):
    class Stream(IterableDataset):
        def __iter__(self):
            yield torch.zeros(2), 0

    x, y = world[1]
    for data in (Stream(), iter([(x[0], 0)])):
        with pytest.raises(BadInput, match="stream without positions, so scores could not find their way back; save"):
            examples(data, "train")
        with pytest.raises(BadInput, match="no positions to read from"):
            stored(data)
    bad = x.clone()
    bad[290, 3] = float("nan")
    with pytest.raises(BadInput, match=r"train\[290\] holds NaN or infinity"):
        examples(stored(Items(bad, y)), "train")
    rows = [(torch.zeros(3 if i < 299 else 4), 0) for i in range(300)]
    with pytest.raises(BadInput, match=r"cannot be stacked|two shapes"):
        examples(stored(rows), "train")
    with pytest.raises(BadInput, match='on_error is \'ignore\'; stored; give "stop" or "skip"'):
        stored(Items(x, y), on_error="ignore")
    with pytest.raises(BadInput, match="workers is 0"):
        stored(Items(x, y), workers=0)


def test_a_large_hugging_face_dataset_stays_on_disk(world, tmp_path, monkeypatch):
    from datasets import Dataset as Arrow

    x, y = (part.numpy() for part in world[1])
    Arrow.from_dict({"pixels": x, "label": y}).save_to_disk(tmp_path / "set")
    saved = Arrow.load_from_disk(tmp_path / "set")
    usual = examples(saved, "train")
    monkeypatch.setattr(given, "STAYS", 10_000)
    kept = examples(saved, "train")
    assert (type(usual.x), type(kept.x)) == (torch.Tensor, Stored)
    assert torch.equal(kept.fetch(13, 77)[0].float(), usual.fetch(13, 77)[0].float())
    assert torch.equal(kept.y, usual.y)
    method = amends.methods.grad_dot()
    assert np.array_equal(scores(saved, world, method), scores(usual, world, method))


def test_a_large_folder_of_images_stays_on_disk(world, tmp_path, monkeypatch):
    from PIL import Image

    for i, (row, label) in enumerate(zip(world[1][0][:60], world[1][1][:60], strict=True)):
        (tmp_path / str(int(label))).mkdir(exist_ok=True)
        Image.fromarray((row.reshape(8, 8) * 255).byte().numpy()).save(tmp_path / str(int(label)) / f"{i:02}.png")
    usual = amends.data.read(tmp_path, gray=True)
    monkeypatch.setattr(source, "STAYS", 4_000)
    monkeypatch.setattr(source, "MOST", 100)
    kept = amends.data.read(tmp_path, gray=True)
    assert (type(usual.x), type(kept.x)) == (torch.Tensor, Stored)
    assert torch.equal(kept.x[torch.arange(60)], usual.x)
    assert set_hash(kept.x, kept.y) == set_hash(usual.x, usual.y)
    some = kept[np.array([5, 3, 59])]
    assert torch.equal(some.x[torch.arange(3)] if isinstance(some.x, Stored) else some.x, usual.x[[5, 3, 59]])
    (tmp_path / usual.columns["path"][7]).write_bytes(b"no image")
    with pytest.raises(BadInput, match=str(usual.columns["path"][7])):
        kept.x[torch.arange(5, 10)]
