"""Options that several commands share; those of a repair are the keys of [repair], in the same words."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from amends.config.keys import REPAIR, SHARED, Key
from amends.errors import visible

SEARCHING = (
    "method",
    "solver",
    "holdout",
    "group_by",
    "group",
    "anyway",
    "unsafe_pickle",
    "on_error",
    "budget",
    "seed",
    "device",
    "batch_size",
    "spread",
)
TREATING = ("treat", "learn", "relabel", "floor", "broken_costs", "require")
HOW_MANY = ("top", "fraction")
FLAGS = ("relabel", "anyway", "unsafe_pickle", "spread")  # that are only ever switched on


class NameOrNumber(click.Choice):
    """One of several names, or a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return float(value)
        except ValueError:
            return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is neither a number nor one of {', '.join(self.choices)}."


def from_keys(*names: str) -> Callable[[Any], Any]:
    """One option for each key of [repair] or of [data]; None where it is not given, so that the config holds."""

    def wrap(command: Any) -> Any:
        for name in reversed(names):
            command = _option(name, REPAIR[name] if name in REPAIR else SHARED[name])(command)
        return command

    return wrap


def _option(name: str, key: Key) -> Any:
    text = f"--{name.replace('_', '-')}"
    said = key.help[0].upper() + key.help[1:] + "."
    if key.kinds == (bool,):
        return click.option(text if name in FLAGS else f"{text}/--no-{name}", name, default=None, help=said,
                            is_flag=True)  # fmt: skip
    if name == "group":
        return click.option(text, name, multiple=True, help=f"{said[:-1]}; may be given several times.")
    kind: Any = click.Choice(key.choices) if key.choices else key.kinds[0]
    if key.choices and float in key.kinds:
        kind = NameOrNumber(key.choices)
    return click.option(text, name, type=kind, default=None, help=said)


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """As the config takes them: one group is a name, several are a list."""
    group = given.pop("group", None)
    if group:
        given["group"] = group[0] if len(group) == 1 else list(group)
    return given


def numbers_in(text: str | None, option: str) -> list[int]:
    """Whole numbers with commas between them."""
    try:
        found = [int(part) for part in text.split(",")] if text else []
    except ValueError:
        found = [-1]
    if any(n < 0 for n in found):
        raise click.BadParameter(f"{text!r} is not a list such as 3,17", param_hint=option)
    return found


def one_way(options: dict[str, Any], **others: Any) -> None:
    """What to remove is said once."""
    said = {**{k: options.get(k) for k in HOW_MANY}, **others}
    asked = [f"--{k}" for k, v in said.items() if v is not None and v is not False]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} each say what to remove; give one of them")


def config_argument(command: Any) -> Any:
    """The config, amends.toml in this folder unless told otherwise."""
    return click.argument("config", type=click.Path(path_type=Path), default=Path("amends.toml"))(command)


def run_argument(command: Any) -> Any:
    return click.argument("run", type=click.Path(path_type=Path))(command)


def patches_argument(command: Any) -> Any:
    return click.argument("patches", metavar="PATCH...", nargs=-1, required=True, type=click.Path(path_type=Path))(
        command
    )


def weights_argument(command: Any) -> Any:
    return click.argument("weights", type=click.Path(path_type=Path))(command)


def target_option(command: Any) -> Any:
    """Where one thing goes that is asked for by name."""
    said = "Where to write; nothing is overwritten."
    return click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help=said)(command)


def out_option(said: str) -> Any:
    return click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), help=said)


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout.")(command)


def told(command: Any) -> Any:
    """--json, -q and -v."""
    command = click.option("-v", "--verbose", is_flag=True, help="Say on stderr what was loaded.")(command)
    return json_option(quiet_option(command))


def quiet_option(command: Any) -> Any:
    return click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")(command)


def trust_option(command: Any) -> Any:
    said = "Run the code that a run.toml made elsewhere names; look at it first."
    return click.option("--trust", is_flag=True, help=said)(command)


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    print()


def note(text: str) -> None:
    """A line for the person, beside the results."""
    print(visible(text), file=sys.stderr)
