"""Ways to put evidence into a posterior or take it out. None of them knows which step it serves."""

from amends.editors.afresh import Afresh
from amends.editors.base import Editor, finer, open_ended
from amends.editors.climb import LBFGS, Adam, Ascent, Climber, FixedPoint, Newton
from amends.editors.each import Each
from amends.editors.follow import Guard, HeldOut, Right, Watch, follow
from amends.editors.mode import Mode
from amends.editors.relabel import Relabel
from amends.editors.step import Step
from amends.editors.tangent import Tangent
from amends.editors.variational import Variational

__all__ = [
    "LBFGS", "Adam", "Afresh", "Ascent", "Climber", "Each", "Editor", "FixedPoint", "Guard", "HeldOut", "Mode",
    "Newton", "Relabel", "Right", "Step", "Tangent", "Variational", "Watch", "finer", "follow", "open_ended",
]  # fmt: skip
