"""Markup is only what `elements` builds; everything else becomes text."""

from __future__ import annotations

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.html.elements import escape_text, h, image_source, raw_text_element
from tests.unit.html.parsed import parsed


def test_text_and_attributes_are_escaped() -> None:
    element = h("b", "<i>&\"'", title="\"><script>'")

    assert element == ('<b title="&quot;&gt;&lt;script&gt;&#x27;">&lt;i&gt;&amp;&quot;&#x27;</b>')


def test_markup_is_not_escaped_again_but_text_made_of_it_is() -> None:
    inner = h("i", "x")

    assert h("b", inner, [inner, None, "<"]) == "<b><i>x</i><i>x</i>&lt;</b>"
    assert h("b", f"{inner}") == "<b>&lt;i&gt;x&lt;/i&gt;</b>"
    assert h("b", inner.upper()) == "<b>&lt;I&gt;X&lt;/I&gt;</b>"


def test_names_of_attributes_follow_html() -> None:
    assert h("input", class_="a", data_no_x=1, hidden=True, disabled=False, id=None) == (
        '<input class="a" data-no-x="1" hidden>'
    )


@given(st.text())
def test_any_text_is_read_back_as_its_visible_form(text: str) -> None:
    page = parsed(h("p", text, title=text))

    (element,) = page.elements
    assert element.text == unescape(escape_text(text))
    assert element.attributes["title"] == unescape(escape_text(text))


@pytest.mark.parametrize(
    "hidden", ["\x1b[31m", "\x00", "\u202e", "\u200b", "\U000e0041", "\ud800", "\x9b"]
)
def test_hidden_and_active_characters_become_visible(hidden: str) -> None:
    written = escape_text(f"a{hidden}b")

    assert hidden[0] not in written
    assert "\\" in written
    written.encode("utf-8")


AWAY = """javascript:alert(1)|JaVaScRiPt:x|\tjavascript:x| javascript:x|java\nscript:x|
https://example.com|//example.com/x|\\\\example.com|/\\example.com||data:text/html,x|
data:image/svg+xml;base64,AAAA|x:y|.evil:x|..:x""".replace("|\n", "|").split("|")


def test_an_address_may_be_of_the_same_page_or_host_and_none_that_leads_away() -> None:
    for address in AWAY:
        for name in ("href", "src", "action"):
            with pytest.raises(ValueError, match="address"):
                h("a", **{name: address})
    for address in ("#e1", "/runs/1", "?a=b", "run/1", "./x", "../x", "x.css", "compare"):
        assert address in h("a", href=address)


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("image/svg+xml", "AAAA"),
        ("text/html", "AAAA"),
        ("image/png", 'AA" onerror="x'),
        ("image/png;x", "AA"),
        ("", ""),
    ],
)
def test_only_pictures_of_known_types_are_shown(mime_type: str, data: str) -> None:
    assert image_source(mime_type, data) is None
    assert image_source("image/PNG", "iVBO\nRw0=") == "data:image/png;base64,iVBORw0="


def test_a_script_cannot_contain_its_end() -> None:
    for text in ("</script>", "</SCRIPT ", "<!--"):
        with pytest.raises(ValueError, match="end"):
            raw_text_element("script", text)
