"""The pages of docs/ as a site: Sphinx reads Markdown with MyST and shows it with Furo. `make docs` builds it.

The pages are plain Markdown, so that they read well on a code host too. What Sphinx needs beyond that is added here:
the menu (from menu.toml), the pages that lie at the root of the repository, and what the first line of a fenced block
says of it (```python my_model.py).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

AT_ROOT = {"changes": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "readme": "README.md"}

project = "amends"
extensions = ["myst_parser"]
nitpicky = True
highlight_language = "text"
smartquotes = False  # what is printed stays as it is

myst_heading_anchors = 4  # the anchors of headings are those of GitHub
myst_fence_as_directive = ["python", "bash", "toml", "text", "csv"]

html_theme = "furo"
html_title = "amends"
html_static_path = ["_static"]
html_css_files = ["amends.css"]
html_copy_source = html_show_copyright = html_use_index = False
html_show_search_summary = False  # it reads the pages with fetch, which a browser refuses for files on disk


class Fence(SphinxDirective):
    """A fenced block: the rest of its first line is a file, an exit code, `for example`, or `setup`, which folds it."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        said = self.arguments[0] if self.arguments else ""
        text = "\n".join(self.content)
        code: nodes.Element = nodes.literal_block(text, text, language={"csv": "text"}.get(self.name, self.name))
        self.set_source_info(code)
        if said == "setup":
            opening = "<details class='setup'><summary>The data and the model of this page</summary>"
            return [nodes.raw("", opening, format="html"), code, nodes.raw("", "</details>", format="html")]
        if said:
            caption = nodes.caption("", re.sub(r"^exit=", "exit code ", said))
            code = nodes.container("", caption, code, classes=["literal-block-wrapper"], literal_block=True)
        return [code]


def menu(folder: Path) -> str:
    """The table of contents that Sphinx wants on the first page; hidden there."""
    parts = tomllib.loads((folder / "menu.toml").read_text(encoding="utf-8"))
    made = []
    for part, pages in parts.items():
        lines = [f"{name} <{'self' if page == 'index' else page}>" for page, name in pages.items()]
        made.append("\n".join(["```{toctree}", ":hidden:", f":caption: {part}", "", *lines, "```"]))
    return "\n\n" + "\n\n".join(made) + "\n"


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds the menu to the first page, and puts the files at the root where their pages are."""
    folder = Path(app.srcdir)
    text = source[0]
    if page in AT_ROOT:
        text = (folder.parent / AT_ROOT[page]).read_text(encoding="utf-8")
        text = re.sub(r"\]\((?!https?:|#)(docs/)?", lambda link: "](" if link[1] else "](../", text)
    for other, file in AT_ROOT.items():
        text = re.sub(rf"\]\((\.\./)+{re.escape(file)}", f"](/{other}.md", text)
    source[0] = text + (menu(folder) if page == "index" else "")


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)
    for language in myst_fence_as_directive:
        app.add_directive(language, Fence)
