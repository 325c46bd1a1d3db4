"""Ways to insert evidence into a posterior or delete it: a posterior and a factor come in, a path of posteriors
goes out. The same editors serve to identify and to treat.
"""

from amends.editors.afresh import Afresh
from amends.editors.base import Editor, finer, open_ended
from amends.editors.climb import LBFGS, Adam, Ascent, Climber, FixedPoint, Newton
from amends.editors.each import Each
from amends.editors.follow import PATIENCE, Guard, HeldOut, Right, Watch, follow, harmless
from amends.editors.mode import Mode
from amends.editors.relabel import Corrected, Relabel
from amends.editors.step import Step
from amends.editors.tangent import Tangent
from amends.editors.variational import Variational

__all__ = [
    "LBFGS", "PATIENCE", "Adam", "Afresh", "Ascent", "Climber", "Corrected", "Each", "Editor", "FixedPoint", "Guard",
    "HeldOut", "Mode", "Newton", "Relabel", "Right", "Step", "Tangent", "Variational", "Watch", "finer", "follow",
    "harmless", "open_ended",
]  # fmt: skip
