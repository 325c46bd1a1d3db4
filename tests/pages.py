"""The pages of docs/ as programs: their fenced blocks, run one after the other in a folder of their own.

A block is ```python, ```bash, ```toml, ```yaml or ```text. One that names a file (```python my_model.py) is written
there; `exit=1` is the exit code a command ends with; `for example` says that an output differs from machine to machine.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import ModuleType

import amends
from amends.config.read import as_config, read_config
from tests.projects import amends as command

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("pip ", "make ", "python ", "git ", "cd ")  # for a shell, never run here
HEADS = ("rank", "removed", "run", "set")  # how tables of the command line begin
WHOLE = {"model": {"function": "m:build"}, "train": {"path": "t.npz"}, "evaluation": {"path": "e.npz"}}


@dataclass(frozen=True)
class Block:
    """One fenced block: what it is, what its first line says, what is in it, and where it stands."""

    language: str
    said: str
    content: str
    line: int
    page: Path

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        language, _, said = match[1].strip().partition(" ")
        found.append(Block(language, said, match[2], text[: match.start()].count("\n") + 2, page))
    return found


@dataclass
class Reader:
    """Somebody who types in a page from top to bottom."""

    world: dict = field(default_factory=dict)
    printed: str | None = None  # by the block before

    def read(self, page: Path, monkeypatch) -> None:
        monkeypatch.syspath_prepend(Path.cwd())  # as in a python that was started there
        for name in [n for n in sys.modules if n.startswith("my_")]:
            monkeypatch.delitem(sys.modules, name)  # of another page
        module = ModuleType("page")
        monkeypatch.setitem(sys.modules, "page", module)  # a dataclass asks for its module
        self.world = module.__dict__ | self.world
        for block in blocks(page):
            try:
                getattr(self, f"on_{block.language}")(block)
            except AssertionError as e:
                raise AssertionError(f"{block.where}: {e}") from e
            except AttributeError as e:
                raise AssertionError(f"{block.where}: a block of {block.language!r} ({e})") from e

    def on_python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + block.content, str(block.page), "exec")
        if block.said.endswith(".py"):
            Path(block.said).write_text(block.content)
            self.printed = None
            return
        said = StringIO()
        with redirect_stdout(said):
            exec(code, self.world)
        self.printed = said.getvalue()

    def on_bash(self, block: Block) -> None:
        expected = int(block.said.removeprefix("exit=")) if block.said else 0
        lines = [line for line in block.content.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
        self.printed = None
        for line in lines:
            if line.startswith(ELSEWHERE):
                continue
            args = shlex.split(line, comments=True)
            assert args[0] == "amends", f"cannot be run here: {line}"
            args, _, into = " ".join(map(shlex.quote, args[1:])).partition(" '>' ")
            out, err = StringIO(), StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                code = command(*shlex.split(args))
            last = line is lines[-1]
            assert code == (expected if last else 0), f"exit code {code} of {line}\n{out.getvalue()}{err.getvalue()}"
            if into:
                Path(shlex.split(into)[0]).write_text(out.getvalue())
            self.printed = err.getvalue() if code else out.getvalue()

    def on_toml(self, block: Block) -> None:
        if block.said:
            Path(block.said).write_text(block.content)
            read_config(Path(block.said))
            return
        import tomllib

        as_config(WHOLE | tomllib.loads(block.content), Path("."), block.where)

    def on_yaml(self, block: Block) -> None:
        """A workflow, whose commands amends must take."""
        import click
        import yaml

        from amends.cli.app import cli

        steps = [step for job in yaml.safe_load(block.content)["jobs"].values() for step in job["steps"]]
        lines = [line.strip() for step in steps for line in step.get("run", "").splitlines()]
        orders = [shlex.split(line)[1:] for line in lines if line.startswith("amends ")]
        assert orders, "no command of amends"
        for name, *args in orders:
            found = cli.get_command(click.Context(cli), name)
            assert found is not None
            found.make_parser(click.Context(found)).parse_args(list(args))

    def on_csv(self, block: Block) -> None:
        Path(block.said).write_text(block.content)

    def on_text(self, block: Block) -> None:
        """An output is what was printed. Of an example the heads of its tables are: words without numbers."""
        if self.printed is None:
            return
        if block.said == "for example":
            wordy = [line for line in block.content.splitlines() if line and not re.search(r"[\d:.]|repaired", line)]
            heads = wordy[:1] + [line for line in wordy[1:] if line.split()[0] in HEADS]
            missing = set(re.findall(r"[a-z_]{3,}", " ".join(heads))) - set(re.findall(r"[a-z_]{3,}", self.printed))
            assert self.printed.strip(), "nothing was printed"
            assert not missing, f"nothing like {sorted(missing)} in\n{self.printed}"
        else:
            ours, theirs = (tidy(t) for t in (block.content, self.printed))
            assert ours == theirs, f"the page shows\n{ours}\nand there came\n{theirs}"
        self.printed = None


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


__all__ = ["DOCS", "ROOT", "Block", "Reader", "amends", "blocks"]
