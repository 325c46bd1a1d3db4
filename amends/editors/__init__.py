"""Ways to put evidence into a posterior or take it out. None of them knows which step it serves."""

from amends.editors.base import Editor
from amends.editors.follow import Guard, HeldOut, Right, Watch, follow
from amends.editors.mode import Mode
from amends.editors.step import Step
from amends.editors.tangent import Tangent

__all__ = ["Editor", "Guard", "HeldOut", "Mode", "Right", "Step", "Tangent", "Watch", "follow"]
