"""The pages of docs/ as a site of plain files: no request to anywhere, every link checked before it is written.

    python docs/build.py [folder]        # site/ when left out

A fenced block may name a file (```python my_model.py); `setup` folds it away, `for example` says that an output is one.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

HERE = Path(__file__).parent
NAV = {
    "Start": {"index.md": "amends", "tutorial.md": "Tutorial"},
    "How to": {
        "how-to/images.md": "Images", "how-to/text.md": "Text", "how-to/tables.md": "Tables",
        "how-to/regression.md": "Regression", "how-to/several-labels.md": "Several labels",
        "how-to/language-models.md": "Language models", "how-to/huggingface.md": "Hugging Face",
        "how-to/lora.md": "LoRA adapters", "how-to/skorch.md": "skorch", "how-to/lightning.md": "Lightning",
        "how-to/own-loss.md": "Your own loss", "how-to/augmentation.md": "Augmentation",
        "how-to/failures.md": "Naming the failures", "how-to/groups.md": "One kind of failure",
        "how-to/review.md": "Reviewing causes", "how-to/ci.md": "In CI", "how-to/export.md": "Export and logging",
        "how-to/gpu.md": "GPUs and memory",
    },
    "Understand": {
        "limits.md": "When it works", "default.md": "The default", "methods.md": "The methods",
        "extending.md": "A method of your own", "results/quality.md": "Results: quality",
        "results/convex.md": "Results: exact retraining", "results/benchmarks.md": "Results: cost",
    },
    "Reference": {
        "reference/cli.md": "Command line", "reference/config.md": "amends.toml", "reference/api.md": "Python",
        "reference/run-folder.md": "Run folder", "glossary.md": "Words",
    },
    "Project": {"versioning.md": "Versions", "../CHANGELOG.md": "Changes"},
}  # fmt: skip


class Broken(Exception):
    """A page or a link that leads nowhere, in one line."""


@dataclass(frozen=True, eq=False)
class Page:
    """One source file: its tokens, its headings, and where it goes."""

    source: Path
    name: str
    label: str

    @property
    def target(self) -> str:
        return self.name.removeprefix("../").lower().removesuffix(".md") + ".html"

    @cached_property
    def tokens(self) -> list[Token]:
        found = MarkdownIt("commonmark").enable("table").parse(self.source.read_text(encoding="utf-8"))
        used: dict[str, int] = {}
        for opening, inline in pairwise(found):
            if opening.type == "heading_open":
                slug = slug_of(inline.content)
                used[slug] = used.get(slug, 0) + 1
                opening.attrSet("id", slug if used[slug] == 1 else f"{slug}-{used[slug] - 1}")
        return found

    @property
    def headings(self) -> list[tuple[str, str, str]]:
        """Level, id and text of each."""
        pairs = pairwise(self.tokens)
        return [(a.tag, str(a.attrGet("id")), words(b.content)) for a, b in pairs if a.type == "heading_open"]

    @property
    def title(self) -> str:
        return self.headings[0][2] if self.headings else self.label


def slug_of(text: str) -> str:
    """The anchor of a heading, as GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", words(text).lower()).strip().replace(" ", "-")


def words(text: str) -> str:
    """A line of Markdown as plain text."""
    return re.sub(r"[`*]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)).replace("\\", "")


def pages_of(source: Path) -> list[Page]:
    """Every page, in the order of the menu; a file that the menu does not name, or the other way round, is an error."""
    named = {name: label for section in NAV.values() for name, label in section.items()}
    there = {p.relative_to(source).as_posix() for p in source.rglob("*.md")}
    for name in sorted(there - set(named)):
        raise Broken(f"no place in the menu; {source / name}; name it in NAV of docs/build.py")
    for name in named:
        if not (source / name).is_file():
            raise Broken(f"no such page; {source / name}; write it, or take it out of NAV of docs/build.py")
    return [Page((source / name).resolve(), name, label) for name, label in named.items()]


@dataclass(frozen=True, eq=False)
class Site:
    """All pages together: what a link needs to know."""

    pages: Sequence[Page]
    root: Path

    @cached_property
    def by_source(self) -> dict[Path, Page]:
        return {p.source: p for p in self.pages}

    @cached_property
    def files(self) -> set[Path]:
        """Pictures and the like that pages show."""
        return set()

    def address(self, link: str, page: Page) -> str:
        """Where a link leads from a page; Broken where that is nowhere."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return link
        target = (page.source.parent / unquote(parts.path)).resolve() if parts.path else page.source
        other = self.by_source.get(target)
        if other is not None:
            if parts.fragment and unquote(parts.fragment) not in {h[1] for h in other.headings}:
                raise Broken(f"no heading #{parts.fragment} in {other.name}; {page.name}: {link}; mend the link")
            end = f"#{parts.fragment}" if parts.fragment else ""
            return end if other is page and end else relative(page.target, other.target) + end
        if not target.is_file() or not target.is_relative_to(self.root):
            raise Broken(f"it leads nowhere; {page.name}: {link}; mend the link")
        self.files.add(target)
        return relative(page.target, target.relative_to(self.root).as_posix())

    def html(self, page: Page) -> str:
        """The inside of a page."""
        out: list[str] = []
        plain = MarkdownIt("commonmark").enable("table").renderer
        for token in self.addressed(page):
            if token.type == "fence":
                out.append(block(token.info, token.content))
            elif token.type == "heading_close":
                out.append(f"</{token.tag}>\n")
            elif token.type == "heading_open":
                mark = escape(str(token.attrGet("id")))
                out.append(f'<{token.tag} id="{mark}"><a class="anchor" href="#{mark}" aria-label="This section">#</a>')
            elif token.type in ("table_open", "table_close"):
                out.append('<div class="wide"><table>\n' if token.type == "table_open" else "</table></div>\n")
            else:
                out.append(plain.render([token], MarkdownIt("commonmark").options, {}))
        return "".join(out)

    def addressed(self, page: Page) -> Iterator[Token]:
        for token in page.tokens:
            for inner in token.children or ():
                if inner.type == "code_inline" and len(inner.content) <= 24:
                    inner.attrSet("class", "short")  # an option, a key: never broken in two
                for name in ("href", "src"):
                    given = inner.attrGet(name)
                    if given is not None:
                        inner.attrSet(name, self.address(str(given), page))
            yield token


def relative(here: str, there: str) -> str:
    return posixpath.relpath(there, posixpath.dirname(here) or ".")


def block(info: str, content: str) -> str:
    """Code, with its colours and what its first line says of it."""
    language, _, rest = info.strip().partition(" ")
    try:
        lexer = get_lexer_by_name({"csv": "text", "": "text"}.get(language, language))
    except ClassNotFound as e:
        raise Broken(f"no language {language!r}; ```{info}; write one that pygments knows") from e
    code = highlight(content, lexer, HtmlFormatter(nowrap=True))
    said = {"setup": "", "for example": "for example"}.get(rest, re.sub(r"exit=(\d+)", r"exit code \1", rest))
    caption = f"<figcaption>{escape(said)}</figcaption>" if said else ""
    figure = f'<figure class="{escape(language)}">{caption}<pre tabindex="0"><code>{code}</code></pre></figure>\n'
    if rest == "setup":
        return f"<details><summary>The data and the model of this page</summary>{figure}</details>\n"
    return figure


def menu(site: Site, page: Page) -> str:
    """All pages; below the one that is open, its sections."""
    out = []
    at = {p.name: p for p in site.pages}
    for section, names in NAV.items():
        items = []
        for name, label in names.items():
            other, inside = at[name], ""
            current = ' aria-current="page"' if other is page else ""
            below = [f'<li><a href="#{i}">{escape(t)}</a></li>' for h, i, t in page.headings if h == "h2"]
            if other is page and 1 < len(below) <= 24:
                inside = f"<ul>{''.join(below)}</ul>"
            link = relative(page.target, other.target)
            items.append(f'<li><a href="{link}"{current}>{escape(label)}</a>{inside}</li>')
        out.append(f"<h2>{section}</h2><ul>{''.join(items)}</ul>")
    return "".join(out)


SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{up}style.css">
</head>
<body>
<a class="skip" href="#content">To the text</a>
<input type="checkbox" id="menu" aria-label="Menu">
<header><a href="{up}index.html">amends</a><label for="menu">Menu</label></header>
<nav aria-label="Pages">{menu}</nav>
<main id="content">
{body}<footer>{around}</footer>
</main>
</body>
</html>
"""


def around(pages: Sequence[Page], page: Page) -> str:
    """The page before and the page after."""
    i = pages.index(page)
    both = ((i - 1, "prev", "← "), (i + 1, "next", ""))
    found = [(pages[k], rel, mark) for k, rel, mark in both if 0 <= k < len(pages)]
    return "".join(
        f'<a rel="{rel}" href="{relative(page.target, p.target)}">{mark}{escape(p.label)}{" →" if not mark else ""}</a>'
        for p, rel, mark in found
    )


def build(source: Path = HERE, out: Path = HERE.parent / "site") -> list[Path]:
    """Writes the site; nothing is written where a link is broken."""
    pages = pages_of(source)
    site = Site(pages, source.resolve())
    made = {}
    for page in pages:
        up = "../" * page.target.count("/")
        title = page.title if page.label == "amends" else f"{page.title} · amends"
        made[page.target] = SHELL.format(
            title=escape(title), up=up, menu=menu(site, page), body=site.html(page), around=around(pages, page)
        )
    shutil.rmtree(out, ignore_errors=True)
    for name, text in made.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
    for file in sorted(site.files | {source.resolve() / "style.css"}):
        target = out / file.relative_to(site.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    return [out / name for name in made]


def main(args: Sequence[str]) -> int:
    out = Path(args[0]) if args else HERE.parent / "site"
    try:
        made = build(HERE, out)
    except Broken as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    print(f"{len(made)} pages in {out}/; open {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
