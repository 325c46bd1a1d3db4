"""Options that several commands share. Those of a repair are the keys of [repair], with the same words."""

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
FLAGS = ("relabel", "anyway", "unsafe_pickle", "spread")  # that can only be switched on


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
    """One option for each key of [repair] or [data]; None if it is not given, so that the config decides."""

    def wrap(command: Any) -> Any:
        for name in reversed(names):
            command = _option(name, REPAIR[name] if name in REPAIR else SHARED[name])(command)
        return command

    return wrap


def _option(name: str, key: Key) -> Any:
    text = f"--{name.replace('_', '-')}"
    help_text = key.help[0].upper() + key.help[1:] + "."
    if key.kinds == (bool,):
        return click.option(text if name in FLAGS else f"{text}/--no-{name}", name, default=None, help=help_text,
                            is_flag=True)  # fmt: skip
    if name == "group":
        return click.option(text, name, multiple=True, help=f"{help_text[:-1]}; may be given several times.")
    kind: Any = click.Choice(key.choices) if key.choices else key.kinds[0]
    if key.choices and float in key.kinds:
        kind = NameOrNumber(key.choices)
    return click.option(text, name, type=kind, default=None, help=help_text)


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options as the config takes them: one group is a name, several are a list."""
    group = given.pop("group", None)
    if group:
        given["group"] = group[0] if len(group) == 1 else list(group)
    return given


def numbers_in(text: str | None, option: str) -> list[int]:
    """Whole numbers with commas between them."""
    try:
        numbers = [int(part) for part in text.split(",")] if text else []
    except ValueError:
        numbers = [-1]
    if any(n < 0 for n in numbers):
        raise click.BadParameter(f"{text!r} is not a list such as 3,17", param_hint=option)
    return numbers


def one_way(options: dict[str, Any], **others: Any) -> None:
    """A usage error if more than one option says what to remove."""
    ways = {**{k: options.get(k) for k in HOW_MANY}, **others}
    given = [f"--{k}" for k, v in ways.items() if v is not None and v is not False]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} each say what to remove; give one of them")


def config_argument(command: Any) -> Any:
    """The config: amends.toml in this folder when left out."""
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
    """The required path of a single output."""
    help_text = "Where to write; nothing is overwritten."
    return click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help=help_text)(command)


def out_option(help_text: str) -> Any:
    return click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), help=help_text)


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout.")(command)


def output_options(command: Any) -> Any:
    """--json, -q and -v."""
    command = click.option("-v", "--verbose", is_flag=True, help="Say on stderr what was loaded.")(command)
    return json_option(quiet_option(command))


def quiet_option(command: Any) -> Any:
    return click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")(command)


def trust_option(command: Any) -> Any:
    help_text = "Run the code that a run.toml made elsewhere names; look at it first."
    return click.option("--trust", is_flag=True, help=help_text)(command)


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    print()


def note(text: str) -> None:
    """A line for the person on stderr, apart from the results."""
    print(visible(text), file=sys.stderr)
