"""Newton removal and its line search."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from amends import methods
from amends.algorithm.treat import treatment
from amends.curvature import GGN, Dense
from amends.editors import Step, open_ended
from amends.evidence import flatten
from amends.remember import Laplace
from tests.conftest import at_optimum, factor


def test_newton_s_line_search_takes_the_best_size_the_guard_allows():
    x, y, network, _ = at_optimum()
    data = factor(network, x, y)
    q = Laplace(Dense(GGN(), prior=0.7))(data)
    editor = methods.newton(Dense(GGN(), prior=0.7), line_search=True).editor
    sizes = [float((flatten(p.mean) - flatten(q.mean)).norm()) for p in editor(q, -data[:5])]
    one = float((flatten(treatment(q, Step(), data[:5]).mean) - flatten(q.mean)).norm())
    assert_close(torch.tensor(sizes[1:]) / one, torch.tensor([2.0**k for k in range(-4, 6)]), rtol=1e-5, atol=0)
    assert open_ended(editor, q, -data[:5])
    assert not open_ended(Step(), q, -data[:5])
