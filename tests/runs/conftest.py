"""A run folder written by hand: as small as one can be."""

from __future__ import annotations

import json

import pytest

from amends.runs import manifest

SHARES = {"before": 0.0, "after": 0.75, "n": 4}
METRICS = {
    "verdict": "repaired", "reason": "75% of the holdout failures are right", "query": SHARES, "holdout": SHARES,
    "remaining": None, "overall": SHARES, "evaluation": SHARES, "intervals": {}, "changes": {}, "p_values": {},
    "fixed": 3, "newly_broken": 0, "removed": 1, "controls": {}, "groups": {}, "classes": {}, "harmed": [], "keep": {},
    "suspects": [], "duplicates": [], "warnings": [], "fixed_at": [0, 1, 2], "broken_at": [],
    "identified_with": [{"name": "ewc", "weight": 1.0}],
}  # fmt: skip
CAUSES = """\
id,index,rank,score,given,predicted,predicted_after,p_given,p_given_after,suggested,group,conflicts_with,decision,note
2,2,1,3.5,007,NA,NA,0.25,0.125,NA,1→7,"[4, 0]",remove,first
0,0,2,1.25,NA,007,007,0.5,,NA,1→7,[],,
"""
CURVE = "by,removed,holdout,holdout_low,remaining,refits\nnothing,0,0.25,0.2,,3\ncauses,1,0.75,0.7,,3\n"
RUN = '[run]\nformat = 3\nname = "first"\nstate = "done"\nmade = "2024-05-01T10:00:00+00:00"\n\n[data.train]\nn = 3\n'


@pytest.fixture
def folder(tmp_path):
    """A finished run of three training examples, one of them removed."""
    made = tmp_path / "runs" / "first"
    (made / "dataset").mkdir(parents=True)
    (made / "run.toml").write_text(RUN)
    (made / "metrics.json").write_text(json.dumps(METRICS))
    (made / "causes.csv").write_text(CAUSES)
    (made / "curve.csv").write_text(CURVE)
    (made / "dataset/kept.csv").write_text("index,id,given\n0,0,NA\n1,1,007\n")
    manifest.seal(made)
    return made
