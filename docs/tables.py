"""Writes what is made from amends/methods/table.py: the stub of amends.methods, and tables of these pages.

    make tables

A test fails where they are not up to date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from amends import methods
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
    """Every file that holds something made from the table, as it should be."""
    pages = {name: ROOT / "docs" / name for name in ("methods.md", "reference/cli.md", "reference/api.md")}
    glance, cli, api = (path.read_text(encoding="utf-8") for path in pages.values())
    glance = with_table(glance, "## At a glance", at_a_glance())
    for option, named in (("method", names("identify")), ("treat", names("treat")), ("solver", SOLVERS)):
        cli = with_names(cli, option, named)
    for heading, steps in (("To identify or to treat", BOTH), ("To identify", IDENTIFY), ("To treat", TREAT)):
        api = with_table(api, f"### {heading}", reference([row.name for row in METHODS if row.steps == steps]))
    api = with_table(api, "### Solvers", reference(list(SOLVERS)))
    stub_file = ROOT / "amends" / "methods" / "__init__.pyi"
    return {stub_file: stub(), **dict(zip(pages.values(), (glance, cli, api), strict=True))}


if __name__ == "__main__":
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
