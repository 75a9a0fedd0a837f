"""Joins the reports of several runners: results, traces and judgments."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from plait.verification.answers import AnswerStore, JudgmentStore
from plait.verification.results import CaseResult, ResultFile, merged, read_results


def merge_reports(reports: Sequence[Path], target: Path) -> list[CaseResult]:
    """Write the results, traces and judgments of several reports into one folder.

    Of equal keys the last counts. The target may be one of the reports.

    Raises:
        ConfigError: A report has no results.
    """
    results = merged(read_results(report) for report in reports)
    store = AnswerStore(target)
    store.folder.mkdir(parents=True, exist_ok=True)
    for report in reports:
        folder = report if report.is_dir() else report.parent
        if folder.resolve() != target.resolve():
            for path in AnswerStore(folder).files():
                shutil.copy2(path, store.folder / path.name)
            JudgmentStore(target).add(JudgmentStore(folder).known, store=True)
    file = ResultFile(target)
    file.path.unlink(missing_ok=True)
    for result in results:
        file.append(result)
    return results
