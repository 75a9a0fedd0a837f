"""What the results of a suite say: pass rates with intervals, and how two runs differ."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from xml.etree import ElementTree as ET  # it is written here, not read

from plait._support.exception_groups import one_line
from plait.verification.results import CaseResult
from plait.verification.statistics import (
    Interval,
    PairedDifference,
    fisher_p_value,
    mcnemar_p_value,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)

SIGNIFICANCE = 0.05
"""Differences with a smaller p-value are beyond chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """The pass rate of a group of runs; errors of the infrastructure are counted apart."""

    name: str
    passed: int
    failed: int
    interval: Interval
    errors: int = 0
    k: int = 0
    """The number of runs of each case that pass@k and pass^k are about."""
    pass_at_k: float | None = None
    """How often at least one of k runs of a case passes."""
    pass_hat_k: float | None = None
    """How often all of k runs of a case pass."""
    seconds: float = 0.0
    """The median of the runs."""
    tokens: int = 0
    cost_usd: float | None = None
    """What the runs cost, as far as prices are known."""

    @property
    def rate(self) -> float | None:
        """The share of runs that passed (pass@1); `None` if there is none."""
        total = self.passed + self.failed
        return self.passed / total if total else None


def pass_rate(name: str, results: Sequence[CaseResult]) -> PassRate:
    """Sum up a group of runs."""
    decided = [result for result in results if result.outcome != "error"]
    passed = sum(result.outcome == "passed" for result in decided)
    cases: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for result in decided:
        cases[result.case, result.variant].append(result.outcome == "passed")
    k = min((len(runs) for runs in cases.values()), default=0)
    at_k = [pass_at_k(len(runs), sum(runs), k) for runs in cases.values()] if k else []
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    hat_k = [pass_hat_k(len(runs), sum(runs), k) for runs in cases.values()] if k else []
    return PassRate(
        name=name,
        passed=passed,
        failed=len(decided) - passed,
        errors=len(results) - len(decided),
        interval=wilson_interval(passed, len(decided)),
        k=k,
        pass_at_k=fmean(at_k) if at_k else None,
        pass_hat_k=fmean(hat_k) if hat_k else None,
        seconds=median(result.seconds for result in results) if results else 0.0,
        tokens=sum(result.tokens + result.judge_tokens for result in results),
        cost_usd=sum(costs) if costs else None,
    )


def pass_rates(
    results: Sequence[CaseResult], groups_of: Callable[[CaseResult], Iterable[str]]
) -> list[PassRate]:
    """Sum up by group; a run may belong to several."""
    groups: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        for group in groups_of(result):
            groups[group].append(result)
    return [pass_rate(name, groups[name]) for name in sorted(groups)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How a second run of the same cases differs from the first."""

    cases: int
    """Cases that both runs decided."""
    better: tuple[str, ...]
    """Cases whose score rose."""
    worse: tuple[str, ...]
    missing: tuple[str, ...]
    """Cases that only one of the runs decided."""
    p_value: float
    """Of McNemar's test where each case has one run, else of a paired t-test."""
    difference: PairedDifference | None
    """The difference of the scores; `None` with fewer than two cases."""
    regressed: tuple[str, ...] = ()
    """Cases whose own runs show beyond chance that they are worse."""

    @property
    def is_worse(self) -> bool:
        """Whether a case, or all cases together, are worse beyond chance."""
        fewer = len(self.worse) > len(self.better) and self.p_value < SIGNIFICANCE
        return fewer or bool(self.regressed)


def difference_text(found: PairedDifference) -> str:
    """Return a difference with its interval, which ends at what shares can be."""
    low, high = max(-1.0, found.interval.low), min(1.0, found.interval.high)
    return f"difference {found.mean:+.1%} (95 %: {low:+.1%} to {high:+.1%})"


def detectable_text(found: PairedDifference) -> str:
    """Return the smallest difference that a suite could show."""
    if found.detectable >= 1:
        return "there are too few cases to show a difference over all: add cases or repeats"
    return f"this suite could show a difference of {found.detectable:.1%}"


def compare(
    first: Sequence[CaseResult], second: Sequence[CaseResult], *, by_model: bool = False
) -> Comparison:
    """Compare two runs case by case; with `by_model` also model by model, if both have the same."""
    same_models = by_model and {one.variant for one in first} == {one.variant for one in second}
    before, after = (_outcomes(one, by_variant=same_models) for one in (first, second))
    common = sorted(before.keys() & after.keys())
    scores = [(fmean(before[name]), fmean(after[name])) for name in common]
    better = tuple(name for name, (old, new) in zip(common, scores, strict=True) if new > old)
    worse = tuple(name for name, (old, new) in zip(common, scores, strict=True) if new < old)
    difference = None
    if len(common) > 1:
        difference = paired_difference([old for old, _ in scores], [new for _, new in scores])
    whole = all(score in {0.0, 1.0} for pair in scores for score in pair)
    p_value = mcnemar_p_value(len(worse), len(better))
    if not whole and difference is not None:
        p_value = difference.p_value
    # Holm's correction: the smallest p-value is compared with a share of the number of cases.
    chances: list[tuple[float, str]] = []
    for name in worse:
        old, new = before[name], after[name]
        chances.append((fisher_p_value(sum(old), len(old), sum(new), len(new)), name))
    regressed: list[str] = []
    for place, (chance, name) in enumerate(sorted(chances)):
        if chance >= SIGNIFICANCE / (len(chances) - place):
            break
        regressed.append(name)
    return Comparison(
        cases=len(common),
        better=better,
        worse=worse,
        missing=tuple(sorted(before.keys() ^ after.keys())),
        p_value=p_value,
        difference=difference,
        regressed=tuple(sorted(regressed)),
    )


def _outcomes(results: Sequence[CaseResult], *, by_variant: bool) -> dict[str, list[bool]]:
    """Return whether the runs of each case passed; errors are left out."""
    several = by_variant and len({result.variant for result in results}) > 1
    runs: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        if result.outcome != "error":
            name = f"{result.case} ({result.variant})" if several else result.case
            runs[name].append(result.outcome == "passed")
    return runs


def suite_of_junit(path: Path) -> str | None:
    """Return the name of the suite in a file of `junit_xml`; `None` if it is not one."""
    with path.open(encoding="utf-8", errors="replace") as file:
        found = re.search(r'<testsuite name="([^"]*)"', file.read(MAX_HEAD_CHARACTERS))
    return html.unescape(found[1]) if found else None


MAX_HEAD_CHARACTERS = 4_000
"""Where the name of a suite stands in a file of many megabytes."""


def junit_xml(suite: str, results: Sequence[CaseResult]) -> str:
    """Return the results as JUnit XML: wrong answers are failures, all else errors."""
    root = ET.Element("testsuites")
    element = ET.SubElement(
        root,
        "testsuite",
        name=_xml(suite),
        tests=str(len(results)),
        failures=str(sum(result.outcome == "failed" for result in results)),
        errors=str(sum(result.outcome == "error" for result in results)),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        name = result.case if result.repeat == 1 else f"{result.case} #{result.repeat}"
        case = ET.SubElement(
            element,
            "testcase",
            classname=_xml(f"{suite}.{result.variant}"),
            name=_xml(name),
            time=f"{result.seconds:.3f}",
        )
        if result.outcome != "passed":
            kind = "failure" if result.outcome == "failed" else "error"
            problem = ET.SubElement(case, kind, message=_xml(result.failure))
            problem.text = _xml(result.answer)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    """Replace the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


MAX_SUMMARY_CHARACTERS = 60_000
"""A comment of GitHub has at most 65,536."""
MAX_CELL_CHARACTERS = 200
"""A longer reason makes a table hard to read; the report has the whole."""


def markdown_summary(suite: str, results: Sequence[CaseResult]) -> str:
    """Return a summary for a pull request; runs that failed alike are one row."""
    head = "| Model | Passed | pass@1 (95 %) | pass@k | pass^k | Errors | Median s | Tokens |"
    lines = [f"## {_code(suite)}", "", head, "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for rate in pass_rates(results, lambda result: [result.variant]):
        interval = f"{rate.interval.low:.0%}–{rate.interval.high:.0%}"
        lines.append(
            f"| {_code(rate.name)} | {rate.passed} of {rate.passed + rate.failed} "
            f"| {share(rate.rate)} ({interval}) | {share(rate.pass_at_k)} "
            f"| {share(rate.pass_hat_k)} | {rate.errors} | {rate.seconds:.1f} | {rate.tokens} |"
        )
    runs: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for one in results:
        if one.outcome != "passed":
            runs[one.case, one.variant, one.outcome, one.failure].append(one.repeat)
    if runs:
        lines += ["", "| Case | Model | Runs | Outcome | Why |", "| --- | --- | --- | --- | --- |"]
    left = MAX_SUMMARY_CHARACTERS - sum(map(len, lines))
    shown = 0
    for (case, variant, outcome, why), repeats in runs.items():
        numbers = one_line(", ".join(map(str, sorted(repeats))), MAX_CELL_CHARACTERS)
        row = f"| {_code(case)} | {_code(variant)} | {numbers} | {outcome} | {_code(why)} |"
        left -= len(row) + 1
        if left < 0:
            break
        shown += 1
        lines.append(row)
    if shown < len(runs):
        lines += ["", f"{len(runs) - shown} more rows are in the report."]
    return "\n".join(lines) + "\n"


def share(value: float | None) -> str:
    """Return a share in percent, or a dash."""
    return "–" if value is None else f"{value:.0%}"


def _code(text: str) -> str:
    """Return a text as code, in which nothing is markup, a link or a mention."""
    escaped = one_line(text, MAX_CELL_CHARACTERS).replace("`", "'").replace("|", "\\|")
    return f"`{escaped}`" if escaped else ""
