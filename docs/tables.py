"""Writes what is made from the code: the stub of amends.methods, and tables of these pages.

    make tables

Methods come from amends/methods/table.py, keys of a config from amends/config/keys.py, commands and their options from
amends/cli. A test fails where anything is not up to date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from amends import methods
from amends.cli.app import COMMANDS, cli
from amends.cli.export import KINDS
from amends.config.keys import ABOUT, SHARED, TABLES, Key
from amends.methods.table import BOTH, HOMES, IDENTIFY, METHODS, SOLVERS, TREAT, names

ROOT = Path(__file__).parent.parent


def stub() -> str:
    """What a type checker and an editor know of `amends.methods`, which imports its names on first use."""
    lines = [f"from {home} import {name} as {name}" for home, name in sorted((h, n) for n, h in HOMES.items())]
    return "\n".join(["# Written by `make tables` from table.py.", *lines, "", "__all__: list[str]", ""])


def table(*rows: tuple[str, ...]) -> str:
    """Of Markdown; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "".join(re.sub(" {2,}", " ", line) + "\n" for line in lines)


def at_a_glance() -> str:
    head = ("name", "remembers", "editor", "identifies", "treats", "needs")
    steps = [["yes" if step in row.steps else "" for step in ("identify", "treat")] for row in METHODS]
    rows = [(f"`{r.name}`", r.remembers, r.editor, *s, r.needs) for r, s in zip(METHODS, steps, strict=True)]
    return table(head, *rows)


def reference(of: list[str]) -> str:
    """Each with its signature and what its docstring says first."""

    def row(name: str) -> tuple[str, str]:
        maker = getattr(methods, name)
        shown = [p.replace(annotation=p.empty) for p in inspect.signature(maker).parameters.values()]
        said = inspect.getdoc(maker).split("\n\n")[0]
        return f"`{name}{inspect.Signature(shown)}`", " ".join(said.split()).replace("|", "\\|")

    return table(("name", "meaning"), *map(row, of))


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        yield f"amends {name}", command
        yield from ((f"amends {name} {inner}", below) for inner, below in getattr(command, "commands", {}).items())


def about_command(name: str, command: click.Command) -> str:
    """How it is called, what its help says, and its options."""
    said = " ".join(command.help.split()) + "\n"
    if isinstance(command, click.Group):
        return said + "\n"
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    called = " ".join([name, *(p.make_metavar(click.Context(command)) for p in arguments), "[OPTIONS]"])
    rows = [option(p) for p in command.params if isinstance(p, click.Option) and not p.hidden]
    return f"`{called}`\n\n{said}\n{table(('option', 'meaning'), *rows)}"


def option(given: click.Option) -> tuple[str, str]:
    said = given.help
    if isinstance(given.type, click.Choice) and set(given.type.choices) <= {*methods.BY_NAME, *SOLVERS}:
        said += " One of the [names of methods](#names-of-methods)."
    if given.required:
        said += " Must be given."
    if given.show_default:
        said += f" Default: `{given.default}`."
    return ", ".join(f"`{name}`" for name in (*given.opts, *given.secondary_opts)), said


def about_keys(name: str) -> str:
    """What a table of a config is for, and its own keys."""
    keys = TABLES[name]
    own = keys if name == "data" or not SHARED.keys() <= keys.keys() else {k: keys[k] for k in keys if k not in SHARED}
    rows = [(f"`{k}`", kind(key), meaning(key)) for k, key in own.items()]
    return f"{ABOUT[name]}\n\n{table(('key', 'kind', 'meaning'), *rows)}"


def kind(key: Key) -> str:
    if key.choices in (names("identify"), names("treat"), tuple(SOLVERS)):  # these have a list of their own
        return "[a name](cli.md#names-of-methods)"
    also = ", or a number" if float in key.kinds else ""
    return f"one of {', '.join(f'`{c}`' for c in key.choices)}{also}" if key.choices else key.kind


def sentence(said: str) -> str:
    return f"{said[0].upper()}{said[1:]}."


def meaning(key: Key) -> str:
    said = sentence(re.sub("package.module:function", "`\\g<0>`", key.help))
    return said if key.default is None else f"{said} Default: `{key.default}`."


def with_section(page: str, heading: str, made: str) -> str:
    """The page with what stands below this heading replaced, up to the end of its first table."""
    section = re.compile(rf"(^{re.escape(heading)}\n)(?:[^#|\n].*\n|\n)*(?:\|.*\n)*", re.MULTILINE)
    page, found = section.subn(lambda match: f"{match[1]}\n{made}", page)
    assert found == 1, heading
    return page


def with_table(page: str, heading: str, made: str) -> str:
    """The page with the table below this heading replaced."""
    section = re.compile(rf"(^{re.escape(heading)}\n(?:[^#|\n].*\n|\n)*)(?:\|.*\n)+", re.MULTILINE)
    page, found = section.subn(lambda match: match[1] + made, page)
    assert found == 1, heading
    return page


def with_names(page: str, option: str, named: tuple[str, ...]) -> str:
    line = f"For `--{option}`: {', '.join(f'`{name}`' for name in named)}."
    page, found = re.subn(rf"^For `--{option}`: .*$", line, page, flags=re.MULTILINE)
    assert found == 1, option
    return page


def made() -> dict[Path, str]:
    """Every file that holds something made from the code, as it should be."""
    pages = [ROOT / "docs" / f"{name}.md" for name in ("methods", "reference/cli", "reference/config", "reference/api")]
    glance, line, config, api = (path.read_text(encoding="utf-8") for path in pages)
    glance = with_table(glance, "## At a glance", at_a_glance())
    for name, command in commands():
        line = with_section(line, f"## {name}", about_command(name, command))
    kinds = [(f"`{name}`", sentence(said)) for name, (_, said) in KINDS.items()]
    line = with_table(line, "### What `--to` writes", table(("kind", "what is written"), *kinds))
    for given, named in (("method", names("identify")), ("treat", names("treat")), ("solver", SOLVERS)):
        line = with_names(line, given, named)
    for name in TABLES:
        heading = f"## [{name}.NAME]" if name == "keep" else f"## [{name}]"
        config = with_section(config, heading, about_keys(name))
    for heading, steps in (("To identify or to treat", BOTH), ("To identify", IDENTIFY), ("To treat", TREAT)):
        api = with_table(api, f"### {heading}", reference([row.name for row in METHODS if row.steps == steps]))
    api = with_table(api, "### Solvers", reference(list(SOLVERS)))
    stub_file = ROOT / "amends" / "methods" / "__init__.pyi"
    return {stub_file: stub(), **dict(zip(pages, (glance, line, config, api), strict=True))}


if __name__ == "__main__":
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
