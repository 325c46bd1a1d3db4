"""What `treat` returns."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import torch

import amends
from amends.editors import follow
from amends.editors.climb import Adam
from amends.evidence.prepare import prepare


def test_seeds_matter_and_numpy_numbers_are_numbers(digits):
    net, train, failures, remaining, _ = digits
    a, b, c = (amends.treat(net, train, [1, 2], seed=s, batch_size=np.int64(64))[0].weight for s in (0, 1, 1))
    assert not torch.equal(a, b)
    assert torch.equal(b, c)
    result = amends.repair(net, train, failures, remaining, remove=np.int64(60), seed=np.int64(2))
    assert result.metrics["curve"][1]["removed"] == 60
    assert json.loads(json.dumps(result.metrics)) == result.metrics


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


def test_tables_and_causes_as_pandas_gives_them(result, digits):
    net, (x, y), failures, _, _ = digits
    table = pd.DataFrame(x[:80].numpy()).rename(columns=str).assign(label=y[:80], note="text")
    method = amends.methods.grad_dot()
    expected = amends.identify(net, (x[:80], y[:80]), failures, method=method)
    assert np.allclose(amends.identify(net, table, failures, method=method).scores, expected.scores, rtol=1e-5)
    one = amends.treat(net, (x, y), result.causes)
    two = amends.treat(net, (x, y), result.causes["index"].tolist())
    assert torch.equal(one[0].weight, two[0].weight)
    assert len(repr(expected)) < 300


def test_a_large_model_is_treated_in_the_small_steps_of_a_repair(monkeypatch, digits):
    net, train, _, _, _ = digits
    as_small, gone = amends.treat(net, train, [1, 2]), amends.settings.Settings.of("default", large=True).forgetting
    monkeypatch.setattr("amends.evidence.params.LARGE", 1)
    as_large = amends.treat(net, train, [1, 2])
    usual = amends.settings.Settings(forgetting=gone)
    by_hand = amends.treat(net, train, [1, 2], method=amends.methods.Default(settings=usual))
    assert torch.equal(as_large[0].weight, by_hand[0].weight)
    assert not torch.equal(as_large[0].weight, as_small[0].weight)
