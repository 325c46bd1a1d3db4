"""A report as a test reads it."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from amends.report.page import report

VOID = {"img", "meta", "br", "hr", "col"}


class Page(HTMLParser):
    """A document as a tree of [tag, attributes, children]; fails on a tag that is not closed in its turn."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = ["", {}, []]
        self.open = [self.root]
        self.feed(text)
        assert len(self.open) == 1, self.open[-1][0]

    def handle_starttag(self, tag, attrs):
        node = [tag, dict(attrs), []]
        self.open[-1][2].append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, (self.open[-1][0], tag)
        self.open.pop()

    def handle_data(self, data):
        self.open[-1][2].append(data)

    def all(self, name="", node=None, **wanted):
        """Elements of a name whose attributes hold these words."""
        found = []
        for child in (node or self.root)[2]:
            if isinstance(child, str):
                continue
            has = all(set(v.split()) <= set((child[1].get(k.rstrip("_")) or "").split()) for k, v in wanted.items())
            if child[0] == (name or child[0]) and has:
                found.append(child)
            found += self.all(name, child, **wanted)
        return found

    def text(self, node):
        return "".join(c if isinstance(c, str) else self.text(c) for c in node[2])

    def section(self, name):
        return self.all("section", id=name)[0]

    def table(self, node, caption):
        """The rows of the table with this caption, as texts."""
        found = next(t for t in self.all("table", node) if caption in self.text(t))
        rows = [[self.text(c) for c in r[2] if not isinstance(c, str)] for r in self.all("tr", found)]
        return rows


def changed(copy, **metrics):
    """The same run with other metrics."""
    path = copy / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | metrics))
    return Page(report(copy))


def looks_of(copy):
    return json.loads((copy / "looks.json").read_text())
