"""The report of a run: Markdown for the documentation, files with the plot and the raw numbers."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.contenders import Contender
from benchmarks.compare.plot import svg
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import Row
from benchmarks.compare.table import (
    plait_table,
    ratio_table,
    reasons,
    times_table,
    wall_table,
)

BEGIN = "<!-- benchmark: begin -->"
END = "<!-- benchmark: end -->"


class MarkersMissingError(Exception):
    """The page has no place for the tables."""


def machine() -> str:
    """Describe the machine without naming it."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def summary(
    results: Results, rows: Sequence[Row], contenders: Sequence[Contender], command: str, plot: str
) -> str:
    """Write the table for the documentation, which leaves the rest to the report."""
    return "\n".join(
        [
            f"Measured on {machine()}, with `{command}`.",
            "",
            f"![Multiples of the hand-written limit]({plot})",
            "",
            wall_table(results, rows, contenders).to_markdown(),
        ]
    )


def markdown(
    results: Results, rows: Sequence[Row], contenders: Sequence[Contender], command: str, plot: str
) -> str:
    """Write the tables with what a reader needs to judge them."""
    versions = [
        f"- {contender.title}: "
        + ", ".join(f"{name} {version}" for name, version in results.versions[contender.id].items())
        for contender in contenders
        if contender.id in results.versions
    ]
    notes = [f"- {reason}" for reason in reasons(results, rows, contenders)]
    return "\n".join(
        [
            f"Measured on {machine()}, with `{command}`.",
            "",
            f"![Multiples of the hand-written limit]({plot})",
            "",
            ratio_table(results, rows, contenders).to_markdown(),
            "",
            "plait in wall time, compared with the limit and its main peers:",
            "",
            plait_table(results, rows).to_markdown(),
            "",
            "Times and memory:",
            "",
            times_table(results, rows, contenders).to_markdown(),
            "",
            *(["Why a cell has a dash or is lost:", "", *notes, ""] if notes else []),
            "Versions:",
            "",
            *versions,
        ]
    )


def write_between_markers(page: Path, text: str) -> None:
    """Replace what is between the markers of a page.

    Raises:
        MarkersMissingError: The page has no markers.
    """
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkersMissingError(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def write_files(
    results: Results, rows: Sequence[Row], contenders: Sequence[Contender], command: str, out: Path
) -> None:
    """Write `results.json`, `plot.svg` and `report.md` into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    raw = {"machine": machine(), "command": command, **results.to_json()}
    (out / "results.json").write_text(json.dumps(raw, indent=1), "utf-8")
    (out / "plot.svg").write_text(svg(results, rows, contenders), "utf-8")
    report = markdown(results, rows, contenders, command, "plot.svg")
    (out / "report.md").write_text(report + "\n", "utf-8")
