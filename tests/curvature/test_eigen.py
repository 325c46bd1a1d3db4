"""The eigenvectors of Kronecker factors, also where torch's routine gives up."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from amends.curvature import blocks


def test_where_float32_finds_no_end_float64_does(monkeypatch):
    routine, asked = torch.linalg.eigh, []

    def giving_up(matrix):
        asked.append(matrix.dtype)
        if matrix.dtype is torch.float32:
            raise RuntimeError("failed to converge")
        return routine(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", giving_up)
    a = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    values, vectors = blocks.eigen(a @ a.T)
    assert asked == [torch.float32, torch.float64]
    assert values.dtype is vectors.dtype is torch.float32
    assert_close(vectors @ torch.diag(values) @ vectors.T, a @ a.T, rtol=1e-5, atol=1e-5)
