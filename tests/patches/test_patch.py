"""A patch leads from one state of a model to another, and back to the bit; anything else is refused."""

from __future__ import annotations

import json
import struct
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.errors import BadInput
from amends.patches.codes import Damaged, along, bits, difference, packed, unpacked
from amends.patches.moves import Grid, LowRank
from amends.patches.names import tensors
from amends.patches.patch import between
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
                moves[name] = as_grid(delta.reshape(-1), -6)
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
    header = json.loads(data[8 : 8 + length])
    said = json.loads(header["__metadata__"]["amends_patch"])
    said["format"] = 2
    header["__metadata__"]["amends_patch"] = json.dumps(said)
    text = json.dumps(header).encode()
    flipped = {f"bit {at}": data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
               for at in (9, 200, 8 + length + 1, len(data) - 3)}  # fmt: skip
    return {"empty": b"", "cut": data[:-7], "cut in the header": data[:100], "longer": data + b"\0",
            "other words": len(text).to_bytes(8, "little") + text + data[8 + length :], **flipped}  # fmt: skip


def test_damage_is_found(tmp_path):
    model = MODELS["float32"]
    patch = small(model, moved(model))
    for name, data in damaged(patch.data).items():
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(data)
        with pytest.raises(BadInput, match=rf"the patch is damaged \(.*\); patch .*{name}"):
            amends.Patch.read(path)


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
    assert LowRank.of(move.about, move.parts(), 63).delta().tolist() == move.delta().tolist()
    grid = Grid(rng.integers(-3, 4, 50).astype(np.int8), -8)
    assert Grid.of(grid.about, grid.parts(), 50).delta().tolist() == grid.delta().tolist()


def test_weights_that_lose_digits_come_back():
    """Numbers from far below to far above the step, both zeros among them: adding rounds, taking off does not."""
    model = nn.Linear(2000, 1, bias=False)
    with torch.no_grad():
        size = torch.logspace(-30, 2, 2000) * torch.where(torch.arange(2000) % 2 == 0, 1.0, -1.0)
        size[:2] = torch.tensor([0.0, -0.0])
        model.weight.copy_(size)
    patch = between(tensors(model), tensors(moved(model)), {"weight": as_grid(np.full(2000, 0.03), -8)})
    there = amends.apply(model, patch)
    assert not np.array_equal(bits(there.weight - 0.03), bits(model.weight))
    assert same(patch.revert(there), model)
