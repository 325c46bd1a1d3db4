"""Every key of amends.toml, once, for the reader, `amends init` and the options of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amends.methods.table import SOLVERS, names
from amends.settings import BUDGETS

IDENTIFY, TREAT = names("identify"), names("treat")
FORMATS = ("images", "csv", "parquet", "jsonl", "npz", "idx", "cifar10", "huggingface")
LIKELIHOODS = ("categorical", "bernoulli", "gaussian", "tokens")
TASKS = ("text-classification", "image-classification", "causal-lm")
TARGETS = ("class", "real", "labels", "tokens", "response")


@dataclass(frozen=True)
class Key:
    """One key: what it means, what it may hold, and its default."""

    help: str
    kinds: tuple[type, ...] = (str,)
    choices: tuple[str, ...] = ()
    default: Any = None
    path: bool = False  # a file or folder, relative to the config
    items: type | None = None  # the type of the items of a list, if all have one type

    @property
    def kind(self) -> str:
        """The allowed values in words, for an error."""
        if self.choices:
            return f"one of {', '.join(self.choices)}" + (", or a number" if float in self.kinds else "")
        of = {None: "", str: " of texts", int: " of whole numbers", float: " of numbers"}[self.items]
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: f"a list{of}",
                 dict: "a table"}  # fmt: skip
        return " or ".join(dict.fromkeys(names[k] for k in self.kinds))


MODEL = {
    "function": Key("package.module:function that returns the nn.Module; modules beside this file come first"),
    "options": Key("arguments for that function", (dict,)),
    "weights": Key("a safetensors file or a state dict, never a pickled module", path=True),
    "huggingface": Key("directory of a Hugging Face model", path=True),
    "task": Key("what that model does; taken from its config when left out", choices=TASKS),
    "adapter": Key("directory of a LoRA adapter; only the adapter is edited", path=True),
}
SHARED = {
    "format": Key("file format; guessed from the path when left out", choices=FORMATS),
    "label": Key("column or key of the labels; a list of columns for several labels", (str, list), items=str),
    "image": Key("column of image paths, or key of the images"),
    "text": Key("column of the texts"),
    "messages": Key("column of messages, each a role and its content"),
    "prompt": Key("column of the prompts"),
    "response": Key("column of the responses to them"),
    "features": Key("columns of numbers that the model takes", (list,), items=str),
    "id": Key("column of ids, by which you find examples again"),
    "classes": Key("names of the classes, in the model's order", (list,)),
    "size": Key("height and width to resize images to", (list,), items=int),
    "gray": Key("read images in gray, with one channel", (bool,)),
    "mean": Key("subtracted from pixels or features", (float, list), items=float),
    "std": Key("what pixels or features are then divided by", (float, list), items=float),
    "transform": Key("package.module:function that turns one raw input into what the model takes; must not be random"),
    "augment": Key("package.module:function like transform, but random; used for fine-tuning only"),
    "target": Key("what the model predicts", choices=TARGETS, default="class"),
    "on_error": Key("what to do where an example cannot be read", choices=("stop", "skip"), default="stop"),
}
SET = {
    "path": Key("file or folder", path=True),
    "split": Key("which split to read, where the path holds several"),
    **SHARED,
}
KEEP = {
    **SET,
    "least": Key("accuracy this set must have after the repair; when left out, 0.01 less than before", (float,)),
}
FAILURES = {
    "ids": Key("CSV file with a column id or index: these examples of [evaluation] are the failures", path=True),
    "indices": Key("positions of the failures in [evaluation], counted from 0", (list,), items=int),
    **SET,
}
LIKELIHOOD = {
    "kind": Key("what the outputs mean", choices=LIKELIHOODS, default="categorical"),
    "function": Key("package.module:function of (outputs, targets) that returns one log-likelihood per example"),
    "class_weights": Key("one weight per class, as in training", (list,), items=float),
    "label_smoothing": Key("as in training", (float,)),
    "sigma": Key("gaussian: standard deviation of the noise", (float,)),
    "bound": Key("gaussian: a prediction further off than this is a failure; 2 sigma when left out", (float,)),
    "share": Key("tokens: share of the target tokens that must be right; all when left out", (float,)),
}
REPAIR = {
    "method": Key("how the causes are found", choices=IDENTIFY, default="default"),
    "method_options": Key("arguments of that method", (dict,)),
    "treat": Key("how the model is made to forget them", choices=TREAT, default="default"),
    "treat_options": Key("arguments of that treatment, such as epochs", (dict,)),
    "solver": Key("how linear and newton invert the curvature; cg when left out", choices=SOLVERS),
    "learn": Key(
        "also learn from the failures searched with and from right examples; when left out, the evidence decides",
        (bool,),
    ),
    "relabel": Key(
        "bring causes back with the label the model predicts once it has forgotten theirs", (bool,), default=False
    ),
    "top": Key("remove this many; when left out, a curve decides", (int,)),
    "fraction": Key("remove this share of train", (float,)),
    "holdout": Key("share of the failures that is held out to judge the repair", (float,), default=0.5),
    "group_by": Key("how failures are grouped: clusters, or one of their columns; (true, predicted) when left out"),
    "group": Key("repair this group alone, or several, in the order given", (str, list), items=str),
    "floor": Key("how far accuracy on remaining may fall at most; no limit when left out", (float,)),
    "broken_costs": Key("how many fixed examples a broken one costs; 1 is overall accuracy", (float,), default=1.0),
    "anyway": Key("go on where model and data do not seem to belong together", (bool,), default=False),
    "unsafe_pickle": Key(
        "unpickle weights that hold more than tensors; whoever wrote the file can run any code here",
        (bool,),
        default=False,
    ),
    "budget": Key(
        "how much the default may cost: a name, or seconds for the largest that should end in time; a smaller one "
        "leaves out members, sizes and refits",
        (str, float),
        choices=BUDGETS,
        default="default",
    ),
    "seed": Key("random seed of splits and refits", (int,), default=0),
    "device": Key("where to compute, such as cuda; the device of the model when left out"),
    "batch_size": Key("examples computed at once; changes speed and memory, not the method", (int,), default=256),
    "spread": Key(
        "let the processes of torchrun share every step of a fit; how many there are then shows in the last digits",
        (bool,),
        default=False,
    ),
    "require": Key(
        'accuracies required after the repair, such as "holdout>=0.5,remaining>=0.98"; exit code 1 otherwise'
    ),
}
TABLES: dict[str, dict[str, Key]] = {
    "model": MODEL,
    "likelihood": LIKELIHOOD,
    "data": SHARED,
    "train": SET,
    "evaluation": SET,
    "failures": FAILURES,
    "remaining": SET,
    "keep": KEEP,  # one table per set: [keep.night]
    "repair": REPAIR,
}
ABOUT = {
    "model": "The model that fails.",
    "likelihood": "What the model was trained with: log p(target | outputs).",
    "data": "Keys that all the data sets below share.",
    "train": "What the model learned from.",
    "evaluation": "Held-out examples. The model is run on them: those it gets wrong are the failures, the others are "
    "remaining. Give [failures] or [remaining] to choose them yourself.",
    "failures": "What the model gets wrong: a set of its own, or ids or indices into [evaluation].",
    "remaining": "Held-out examples that the model gets right.",
    "keep": "More labelled sets on which accuracy must hold, each under a name of its own.",
    "repair": "How the model is repaired. Every key without _options is also an option of the command line.",
}
