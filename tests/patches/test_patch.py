"""A patch leads from one state of a model to another, and back to the bit; anything else is refused."""

from __future__ import annotations

import struct
from copy import deepcopy
from dataclasses import replace
from math import lgamma, log

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.errors import BadInput
from amends.patches import store
from amends.patches.codes import Damaged, along, as_gaps, bits, difference, from_gaps, packed, unpacked
from amends.patches.moves import Grid, LowRank
from amends.patches.names import tensors
from amends.patches.patch import between
from amends.patches.reversible import minus, plus
from amends.patches.shrink import as_grid, as_low_rank
from tests.patches.kinds import made, moved, same

MODELS = made()


def small(model: nn.Module, after: nn.Module) -> amends.Patch:
    """A patch that comes near the weights after, with few numbers."""
    a, b = tensors(model), tensors(after)
    moves = {}
    for name in a:
        if a[name].is_floating_point() and a[name].numel():
            delta = (b[name].double() - a[name].double()).numpy()
            if delta.ndim == 2 and min(delta.shape) > 2:
                u, s, vt = np.linalg.svd(delta, full_matrices=False)
                moves[name] = as_low_rank(u[:, :2] * s[:2], vt[:2].T, 127)
            elif delta.any():
                moves[name] = as_grid(torch.from_numpy(delta).reshape(-1), -6)
    return between(a, b, moves)


@pytest.mark.parametrize("kind", MODELS)
def test_applied_and_reverted_to_the_bit(kind, tmp_path):
    model, after = MODELS[kind], moved(MODELS[kind])
    untouched = deepcopy(model)
    for number, patch in enumerate((between(tensors(model), tensors(after)), small(model, after))):
        patch.save(tmp_path / f"{number}.safetensors")
        patch = amends.Patch.read(tmp_path / f"{number}.safetensors")
        there = amends.apply(model, tmp_path / f"{number}.safetensors")
        assert same(there, after) is (number == 0)
        assert not same(there, model)
        assert same(patch.revert(there), model)
        assert patch.exact is (number == 0)
    assert same(model, untouched)


def test_a_tied_tensor_is_stored_once():
    model = MODELS["tied"]
    patch = between(tensors(model), tensors(moved(model)))
    assert list(patch.layers) == ["embed.weight"]
    there = amends.apply(model, patch)
    assert there.out.weight is there.embed.weight


def test_only_what_moved_is_in_it():
    model = MODELS["float32"]
    patch = between(tensors(model), tensors(moved(model, some=True)))
    assert list(patch.layers) == ["0.weight"]
    assert patch.layers["0.weight"].changed == 1
    assert between(tensors(model), tensors(model)).layers == {}


def test_other_weights_are_refused_by_name():
    model = MODELS["float32"]
    patch = between(tensors(model), tensors(moved(model)))
    other = deepcopy(model)
    with torch.no_grad():
        other[3].bias[0] += 1e-6
    with pytest.raises(BadInput, match=r"other weights: 3\.bias differs; model; give the weights it was made for"):
        amends.apply(other, patch)
    with pytest.raises(BadInput, match=r"of another model, without .* and with embed\.weight"):
        amends.apply(MODELS["tied"], patch)
    with pytest.raises(BadInput, match=r"0\.bias, 0\.weight, 3\.bias and 1 more differ"):
        amends.apply(MODELS["float16"], patch)


def test_applied_once_reverted_once():
    model = MODELS["float32"]
    patch = between(tensors(model), tensors(moved(model)))
    with pytest.raises(BadInput, match="is applied to these weights already; model; revert it first"):
        amends.apply(amends.apply(model, patch), patch)
    with pytest.raises(BadInput, match="is not applied to these weights; model; there is nothing to revert"):
        patch.revert(model)
    with pytest.raises(BadInput, match="patch is an int"):
        amends.apply(model, 3)


def test_a_wider_patch_asks_for_a_wider_model():
    narrow = deepcopy(MODELS["bfloat16"])
    wide = deepcopy(narrow).float()
    patch = between(tensors(wide), tensors(moved(wide)))
    with pytest.raises(BadInput, match=r"is bfloat16, but the patch is of float32 weights; model; load the model in f"):
        amends.apply(narrow, patch)


def damaged(data: bytes) -> dict[str, bytes]:
    """A file of a patch, damaged in each way that is known."""
    length = struct.unpack("<Q", data[:8])[0]
    flipped = {f"bit {at}": data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
               for at in (9, 50, 8 + length + 1, 8 + length + 70, len(data) - 3)}  # fmt: skip
    return {"empty": b"", "cut": data[:-7], "cut in the header": data[:100], "longer": data + b"\0", **flipped}


def test_damage_is_found(tmp_path):
    model = MODELS["float32"]
    patch = small(model, moved(model))
    for name, data in damaged(patch.data).items():
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(data)
        with pytest.raises(BadInput, match=rf"the patch is damaged \(.*\); patch .*{name}"):
            amends.Patch.read(path)


@pytest.mark.parametrize("ids", [
    [3, 8, 1000, 1001], [0], [0, 1, 2], [5, 2**61], [], ["0", "1001", "7", "90"], ["scan-1", "scan-9"], ["007", "8"],
    [8, 3], [4, 4], [-1, 2], [1.5], ["7", "0", "90"], ["٣"],
])  # fmt: skip
def test_what_it_says_comes_back(ids, tmp_path):
    """Whether the ids are positions in order, which are coded by the gaps between them, or anything else."""
    model = MODELS["float32"]
    about = {"name": "digits", "verdict": "repaired", "removed": ids, "relabelled": {"12": "d3"}, "seed": 3}
    made = replace(between(tensors(model), tensors(moved(model))), about=about)
    made.save(tmp_path / "fix.safetensors")
    found = amends.Patch.read(tmp_path / "fix.safetensors")
    assert (found.about, found.data) == (about, made.data)
    assert [type(i) for i in found.about["removed"]] == [type(i) for i in ids]


@pytest.mark.parametrize(("n", "of"), [(90, 500), (900, 6000), (40, 50_000), (5000, 50_000), (20_000, 10**9)])
def test_positions_take_little_more_than_chance_says(n, of):
    """Against log2 of how many ways there are to draw so many."""
    drawn = np.sort(np.random.default_rng(0).choice(of, n, replace=False)).tolist()
    digits, made = as_gaps(drawn)
    least = (lgamma(of + 1) - lgamma(n + 1) - lgamma(of - n + 1)) / log(2) / 8
    assert len(made) <= 1.06 * least + 2
    assert from_gaps(n, digits, made) == drawn
    for broken in ((n, digits, made[:-2]), (10**12, digits, made), (n, 80, made), (n, 62, made)):
        with pytest.raises(Damaged):
            from_gaps(*broken)


def test_a_patch_of_another_format_is_refused(tmp_path, monkeypatch):
    model = MODELS["float32"]
    monkeypatch.setattr(store, "FORMAT", 9)
    small(model, moved(model)).save(tmp_path / "later.safetensors")
    monkeypatch.undo()
    with pytest.raises(BadInput, match=r"the patch was made by a later amends; patch .*later"):
        amends.Patch.read(tmp_path / "later.safetensors")


def test_what_is_no_patch(tmp_path):
    torch.save(MODELS["float32"].state_dict(), tmp_path / "pickle.safetensors")
    with pytest.raises(BadInput, match="damaged"):
        amends.Patch.read(tmp_path / "pickle.safetensors")
    with pytest.raises(BadInput, match="no such file"):
        amends.Patch.read(tmp_path / "none.safetensors")
    with pytest.raises(BadInput, match="this is a folder"):
        amends.Patch.read(tmp_path)


def test_what_somebody_packed_cannot_fill_the_memory():
    with pytest.raises(Damaged):
        unpacked(packed(bytes(range(256)) * 4000), 100)
    with pytest.raises(Damaged):
        unpacked(b"", 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_a_difference_of_bits_wraps_around(dtype):
    """The largest step there is, in both directions."""
    top = np.iinfo(dtype).max
    a, b = np.array([0, top, 5, top // 2], dtype), np.array([top, 0, 5, top // 2 + 1], dtype)
    way = difference(a, b)
    assert along(a, way).tolist() == b.tolist()
    assert along(b, way, back=True).tolist() == a.tolist()


def test_a_low_rank_is_the_same_sum_in_any_order():
    """Each partial sum is a whole number that float64 holds, so Python's own whole numbers must agree."""
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-127, 128, size).astype(np.int8) for size in ((9, 5), (5, 7)))
    exponents = (-30, -20, -28, -6, -12)
    move = LowRank(left, right, exponents)
    lowest = min(exponents)
    exact = [[sum(int(left[i, k]) * int(right[k, j]) << (exponents[k] - lowest) for k in range(5)) for j in range(7)]
             for i in range(9)]  # fmt: skip
    assert (move.delta() == np.ldexp(np.array(exact, dtype=np.float64).reshape(-1), lowest)).all()
    assert LowRank.of(move.about, move.parts, 63).delta().tolist() == move.delta().tolist()
    grid = Grid(rng.integers(-3, 4, 50).astype(np.int8), -8)
    assert Grid.of(grid.about, grid.parts, 50).delta().tolist() == grid.delta().tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_weights_that_lose_digits_come_back(dtype):
    """Numbers from far below to far above the step, both zeros and what the step leads to zero among them."""
    rng = np.random.default_rng(0)
    delta = rng.integers(-7, 8, 3000) * 2.0**-6
    weights = (torch.logspace(-7, 2, 3000, dtype=torch.float64) * torch.from_numpy(rng.choice([-1.0, 1.0], 3000))).to(
        dtype
    )
    weights[::7], weights[1::7], weights[2::7] = 0.0, -0.0, -torch.from_numpy(delta[2::7]).to(dtype)
    after, rest = plus(weights, delta)
    assert np.array_equal(bits(minus(after, delta, rest)), bits(weights))
    exact = weights.double() + torch.from_numpy(delta)
    step = np.maximum(np.spacing(np.abs(exact.numpy()).astype(np.float32)), np.spacing(weights.abs().float().numpy()))
    one = {torch.float64: 2.0**-29, torch.float32: 1.0, torch.float16: 2.0**13, torch.bfloat16: 2.0**16}[dtype]
    off = (after.double() - exact).abs().numpy()
    assert (off <= one * step + (2.0**-24 if dtype == torch.float16 else 0)).all()  # of the coarser of both, one step


def test_what_some_weights_lose_others_hold():
    """As many grow as shrink: of some 2,000 digits that rounding takes from 20,000 weights, few are left to be stored,
    and without room, each of them."""
    rng = np.random.default_rng(0)
    weights, delta = torch.from_numpy(rng.normal(size=20000) * 0.1).float(), rng.integers(-7, 8, 20000) * 2.0**-9
    growing = np.sign(weights.numpy()) * np.abs(delta)
    assert len(plus(weights, delta)[1]) < 60
    assert len(plus(weights, growing)[1]) > 500


def test_whole_numbers_take_no_more_than_their_frequencies_say():
    """Against Shannon's bound, with 2 % and 30 bytes for how often each is there."""
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 3.0):
        values = np.clip(np.rint(rng.normal(size=5000) * scale), -7, 7).astype(np.int8)
        shares = np.unique(values, return_counts=True)[1] / 5000
        least = -5000 * float((shares * np.log2(shares)).sum()) / 8
        made = packed(values.tobytes())
        assert len(made) <= 1.02 * least + 30
        assert unpacked(made, 5000) == values.tobytes()
        for broken in (made[:-3], made + b"1", made[:1]):
            with pytest.raises(Damaged):
                unpacked(broken, 5000)
