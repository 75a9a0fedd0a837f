"""The page about conformance tells of every scenario, and of no failure."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"


def test_every_scenario_is_on_the_page_and_none_failed() -> None:
    checked = check(PAGE)

    assert checked.returncode == 0, checked.stderr


def test_a_failed_scenario_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(row_of("initialize").replace("| pass |", "| **fail** |"))

    checked = check(page)

    assert checked.returncode == 1
    assert "page.md: failed: 0.1.16 2025-11-25 `auto` `initialize`\n" in checked.stderr


def test_a_missing_scenario_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(row_of("initialize"))

    checked = check(page)

    assert checked.returncode == 1
    assert "page.md: missing: 0.1.16 2025-11-25 `auto` `sse-retry`\n" in checked.stderr
    assert "missing: 0.1.16 2025-11-25 `auto` `initialize`\n" not in checked.stderr


def test_a_scenario_that_is_no_longer_run_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(row_of("initialize").replace("`initialize`", "`gone`"))

    checked = check(page)

    assert checked.returncode == 1
    assert "page.md: unknown: 0.1.16 2025-11-25 `auto` `gone`\n" in checked.stderr


def row_of(scenario: str) -> str:
    """Write a page on which one scenario passed."""
    head = "| Suite | Wire | `protocol` | Scenarios and their checks | Result |\n"
    rule = "| --- | --- | --- | --- | --- |\n"
    return f"{head}{rule}| 0.1.16 | 2025-11-25 | `auto` | `{scenario}` 1/1 | pass |\n"


def check(page: Path) -> "subprocess.CompletedProcess[str]":
    """Have the script look at a page; it runs no scenario."""
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "conformance.py", "--check", "--page", page],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
