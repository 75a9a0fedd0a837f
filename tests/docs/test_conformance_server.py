"""The page about the conformance of the reasoning server tells of every scenario."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "conformance-server.md"


def check(page: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "conformance_server.py"
    return subprocess.run(
        [sys.executable, str(script), "--check", "--page", str(page)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_scenario_is_on_the_page_and_none_failed() -> None:
    checked = check(PAGE)

    assert checked.returncode == 0, checked.stderr


def test_a_failed_or_missing_scenario_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    failing = PAGE.read_text().replace("| pass |", "| **fail** |", 1)
    page.write_text(failing.replace("`caching` 7/7, ", ""))

    checked = check(page)

    assert checked.returncode == 1
    assert "page.md: failed: 0.1.16 2025-11-25 `server-initialize`\n" in checked.stderr
    assert "page.md: missing: 0.2.0-alpha.12 2026-07-28 `caching`\n" in checked.stderr
