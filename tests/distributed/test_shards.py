"""What a repair computes does not depend on how many processes share the work, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from amends.distributed.shards import BATCHES, SHARDS, spans
from amends.errors import BadInput
from amends.evidence.params import flatten
from tests.distributed import worlds
from tests.distributed.processes import in_group, sha256


def test_a_set_is_cut_by_its_size_and_its_batches_alone():
    for n in (1, 5, 28, 29, 157, 4 * 64 * 7, 4 * 64 * 7 + 1, 10**6 + 3):
        bounds = spans(n, 7)
        assert [a for a, _ in bounds] == [0, *(b for _, b in bounds[:-1])]
        assert bounds[-1][1] == n
        assert len(bounds) <= SHARDS
        assert all(a % 7 == 0 for a, _ in bounds)
        assert all(b - a >= min(n, BATCHES * 7) for a, b in bounds[:-1])
    assert spans(0, 7) == [(0, 0)]


def test_the_sum_is_that_of_the_shards_in_their_order():
    """In float64 between shards, and in the precision of the weights within one."""
    data = worlds.factor()
    assert data.network.dtype == torch.float32
    assert sha256(flatten(data.value_and_grad(data.network.params)[1])) == sha256(worlds.summed_by_hand())


def test_any_number_of_processes_gives_the_same_fisher_scores_causes_and_metrics(tmp_path):
    """97 examples, which neither 2, 3 nor 4 divides, in 4 shards, the last of them shorter."""
    alone = worlds.whole_repair()
    assert alone["verdict"] == "partly repaired"
    for world in (2, 3, 4):
        assert in_group(world, worlds.whole_repair, tmp_path) == [alone] * world


def test_whatever_is_summed_has_the_same_bits_in_three_processes(tmp_path):
    """157 examples in 6 shards, the last of them shorter."""
    assert in_group(3, worlds.everything, tmp_path) == [worlds.everything()] * 3


def test_a_whole_repair_is_the_same_in_three_processes(tmp_path):
    assert in_group(3, worlds.repaired, tmp_path) == [worlds.repaired()] * 3


def test_each_process_computes_its_own_shards_and_no_other(tmp_path):
    """Where a derivative is taken each computes all of them."""
    said = in_group(4, worlds.shares, tmp_path)
    batches = said[0][1]
    assert [r for *_, r in said] == [0, 1, 2, 3]
    assert sum(seen - batches for seen, _, _ in said) == batches == 23
    assert max(seen - batches for seen, _, _ in said) == 8


def test_more_processes_than_shards(tmp_path):
    assert in_group(4, worlds.two_shards, tmp_path) == [worlds.two_shards()] * 4


def test_works_that_do_not_depend_on_each_other_are_done_once(tmp_path):
    values = [[float(i)] * 2 for i in range(4)]
    said = in_group(2, worlds.shared_fits, tmp_path)
    assert [done for done, *_ in said] == [[0, 2, 4], [1, 3, 3]]
    assert [rest for _, *rest in said] == [[[0, 1, 2, 3], values, "work 4"]] * 2


def test_fits_are_shared_and_end_as_they_do_in_one_process(tmp_path):
    (same, every), said = worlds.refitted(), in_group(2, worlds.refitted, tmp_path)
    assert [mark for mark, _ in said] == [same] * 2
    assert max(here for _, here in said) < every


def test_one_fit_is_spread_over_processes_and_ends_with_the_same_bits(tmp_path):
    """Each step is summed over its shards, which the processes share; no tolerance is needed."""
    (mark, every), said = worlds.one_fit(), in_group(2, worlds.one_fit, tmp_path)
    assert [found for found, _ in said] == [mark] * 2
    assert max(here for _, here in said) < 0.75 * every


@pytest.mark.parametrize(("world", "wide"), [(2, True), (3, True), (3, False)])
def test_steps_that_are_spread_end_within_a_tolerance_and_alike_in_every_process(world, wide, tmp_path):
    """Only the order in which a step is added up differs, by 1e-16 or 6e-8 of it. Adam divides by the size of the
    gradient, so a fit keeps that; L-BFGS follows the difference of gradients, and magnifies it."""
    one, said = worlds.spread_fit(wide), in_group(world, worlds.spread_fit, tmp_path, wide)
    assert len({sha256(fit, scores) for fit, scores, _ in said}) == 1
    assert [seen for *_, seen in said] == [pytest.approx(one[-1] / world, rel=0.1)] * world
    for found, alone, within in zip(said[0], one, (1e-12, 1e-9) if wide else (1e-6, 5e-2), strict=False):
        assert np.linalg.norm(found - alone) <= within * np.linalg.norm(alone)


def test_more_processes_than_examples_share_a_step(tmp_path):
    assert in_group(3, worlds.spread_pair, tmp_path) == [worlds.spread_pair()] * 3


def test_what_must_happen_once_does(tmp_path):
    said = in_group(2, worlds.led, tmp_path, str(tmp_path))
    assert said == [((1, 0), "no; here; do it", "from 0", 1)] * 2
    assert (tmp_path / "log").read_text() == "once\n"


def test_a_large_table_is_read_by_one_process_of_a_machine(tmp_path):
    """The others have the same rows, of the same file; one that cannot open it reads for itself."""
    n, path = 400, tmp_path / "t.csv"
    x = np.random.default_rng(0).normal(size=(n, 3))
    rows = [f"{a},{b},{c},{'dog' if i == 390 else 'cat'},r{i}" for i, (a, b, c) in enumerate(x)]
    path.write_text("\n".join(["a,b,c,label,id", *rows]))
    hashed = sha256(x, torch.tensor([int(i == 390) for i in range(n)]), [f"r{i}" for i in range(n)])
    for another, files in ((9, [1, 0, 0]), (2, [1, 0, 1])):
        said = in_group(3, worlds.read_together, tmp_path, str(path), another)
        assert [mark for mark, *_ in said] == [hashed] * 3
        assert [made for _, made, _ in said] == files
        assert len({error for *_, error in said}) == 1
        assert "label 'dog' is not a class" in said[0][-1]
        assert "t.csv line 392" in said[0][-1]


@pytest.mark.parametrize(
    ("work", "what"),
    [(worlds.other_weights, "the model is not the same on every rank; ranks 0 and 1; load the same weights on each"),
     (worlds.more_data, "train is not the same on every rank; ranks 0 and 1; give each the whole set, in one order; "
                        "it is dealt out here")],
)  # fmt: skip
def test_processes_that_were_given_different_things_are_told(work, what, tmp_path):
    said = in_group(2, work, tmp_path)
    assert [type(e) for e in said] == [BadInput] * 2
    assert [str(e) for e in said] == [what] * 2


def test_a_process_that_is_gone_is_an_error_of_ours(tmp_path):
    lost = in_group(2, worlds.left_alone, tmp_path)
    assert lost[0].startswith("a process of the group was lost (")
    assert lost[0].endswith("); rank 0; start all of them again")


def test_one_process_computes_as_a_shard_of_its_own_would():
    """A small set is one shard, and its sum is not widened on the way."""
    data = worlds.factor()[:28]
    theta = data.network.params
    assert len(spans(len(data), data.batch)) == 1
    whole = flatten(data.value_and_grad(theta)[1])
    parts = [flatten(data[i : i + 7].value_and_grad(theta)[1]) for i in range(0, 28, 7)]
    assert np.array_equal(whole.numpy(), (((parts[0] + parts[1]) + parts[2]) + parts[3]).numpy())
