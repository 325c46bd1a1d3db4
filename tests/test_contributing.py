"""CONTRIBUTING.md names files, targets and tests that exist."""

from __future__ import annotations

import re
import shlex

from tests.pages import ROOT, blocks

PAGE = ROOT / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    lines = [line for block in blocks(PAGE) if block.language == "bash" for line in block.content.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_every_command_can_be_started():
    targets = set(re.findall(r"^([\w./]+):", (ROOT / "Makefile").read_text(), re.M))
    assert len(commands()) > 5
    for program, *words in commands():
        assert program in ("make", "mkdir", ".venv/bin/python"), program
        if program == "make":
            assert set(words) <= targets
        for word in words:
            if word.startswith(("tests", "benchmarks", "examples")):
                path, _, name = word.partition("::")
                assert (ROOT / path).exists(), path
                assert not name or f"\ndef {name}(" in (ROOT / path).read_text(), word


def test_every_option_of_a_benchmark_is_one():
    (words,) = [words for words in commands() if any("benchmarks/" in word for word in words)]
    source = (ROOT / words[1]).read_text()
    for option in (word for word in words if word.startswith("--")):
        assert f'"{option}"' in source, option
    assert f'"{words[words.index("--settings") + 1]}"' in (ROOT / "benchmarks/settings.py").read_text()


def test_every_file_and_name_in_the_text_exists():
    paths = set(re.findall(r"`((?:amends|benchmarks|docs|tests)/[\w./-]*)`", TEXT))
    assert len(paths) > 15
    assert not [path for path in paths if not (ROOT / path.rstrip("/")).exists()]
    for name, path in re.findall(r"`(\w+)` (?:in|of) `((?:amends)/[\w/.]+\.py)`", TEXT):
        assert re.search(rf"^(?:def |class )?{name}\b", (ROOT / path).read_text(), re.M), f"{name} in {path}"
