"""The settings of the default: a frozen record for each decision, and what a budget or a large model changes.

A comment next to each value says what it is for; docs/default.md says how they work together. For an ablation, change a
value with `dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amends.errors import BadInput

LARGE = 5_000_000  # parameters from which a model counts as large and gets `Settings.for_large`
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
    judges: int = 2000  # right examples that show how high a right label scores, both halves together
    sample: int = 10_000  # examples of D that members are weighed on; members with a weight then score all of D
    enough_right: int = 20  # right examples that are needed to show how high a right label scores
    few: int = 4  # with fewer right examples the search uses none: D's own right ones judge, and nothing holds an edit
    whole: int = 0  # failures, at most, in one more edit of each member that uses both halves; 0: no such edit


@dataclass(frozen=True)
class Training:
    """How long the model goes on training on D."""

    rate: float = 4e-3  # of Adam, falling to zero
    rising: float = 0.2  # share of the steps over which the rate rises first; without it batch norm is harmed
    epochs: float = 5.0  # passes over D; fewer where that is more than `seen` examples
    seen: int = 2**16  # examples at most, so that a large D is not gone through many times; but one pass at least
    steps: int = 0  # at least; a small D has few in a pass
    batch: int = 64  # examples in a step
    large_batch: int = 256  # the same where D has `many` examples
    many: int = 20_000

    def size(self, examples: int) -> tuple[float, int]:
        """The passes and the batch size for a D of this many `examples`."""
        batch = self.batch if examples < self.many else self.large_batch
        epochs = min(self.epochs, max(1.0, self.seen / max(1, examples)))
        return max(epochs, self.steps * batch / max(1, examples)), batch


@dataclass(frozen=True)
class Teaching(Training):
    """How the trusted labels are learned with D, to see which labels of D the model then still finds unlikely."""

    rate: float = 6e-3  # high, since what was learned too little scores like a wrong label
    rates: tuple[float, ...] = (1.5e-3, 4e-4, 1e-4)  # in turn, where a rate does harm, as long as lower ones help
    epochs: float = 3.0  # more find a little more, and cost as much more
    weight: float = 16.0  # of a trusted label; an example of D has 1. With fewer passes it rises in proportion


@dataclass(frozen=True)
class RightScores:
    """How high right labels score in each class. A class with few trusted labels is averaged with all classes."""

    lean: float = 50.0  # as how many labels of a class the average over all classes counts
    lowest: float = 0.7  # share of labels, lowest scores first, by which learned trusted labels are compared with D's
    hardly: float = 0.05  # a class counts in full if the model predicts it on failures this many times as often as on D
    errors: float = 1.0  # a difference of means counts from this many standard errors on, in full from twice as many


@dataclass(frozen=True)
class Weights:
    """How much each member counts."""

    errors: float = 3.0  # `found` is fully reliable from this many standard errors on; 1/errors below the best gets 1/e
    within: float = 0.03  # where edits are weighed by `unseen`, one this far below the best gets 1/e of its weight
    least: float = 0.1  # relative to the best; members below this get no weight


@dataclass(frozen=True)
class Mistakes:
    """Which classes are taken for which others (`amends.committee.mistakes`)."""

    spread: float = 0.7  # of effects on the log odds of a wrong label: about a factor of two either way
    ridge: float = 1e-3  # on the slopes, so that the fit ends where members separate wrong from right labels completely
    slope: float = 0.5  # where the fit begins: the slope of each member,
    mean: float = -2.0  # and the log odds of a wrong label
    steps: int = 300  # of L-BFGS at most
    unmoved: float = 1e-9  # the fit ends where the loss or its parameters change by less


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

    epochs: float = 4.0  # fewer refuse repairs that help, more cost time
    steps: int = 128  # at least: with 64 a small D is forgotten less well
    rates: tuple[float, ...] = (4e-4,)  # others to choose from, where the usual one brings no clear gain


@dataclass(frozen=True)
class Curve:
    """How many to remove: sizes are tried in turn, each with the first part of a fit. The fits that are judged get a
    second part, and are made once more where the test leaves doubt."""

    around: tuple[float, ...] = (0.6, 1.2, 2.4)  # of the number that must be wrong, which is a bound from below
    shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)  # of D, where that number is not known
    patience: int = 2  # sizes in a row that are no better before larger ones are given up
    short: float = 0.5  # length of the first part of a fit, which chooses; a fit that is judged continues from there
    refits: int = 2  # fits of the repair and of each control, where one fit of each leaves doubt
    clear: float = 0.001  # p up to which one fit of each leaves no doubt
    refits_of_all: bool = False  # whether every size is fitted as often, with a random control of its own


@dataclass(frozen=True)
class Learning:
    """Learning from the failures as well: going on from where the causes were forgotten."""

    passes: float = 0.75  # over D and what is learned, as a share of those of forgetting
    failure: float = 2.0  # weight of a failure that is learned; an example of D, whose label nobody checked, has 1
    right: float = 4.0  # weight of a right example
    most: float = 2.0  # right examples learned with the failures at most, as a multiple of D

    def outweighs(self, failures: int, examples: int, right: int) -> bool:
        """Whether the failures would weigh more than D and the right examples learned with them, so that nothing would
        hold the model."""
        return self.failure * failures > examples + self.right * min(right, self.most * examples)


@dataclass(frozen=True)
class Judging:
    """What the verdict and the warnings depend on. The same for every budget."""

    mostly: float = 0.5  # accuracy on the holdout failures from which "partly repaired" is "repaired"
    chance: float = 0.05  # p of the test above which a gain may be luck
    enough_failures: int = 20  # with fewer that judge, the test shows little either way, and the verdict says so
    kept: float = 0.01  # how far accuracy on a set to keep may fall, where the user does not say
    clearly: float = 2.0  # standard errors of the accuracy on the failures by which an offer must be better
    agreeing: float = 0.9  # share of right examples near a failure with the predicted label: then its own looks wrong
    doubted: float = 0.05  # if also edits that did not use the failure give its label at most this probability


@dataclass(frozen=True)
class Settings:
    """All that the default decides by."""

    identifying: Identifying = Identifying()
    forgetting: Forgetting = Forgetting()
    curve: Curve = Curve()
    learning: Learning = Learning()

    @classmethod
    def of(cls, budget: str = "default", large: bool = False) -> Settings:
        """The settings of a budget. Edits of a large model make half as many steps where weights are held, and 20 where
        predictions are. It is fitted at other rates, and the repair and its controls are fitted once."""
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
        parts = [
            f"the search has no {' and no '.join(members)}" if members else "",
            "fewer numbers to remove are tried" if fewer else "",
            "one rate of forgetting is tried" if ways else "",
            "the repair and its controls are fitted once" if once else "",
        ]
        return "; ".join(part for part in parts if part)


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
        Curve(around=(1.2,), shares=(0.05, 0.1, 0.2), refits=1),
    ),
    "thorough": Settings(
        Identifying(
            Edits(
                members=("grad_dot", "linear", "functional", "functional + ewc", "learned loss"),
                without_right=("grad_dot", "linear", "ewc", "kfac_ewc"),
                steps_held=40,
                curved=4000,
            ),
            Trials(shown=2000, held=1000, sample=10**9, whole=8000),
        ),
        forgetting=Forgetting(rate=1e-3, epochs=10.0, rates=(1e-4,)),
        curve=Curve(
            around=(0.3, 0.6, 1.2, 2.4, 4.8),
            shares=(0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
            short=1.0,
            refits=3,
            refits_of_all=True,
        ),
    ),
}
