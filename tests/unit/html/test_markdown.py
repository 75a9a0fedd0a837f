"""Answers of models are shown as Markdown, of which nothing is markup of theirs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.html.markdown import MAX_MARKDOWN_CHARACTERS, markdown_block
from tests.unit.html.parsed import parsed

ALLOWED = {
    *("div", "span", "p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br"),
    *("table", "thead", "tbody", "tr", "th", "td", "em", "strong", "s", "u", "pre", "code"),
    *("details", "summary"),
}


def test_the_usual_forms_are_elements() -> None:
    text = (
        "# Title\n\nA **bold** and *soft* word, `code`.\n\n- one\n- two\n\n1. first\n\n> said\n\n"
        "```py\nx < 1\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n---\n\nline\\\nbreak ~~gone~~"
    )
    page = parsed(markdown_block(text))
    found = {one.tag for one in page.elements}

    assert {"h3", "strong", "em", "code", "ul", "ol", "li", "blockquote", "pre"} <= found
    assert {"table", "th", "td", "hr", "br", "s"} <= found
    assert page.all("pre")[0].text == "x < 1\n"


def test_a_plain_text_is_paragraphs() -> None:
    assert markdown_block("One & two.\n\nThree.") == (
        '<div class="md"><p dir="auto">One &amp; two.</p><p dir="auto">Three.</p></div>'
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script> **x**",
        "<img src=x onerror=alert(1)> *x*",
        "[click](javascript:alert(1))",
        "[click](https://evil.example/?q=secret)",
        "![pixel](https://evil.example/pixel.png)",
        "<https://evil.example/>",
        "[a]: https://evil.example\n\n[a]",
        "```html\n</code></pre><script>alert(1)</script>\n```",
        "`</code><b onclick=alert(1)>`",
        "| <svg onload=alert(1)> |\n| --- |\n| x |",
        "&lt;script&gt; &#60;b&#62; **x**",
        '[x](<a" onmouseover="alert(1)> "title")',
        "\u202e**reversed**",
    ],
)
def test_a_hostile_text_is_text(text: str) -> None:
    page = parsed(markdown_block(text))

    assert {one.tag for one in page.elements} <= ALLOWED
    for one in page.elements:
        assert set(one.attributes) <= {"class", "dir"}
    assert "\u202e" not in markdown_block(text)


def test_a_link_says_where_it_leads() -> None:
    text = parsed(markdown_block("[your bank](https://evil.example/)")).all("p")[0].text
    assert text == "your bank (https://evil.example/)"


@given(st.text(alphabet="<>&\"'*_`[]()!#-|~\\ \n1.aé\u202e\x00"))
def test_whatever_is_written_has_only_these_elements(text: str) -> None:
    page = parsed(markdown_block(text))
    assert {one.tag for one in page.elements} <= ALLOWED


@pytest.mark.parametrize("unit", ["[", "*a ", "> ", "`", "![", "- ", "|a", "**a*"])
def test_no_text_takes_long(unit: str) -> None:
    began = time.process_time()
    markdown_block(unit * (MAX_MARKDOWN_CHARACTERS // len(unit)))
    markdown_block(unit * MAX_MARKDOWN_CHARACTERS)
    assert time.process_time() - began < 3
