"""What a person decided about single training examples: remove, keep, or relabel with a new label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.algorithm.selection import places
from amends.config.decisions import NEW, RELABEL, decided, words
from amends.data.targets import target_of
from amends.editors import Corrected, Relabel
from amends.errors import BadInput
from amends.evaluation.predictions import by_name, labels
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.methods import Method


def new_labels(causes: Any, train: Factor, where: str = "causes") -> dict[int, Tensor]:
    """Targets for the examples that a table of causes says to relabel, by position in train; none for anything else.

    BadInput where a label is missing or is none of this set, before anything is computed."""
    if "decision" not in getattr(causes, "columns", ()):
        return {}
    from amends.tables.cells import unguarded

    rows = decided(causes, where)
    rows = rows[words(rows, "decision") == RELABEL]
    y, found = train.examples.y, {}
    at = places(rows, len(train), train.examples.names())
    named = "index" if "index" in rows else "id"
    for place, index, word in zip(at.tolist(), rows[named], words(rows, NEW), strict=True):
        here = f"{where} at {named} {index}"
        if not word:
            raise BadInput(f"the decision is relabel, but new_label is empty; {here}; write the label it should have")
        classes = train.examples.classes
        found[place] = target_of(word if word in classes else unguarded(word), y, classes, here).to(y)
        if torch.equal(found[place], y[place]):
            raise BadInput(f"the label is {word} already, and the decision is relabel; {here}; write keep or remove")
    if found:
        _checked(found, train, where)
    return found


def _checked(found: Mapping[int, Tensor], train: Factor, where: str) -> None:
    """BadInput that names the first example whose new label the model cannot have."""
    at, network = np.array(list(found)), train.network
    changed = train.examples[at].with_targets(torch.stack(list(found.values())))
    try:
        network.check(replace(changed, name=NEW))
    except BadInput:
        for i in range(len(changed)):
            try:
                network.check(replace(changed[np.array([i])], name=NEW))
            except BadInput as e:
                why = str(e).partition(";")[0].removeprefix(f"{NEW}[0] has ")
                here = f"{where} at index {at[i]}"
                raise BadInput(f"new_label is {why}; {here}; write one like those given") from e
        raise


def corrected(method: Method, labels: Mapping[int, Tensor], train: Factor) -> Method:
    """The same treatment; what it forgets of these examples comes back under its new label in the same edit."""
    if not labels:
        return method
    if isinstance(method.editor, Relabel):
        raise BadInput(
            "relabel asks for the model's own labels, and the causes have new ones; new_label; drop one of the two"
        )
    by_id = {int(train.ids[at]): label for at, label in labels.items()}
    return method._replace(editor=Corrected(method.editor, by_id))


def relabelled(editor: Any, train: Factor, gone: np.ndarray, after: Params) -> dict[int, Any]:
    """Of the examples that are `gone`, those that came back: their new labels in the user's words, by position."""
    if isinstance(editor, Relabel):
        return dict(zip(gone.tolist(), labels(train[gone], after), strict=True))
    if not isinstance(editor, Corrected):
        return {}
    at = [i for i in gone.tolist() if int(train.ids[i]) in editor.labels]
    if not at:
        return {}
    y = torch.stack([editor.labels[int(train.ids[i])] for i in at])
    shown = train.network.likelihood.shown(y)
    return dict(zip(at, by_name(shown.cpu().numpy(), train), strict=True))
