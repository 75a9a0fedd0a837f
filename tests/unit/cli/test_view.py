"""`plait view` refuses what cannot work, and passes reports of verification to the viewer."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from plait.cli import main
from plait.cli.commands.view import ReportFiles
from plait.verification.results import RESULTS_FILE
from tests.unit.verification.sample_reports import write_report


def test_reports_are_found_described_and_rendered(tmp_path: Path) -> None:
    results = write_report(tmp_path / "shown" / "nightly")
    write_report(tmp_path / "other")
    (tmp_path / "shown" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "shown" / "linked").mkdir()
    (tmp_path / "shown" / "linked" / RESULTS_FILE).symlink_to(tmp_path / "other" / RESULTS_FILE)
    reports = ReportFiles()

    (found,) = reports.find(tmp_path / "shown")

    assert found.name == "nightly"
    assert reports.find(found / RESULTS_FILE) == [found]
    assert reports.find(tmp_path / "shown" / "nightly" / "traces") == []
    counts = Counter(one.outcome for one in results)
    decided = counts["passed"] + counts["failed"]
    line = reports.summary(found)
    assert (line.passed, line.failed, line.errors) == (counts["passed"], counts["failed"], 1)
    assert line.suite == "nightly"
    # The report itself says the same.
    assert f"<dd>{counts['passed']} of {decided}</dd>" in reports.body(found)
    assert "book a train" in reports.body(found)
    version = reports.version(found)
    os.truncate(found / RESULTS_FILE, 0)
    assert reports.version(found) != version
    assert reports.summary(found).rate is None
    assert "no results yet" in reports.body(found)
    (found / RESULTS_FILE).unlink()
    assert "gone" in reports.version(found)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--allow-calls"], "--config mcp.json"),
        (["--db", "nothing.db"], "there is no database"),
        (["nowhere"], "does not exist"),
    ],
)
def test_what_cannot_be_shown_is_an_error(
    options: list[str], text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PLAIT_CONFIG", raising=False)
    monkeypatch.delenv("DATABASE_PATH", raising=False)

    done = CliRunner().invoke(main, ["view", "--port", "0", *options])

    assert done.exit_code != 0
    assert text in done.output
