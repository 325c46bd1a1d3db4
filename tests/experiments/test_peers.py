"""The comparison with other tools: one that is there is measured, one that is not is named."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import peers
from tests.worlds import turned_corner


def test_a_tool_is_measured_in_a_process_of_its_own_or_named_with_the_reason(tmp_path, capsys):
    net, train, failures, remaining, turned = turned_corner()
    wrong = np.isin(np.arange(len(train[1])), turned)
    torch.save((net, train, wrong, failures, remaining), tmp_path / "world.pt")
    rows = {}
    for name in ("amends, grad_dot", "TRAK"):
        rows[name] = [peers.measured(tmp_path / "world.pt", name)]
    assert rows["amends, grad_dot"][0]["AP"] > wrong.mean()
    assert rows["amends, grad_dot"][0]["private"] >= 0
    peers.show("here", rows)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "| TRAK | not run: ModuleNotFoundError: No module named 'trak' | | |"
    assert said[-2].startswith(f"| amends, grad_dot | {rows['amends, grad_dot'][0]['AP']:.3f} ± 0.000 | ")
