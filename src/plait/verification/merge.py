"""Joins the reports of several runners: results and traces."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from plait.verification.answers import AnswerStore
from plait.verification.results import CaseResult, ResultFile, merged, read_results


def merge_reports(reports: Sequence[Path], target: Path) -> list[CaseResult]:
    """Write the results and traces of several reports into one folder.

    Of equal keys the last counts. The target may be one of the reports.

    Raises:
        ConfigError: A report has no results.
    """
    results = merged(read_results(report) for report in reports)
    store = AnswerStore(target)
    store.folder.mkdir(parents=True, exist_ok=True)
    for report in reports:
        part = AnswerStore(report if report.is_dir() else report.parent)
        if part.folder.resolve() != store.folder.resolve():
            for path in part.files():
                shutil.copy2(path, store.folder / path.name)
    file = ResultFile(target)
    file.path.unlink(missing_ok=True)
    for result in results:
        file.append(result)
    return results
