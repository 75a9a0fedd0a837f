"""Exports show the texts of a session; nothing in them acts where the export is opened."""

from __future__ import annotations

from xml.etree import ElementTree

from plait._support.sanitize import escaped_for_markdown
from plait.reasoning.diagram import Diagram, DiagramNode, svg_of
from plait.reasoning.export import _dot_escaped, _mermaid_text

HOSTILE = "<script>alert(1)</script> ![x](http://169.254.169.254/) `rm` & \x1b[31m\x00"


def test_markdown_has_no_image_link_html_or_control_character() -> None:
    text = escaped_for_markdown(HOSTILE)
    assert "\x1b" not in text
    assert text.startswith("\\<script>alert(1)\\</script> \\!\\[x\\](http://")
    assert "\\`rm\\` \\&" in text


def test_an_svg_of_any_text_is_well_formed_and_has_no_script() -> None:
    node = DiagramNode(key="a", kind="thought<", text=HOSTILE, faded=False, score=None)
    root = ElementTree.fromstring(svg_of(Diagram(nodes=[node], arrows=[])))
    assert not [one for one in root.iter() if "script" in one.tag]


def test_mermaid_labels_end_no_label() -> None:
    assert not set('"<>[]|') & set(_mermaid_text(HOSTILE))


def test_mermaid_and_dot_show_what_hides() -> None:
    assert _mermaid_text("a\u202eb") == "a#92;u202eb"
    assert _dot_escaped("a\u202eb\x1b") == "a\\\\u202eb\\\\u001b"
