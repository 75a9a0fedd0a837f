"""The report of a benchmark run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.compare.contenders import CONTENDERS, LIMIT, PLAIT
from benchmarks.compare.report import (
    BEGIN,
    END,
    MarkersMissingError,
    markdown,
    write_between_markers,
    write_files,
)
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import ROWS


def measured() -> Results:
    results = Results(versions={PLAIT.id: {"plait": "1.2.3"}})
    for contender in (LIMIT, PLAIT):
        results.add(contender.id, 0, {"stdio": {"samples": [0.001], "cpu": 0.001}})
    return results


def test_only_the_text_between_the_markers_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nrest\n", "utf-8")

    write_between_markers(page, "new")
    write_between_markers(page, "newer")

    assert page.read_text("utf-8") == f"# Title\n\n{BEGIN}\n\nnewer\n\n{END}\n\nrest\n"


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{BEGIN}\n", "utf-8")

    with pytest.raises(MarkersMissingError):
        write_between_markers(page, "new")

    assert page.read_text("utf-8") == f"# Title\n{BEGIN}\n"


def test_the_documentation_has_a_place_for_the_tables() -> None:
    page = Path(__file__).parents[3] / "docs" / "performance.md"

    text = page.read_text("utf-8")

    assert text.count(BEGIN) == text.count(END) == 1


def test_a_report_names_the_command_and_the_versions() -> None:
    text = markdown(measured(), ROWS, CONTENDERS, "python -m benchmarks.compare", "plot.svg")

    assert "`python -m benchmarks.compare`" in text
    assert "- plait, caller's loop: plait 1.2.3" in text


def test_a_run_leaves_raw_numbers_a_plot_and_a_report(tmp_path: Path) -> None:
    write_files(measured(), ROWS, CONTENDERS, "command", tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "plot.svg",
        "report.md",
        "results.json",
    ]
    assert len(json.loads((tmp_path / "results.json").read_text("utf-8"))["visits"]) == 2
