"""The settings of the default: a frozen record for each decision, and what a budget or a large model changes.

An ablation is `dataclasses.replace`. What a value is for stands beside it; docs/default.md says how they play together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amends.errors import BadInput

LARGE = 5_000_000  # parameters from which a model counts as large, and is edited and fitted otherwise
BUDGETS = ("quick", "default", "thorough")


@dataclass(frozen=True)
class Edits:
    """The edits that score D, and how far each goes."""

    members: tuple[str, ...] = ("grad_dot", "linear", "functional", "learned loss")
    without_right: tuple[str, ...] = ("grad_dot", "linear", "kfac_ewc")  # the members where no right example is given
    steps: int = 60  # of L-BFGS, where weights are held
    steps_held: int = 10  # where predictions are held: many weights give the same ones, so more steps gain little
    strength: float = 0.05  # of holding predictions
    damping: float = 10.0  # of linear influence, relative to the mean of the curvature
    curved: int = 500  # examples of D that curvature is measured on


@dataclass(frozen=True)
class Trials:
    """How members are tried: an edit on halves of the failures and of right examples, judged by the other halves."""

    shown: int = 500  # failures it is shown at most
    held: int = 250  # right examples that hold it at most
    judges: int = 2000  # right examples that say how high a right label scores, both halves together
    sample: int = 10_000  # examples of D it is weighed on; all of D is scored by those with a weight
    enough: int = 20  # right examples from which they say how high a right label scores
    few: int = 4  # with fewer right examples none holds an edit: they only judge
    whole: bool = False  # whether each edit is made once more with all of the failures


@dataclass(frozen=True)
class Training:
    """How long the model goes on training on D."""

    rate: float = 2e-3  # of Adam, falling to zero
    epochs: float = 5.0  # passes over D, unless that is more than `seen` examples
    seen: int = 2**16
    steps: int = 0  # at least; a small D has few in a pass
    batch: int = 64
    large_batch: int = 256  # where D has `many` examples
    many: int = 20_000

    def size(self, examples: int) -> tuple[float, int]:
        """Passes and batches where D has so many."""
        batch = self.batch if examples < self.many else self.large_batch
        epochs = min(self.epochs, max(1.0, self.seen / max(1, examples)))
        return max(epochs, self.steps * batch / max(1, examples)), batch


@dataclass(frozen=True)
class Teaching(Training):
    """How labels known to be right are learned together with D, to see which of D's are then still not believed."""

    rate: float = 4e-3
    rates: tuple[float, ...] = (1e-3, 2.5e-4, 6e-5)  # in turn, where steps do harm, as long as shorter ones help
    epochs: float = 3.0
    weight: float = 4.0  # of a known label; an example of D has 1. With fewer than `epochs` passes it is as much larger


@dataclass(frozen=True)
class RightScores:
    """How high right labels score: of each class, leaning on all of them where a class has few."""

    lean: float = 50.0  # right labels of all classes that stand beside those of one
    taught: float = 1.2  # right labels of D reach a high score so many times as often as those that were taught
    hardly: float = 0.05  # a class counts in full if the model says it of failures so many times as often as of D
    errors: float = 1.0  # standard errors from which one mean may be above another; from twice as many it is


@dataclass(frozen=True)
class Weights:
    """How much each member counts."""

    errors: float = 3.0  # standard errors from which a find counts in full; 1/errors less than the best counts 1/e
    within: float = 0.03  # one that does so much worse counts 1/e, where edits are weighed by what was unseen
    least: float = 0.1  # relative to the best; those below do not count at all


@dataclass(frozen=True)
class Mistakes:
    """Which classes are taken for which others (`amends.committee.mistakes`)."""

    spread: float = 0.7  # of effects on the log odds of a wrong label: about a factor of two either way
    ridge: float = 1e-3  # on how far members tell labels apart, so that the fit has an end where they do so wholly
    slope: float = 0.5  # where it begins: how far a member tells them apart,
    mean: float = -2.0  # and the log odds of a wrong label
    steps: int = 300  # of L-BFGS at most
    near: float = 1e-9  # it ends where the loss, or what is fitted, changes by less


@dataclass(frozen=True)
class Identifying:
    """Which training examples stand behind the failures."""

    edits: Edits = Edits()
    trials: Trials = Trials()
    teaching: Teaching = Teaching()
    right: RightScores = RightScores()
    weights: Weights = Weights()
    mistakes: Mistakes = Mistakes()


@dataclass(frozen=True)
class Forgetting(Training):
    """How causes are forgotten: training on with what is kept."""

    epochs: float = 4.0
    steps: int = 128
    rates: tuple[float, ...] = (2e-4,)  # others to choose from, where the usual one does no clear good


@dataclass(frozen=True)
class Curve:
    """How many to remove: sizes are tried in turn, each with the first part of a fit; what is to judge goes on from
    there, and is fitted once more where that leaves doubt."""

    around: tuple[float, ...] = (0.5, 1.0, 2.0)  # of the number that must be wrong; the middle one is the usual
    shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)  # of D, where that number is not known
    patience: int = 2  # sizes in a row that are no better before larger ones are given up
    short: float = 0.5  # the first part of a fit, which chooses; what is to judge goes on from there
    refits: int = 2  # of what judges: the repair and its controls, where one fit of each leaves doubt
    sure: float = 0.001  # p up to which it leaves none
    refits_of_all: bool = False  # whether every size is fitted as often, with a random control of its own


@dataclass(frozen=True)
class Learning:
    """Learning from the failures as well: going on from where the causes were forgotten."""

    passes: float = 0.75  # over D and what is learned, as a share of those of forgetting
    failure: float = 2.0  # what a failure counts when learned; an example of D, whose label nobody checked, counts 1
    right: float = 4.0  # what a right example counts
    most: float = 2.0  # right examples learned with the failures at most, as a multiple of D

    def outweighs(self, failures: int, examples: int, right: int) -> bool:
        """Whether so many failures would count more than D and the right examples learned with them, so that nothing
        would hold the model."""
        return self.failure * failures > examples + self.right * min(right, self.most * examples)


@dataclass(frozen=True)
class Judging:
    """What a verdict says, and what is said beside it. The same for every budget."""

    enough: float = 0.5  # accuracy on the holdout failures from which "partly repaired" is "repaired"
    chance: float = 0.05  # p of the test above which a gain may be luck
    telling: int = 20  # with fewer failures to judge with a test says little either way, and the verdict says that
    kept: float = 0.01  # what a set to keep may lose, where the user does not say
    clearly: float = 2.0  # standard errors of the accuracy on the failures by which an offer must be better
    near: float = 0.9  # right examples near a failure that carry what the model says, for its own label to look wrong
    doubted: float = 0.05  # and what edits that were not shown it give that label at most


@dataclass(frozen=True)
class Settings:
    """All that the default decides by."""

    identifying: Identifying = Identifying()
    forgetting: Forgetting = Forgetting()
    curve: Curve = Curve()
    learning: Learning = Learning()

    @classmethod
    def of(cls, budget: str = "default", large: bool = False) -> Settings:
        """Those of a budget. Edits of a large model make half as many steps where weights are held, and 20 where
        predictions are. It is fitted at other rates, and what judges is fitted once."""
        if budget not in BUDGETS:
            raise BadInput(f"budget is {budget!r}; there is none of that name; give {', '.join(BUDGETS)}, or seconds")
        made = _BUDGETS[budget]
        return made.for_large() if large else made

    def for_large(self) -> Settings:
        edits = self.identifying.edits
        edits = replace(edits, steps=edits.steps // 2, steps_held=20)
        teaching = replace(self.identifying.teaching, rate=1e-4, rates=(2.5e-5,), epochs=5.0)
        return Settings(
            replace(self.identifying, edits=edits, teaching=teaching),
            replace(self.forgetting, rate=1e-4, rates=(1e-3, 3e-5) if self.forgetting.rates else ()),
            replace(self.curve, refits=1, refits_of_all=False),
            self.learning,
        )

    def left_out(self, large: bool = False) -> str:
        """What a repair with the default's settings does and one with these does not, in words."""
        usual, here = Settings.of(large=large), self
        members = [name for name in usual.identifying.edits.members if name not in here.identifying.edits.members]
        fewer = len(here.curve.around) < len(usual.curve.around)
        ways, once = usual.forgetting.rates and not here.forgetting.rates, here.curve.refits < usual.curve.refits
        said = [
            f"the search has no {' and no '.join(members)}" if members else "",
            "fewer numbers to remove are tried" if fewer else "",
            "one way to forget is tried" if ways else "",
            "what judges is fitted once" if once else "",
        ]
        return "; ".join(part for part in said if part)


DEFAULT = Settings()
JUDGING = Judging()
_BUDGETS = {
    "default": DEFAULT,
    "quick": Settings(
        Identifying(
            Edits(members=("linear", "learned loss"), without_right=("linear", "kfac_ewc"), steps=20),
            Trials(shown=100, held=100, judges=1000, sample=5000),
        ),
        Forgetting(epochs=3.0, rates=()),
        Curve(around=(1.0,), shares=(0.05, 0.1, 0.2), refits=1),
    ),
    "thorough": Settings(
        Identifying(
            Edits(
                members=("grad_dot", "linear", "functional", "functional + ewc", "learned loss"),
                without_right=("grad_dot", "linear", "ewc", "kfac_ewc"),
                steps_held=40,
                curved=4000,
            ),
            Trials(shown=2000, held=1000, sample=10**9, whole=True),
        ),
        forgetting=Forgetting(rate=1e-3, epochs=10.0, rates=(1e-4,)),
        curve=Curve(
            around=(0.25, 0.5, 1.0, 2.0, 4.0),
            shares=(0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
            short=1.0,
            refits=3,
            refits_of_all=True,
        ),
    ),
}
