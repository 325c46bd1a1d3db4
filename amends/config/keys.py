"""Every key of amends.toml, once: the reader, `amends init`, the options and the docs all look here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amends.methods.table import SOLVERS, names

IDENTIFY, TREAT = names("identify"), names("treat")
FORMATS = ("images", "csv", "parquet", "npz", "idx", "cifar10", "huggingface")
LIKELIHOODS = ("categorical", "bernoulli", "gaussian", "tokens")
TASKS = ("text-classification", "image-classification", "causal-lm")
TARGETS = ("class", "real", "labels", "tokens")


@dataclass(frozen=True)
class Key:
    """One key: what it means, what it may hold, and what holds when it is left out."""

    help: str
    kinds: tuple[type, ...] = (str,)
    choices: tuple[str, ...] = ()
    default: Any = None
    path: bool = False  # a file or folder, relative to the config

    @property
    def kind(self) -> str:
        """In words, for an error."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list",
                 dict: "a table"}  # fmt: skip
        return " or ".join(dict.fromkeys(names[k] for k in self.kinds))


MODEL = {
    "function": Key("package.module:function that returns the nn.Module; imported from beside this file"),
    "options": Key("arguments for that function", (dict,)),
    "weights": Key("safetensors or a state dict, never a pickled module", path=True),
    "huggingface": Key("directory of a Hugging Face model", path=True),
    "task": Key("what that model does; taken from its config when left out", choices=TASKS),
    "adapter": Key("directory of a LoRA adapter; only the adapter is edited", path=True),
}
SHARED = {
    "format": Key("how it is stored; guessed from the path when left out", choices=FORMATS),
    "label": Key("column or key of the labels; a list of columns for several labels", (str, list)),
    "image": Key("column of image paths, or key of the images"),
    "text": Key("column of texts"),
    "features": Key("columns of numbers the model takes", (list,)),
    "id": Key("column of ids, to find examples again"),
    "classes": Key("names of the classes, in the model's order", (list,)),
    "size": Key("height and width images are resized to", (list,)),
    "gray": Key("read images as one channel", (bool,)),
    "mean": Key("subtracted from pixels or features", (float, list)),
    "std": Key("they are then divided by", (float, list)),
    "transform": Key("package.module:function from one raw input to what the model takes; the same every time"),
    "augment": Key("package.module:function, random, for fine-tuning only; scores use `transform`"),
    "target": Key("what is predicted", choices=TARGETS, default="class"),
}
SET = {
    "path": Key("file or folder", path=True),
    "split": Key("which part, where the path holds several"),
    **SHARED,
}
KEEP = {
    **SET,
    "least": Key("share of it that must be right in the end; when left out, a point less than was", (float,)),
}
FAILURES = {
    "ids": Key("CSV with a column id or index: these of [evaluation] are the failures", path=True),
    "indices": Key("positions in [evaluation]", (list,)),
    **SET,
}
LIKELIHOOD = {
    "kind": Key("what the outputs mean", choices=LIKELIHOODS, default="categorical"),
    "function": Key("package.module:function of (outputs, targets): one log-likelihood an example"),
    "class_weights": Key("one weight a class, as the model was trained", (list,)),
    "label_smoothing": Key("as the model was trained", (float,)),
    "sigma": Key("gaussian: standard deviation of the noise", (float,)),
    "bound": Key("gaussian: a prediction further off than this is a failure; 2 sigma when left out", (float,)),
    "share": Key("tokens: share of the asked tokens that must be right; all when left out", (float,)),
}
REPAIR = {
    "method": Key("how the causes are found", choices=IDENTIFY, default="default"),
    "method_options": Key("arguments of that method", (dict,)),
    "treat": Key("how they are forgotten", choices=TREAT, default="default"),
    "treat_options": Key("arguments of that treatment, such as epochs", (dict,)),
    "solver": Key("how linear and newton invert the curvature; cg when left out", choices=SOLVERS),
    "learn": Key(
        "also learn from the failures searched with and right examples that guard; when left out, if that does as much",
        (bool,),
    ),
    "relabel": Key("causes come back under the label the model gives them by then", (bool,), default=False),
    "top": Key("remove this many; when left out, a curve decides", (int,)),
    "fraction": Key("remove this share of train", (float,)),
    "holdout": Key("share of the failures that judges", (float,), default=0.5),
    "group_by": Key("groups of failures: clusters, or a column of theirs; (true, predicted) when left out"),
    "group": Key("repair this group alone, or several in the order of a list", (str, list)),
    "floor": Key("how much of remaining may be lost; a point when left out", (float,)),
    "seed": Key("of splits and refits", (int,), default=0),
    "device": Key("where to compute, such as cuda; where the model is when left out"),
    "batch_size": Key("examples computed at once; changes speed and memory", (int,), default=256),
    "require": Key('what must hold after, such as "holdout>=0.5,remaining>=0.98"; exit code 1 otherwise'),
}
TABLES: dict[str, dict[str, Key]] = {
    "model": MODEL,
    "likelihood": LIKELIHOOD,
    "data": SHARED,
    "train": SET,
    "evaluation": SET,
    "failures": FAILURES,
    "remaining": SET,
    "keep": KEEP,  # one table a set: [keep.night]
    "repair": REPAIR,
}
ABOUT = {
    "model": "The model that fails.",
    "likelihood": "What it was trained on: log p(target | outputs).",
    "data": "Keys that all the sets below share.",
    "train": "What it learned from.",
    "evaluation": "Held-out examples. The model is run on them: what it gets wrong are the failures, the rest is "
    "remaining. Name [failures] or [remaining] to say so yourself.",
    "failures": "What it gets wrong: a set of their own, or ids or indices into [evaluation].",
    "remaining": "Held-out examples it gets right.",
    "keep": "Further labelled sets whose accuracy must hold, each under a name of its own.",
    "repair": "How it is repaired; every key is an option of the command line too.",
}
