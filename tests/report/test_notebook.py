"""Results in a notebook."""

from __future__ import annotations

from tests.report.html import Page


def test_results_show_themselves_in_a_notebook(result, of_texts):
    html = result._repr_html_()
    page = Page(html)
    text = page.text(page.root)
    assert result.metrics["verdict"].capitalize() in text
    assert result.metrics["reason"][1:] in text
    assert len(page.all("figure")) == 2
    assert len(page.all("article")) == 6
    assert page.all("img", page.all("article")[0])
    assert not [n for n in page.all() if "id" in n[1]]
    assert len(html) < 300_000
    assert "<script" not in of_texts[0]._repr_html_()
    found = Page(result.influence._repr_html_())
    assert len(found.all("article")) == 6
    assert found.all("img")
