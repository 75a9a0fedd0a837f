"""The style sheet of the viewer changes nothing of the pages that are also exported."""

from __future__ import annotations

import re

import pytest

from plait.html.conversation import run_page
from plait.html.page import STYLE, asset
from plait.reasoning.html import STYLE as THINKING_STYLE
from plait.viewer.pages import VIEWER_STYLE
from tests.unit.html.parsed import parsed
from tests.unit.html.sample_runs import full_run

SHARED = {"top"}
"""Parts of exported pages to which the viewer adds something."""


def _styled(sheet: str) -> set[str]:
    """Return the classes with which the selectors of a style sheet begin."""
    return set(re.findall(r"(?:^|[,}{])\s*\.([\w-]+)", sheet))


@pytest.mark.parametrize(
    "sheet", [asset(VIEWER_STYLE), asset(THINKING_STYLE)], ids=["viewer", "thinking"]
)
def test_no_other_style_is_for_a_class_of_the_exported_pages(sheet: str) -> None:
    steps = {
        name
        for element in parsed(run_page(full_run())).all("article")
        for name in element.attributes["class"].split()
    }
    assert "question" in steps
    assert "findings" in _styled(asset(STYLE))

    assert _styled(sheet) & (steps | _styled(asset(STYLE))) <= SHARED
