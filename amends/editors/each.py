"""Edit every member of an ensemble on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from amends.editors.base import Editor, finer, open_ended
from amends.errors import BadInput, kind_of
from amends.evidence.factor import Factor
from amends.posteriors import Ensemble, Posterior


@dataclass(frozen=True)
class Each:
    """Follows the paths of all members together; a member whose path has ended stays at its end."""

    editor: Editor

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        ensemble = _ensemble(posterior)
        yield posterior
        points = list(ensemble.members)
        paths = [self.editor(member, factor) for member in points]
        for path in paths:
            next(path)
        for step in zip_longest(*paths):
            points = [old if new is None else new for old, new in zip(points, step, strict=True)]
            yield replace(ensemble, members=tuple(points))

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        return any(open_ended(self.editor, member, factor) for member in _ensemble(posterior).members)

    def finer(self) -> Each | None:
        editor = finer(self.editor)
        return None if editor is None else replace(self, editor=editor)


def _ensemble(posterior: Posterior) -> Ensemble:
    if not isinstance(posterior, Ensemble):
        raise BadInput(f"the editor Each needs an ensemble, got {kind_of(posterior)}; use ensemble(of=...)")
    return posterior
