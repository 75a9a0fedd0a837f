"""Every test that the page about security names exists, and each promise names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGES = (ROOT / "docs" / "reference" / "security-promises.md",)
NAMED = re.compile(r"`(?P<file>tests/[\w/]+\.py)(?:::(?P<test>\w+))?`")
SHOWN = re.compile(r"^\|.*\| Shown by \|\n\|.*\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page: Path) -> None:
    named = list(NAMED.finditer(page.read_text()))

    assert named
    for name in named:
        code = (ROOT / name["file"]).read_text()
        assert not name["test"] or f"def {name['test']}(" in code, name[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_names_a_test(page: Path) -> None:
    tables = [table["rows"] for table in SHOWN.finditer(page.read_text())]

    assert tables
    for row in "".join(tables).splitlines():
        assert NAMED.search(row), row
