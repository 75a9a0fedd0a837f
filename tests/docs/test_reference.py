"""The reference pages name everything there is, as it is."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from typing import get_type_hints

import anyio
import pytest

from plait import PlaitError, errors, testing
from plait.testing.faults.fault_options import FaultOptions, Run, parse
from plait.testing.faults.fault_server import build_server
from tests.docs.pages import ROOT, pages

REFERENCE = ROOT / "docs" / "reference"
SOURCE = ROOT / "src" / "plait"
ERRORS = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, PlaitError) and found is not PlaitError
]


FAULT_SERVER = build_server(Run(parse([])))


def words_of(page: str) -> set[str]:
    """Return the names in code spans of a page, without what is in brackets behind them."""
    prose = re.sub(
        r"^```.*?^```$", "", (REFERENCE / page).read_text(), flags=re.DOTALL | re.MULTILINE
    )
    spans = re.findall(r"`([^`]+)`", prose)
    return {span.partition("(")[0] for span in spans}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_is_described_with_its_defaults(error: type[PlaitError]) -> None:
    retryable = "yes" if error.retryable else "no"
    row = f"| `{error.__name__}` | {error.kind} | {retryable} | {error.retry} | "

    assert row in (REFERENCE / "errors.md").read_text()


def test_every_variable_of_plait_is_described() -> None:
    page = (REFERENCE / "environment-variables.md").read_text()
    code = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    named = set(re.findall(r"PLAIT_[A-Z]+", code))

    assert "PLAIT_DEBUG" in named
    assert {name for name in named if f"`{name}" not in page} == set()


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("errors.md", lambda: {*vars(PlaitError("text")), "kind", "retryable", "retry", "to_dict"}),
        ("testing.md", lambda: {*dir(testing)}),
        ("testing.md", lambda: {*get_type_hints(FaultOptions)}),
        ("testing.md", lambda: {tool.name for tool in anyio.run(FAULT_SERVER.list_tools)}),
    ],
    ids=["attributes of errors", "helpers for tests", "options of faults", "tools of faults"],
)
def test_every_name_is_described(page: str, names: Callable[[], set[str]]) -> None:
    assert names() - words_of(page) == set()


def test_the_map_names_only_modules_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))

    assert len(named) > 20
    roots = (SOURCE, ROOT)
    assert {name for name in named if not any((root / name).exists() for root in roots)} == set()
    assert {name for name in packages if f"── {name}/" not in text} == set()


def test_pages_about_the_code_name_only_modules_that_exist() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text()):
            assert (SOURCE / name).exists() or (ROOT / name).exists(), (page, name)


def test_pages_name_only_what_can_be_imported() -> None:
    for page in pages():
        for name in re.findall(r"`(plait(?:\.\w+)+)", page.read_text()):
            if not name.startswith("plait.lock"):  # the lockfile
                assert pkgutil.resolve_name(name) is not None, page
