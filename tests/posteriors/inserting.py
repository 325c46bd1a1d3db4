"""r̃ of every example, once the failures are inserted."""

from __future__ import annotations

from amends.editors import follow
from amends.methods.ratio import first_order


def influence(q, editor, train, failures):
    after = follow(editor(q, failures))
    return first_order(q, after, train), after
