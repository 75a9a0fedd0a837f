"""A plugin for pytest: suite files are tests, and tests may be run several times.

Every project with plait installed loads it: it imports nothing but pytest until it finds a suite.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from plait.verification.results import CaseResult
    from plait.verification.suite import Suite

_PATTERNS: Final = ["*.suite.yaml", "*.suite.yml", "*.suite.json"]
_CASES = re.compile(r"""(?:^|[{,])\s*["']?cases["']?\s*:""", re.MULTILINE)
"""What every suite contains."""
_SUFFIXES: Final = {".yaml", ".yml", ".json"}
_FOLDERS = pytest.StashKey[list[Path]]()


class CaseFailedError(Exception):
    """Too few runs of a case passed."""


class CaseUndecidedError(Exception):
    """A server, a model or a judge failed: the case says nothing."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of suites."""
    parser.addini("plait_suites", "Patterns of suite files.", type="linelist", default=_PATTERNS)
    group = parser.getgroup("plait", "suites of agents")
    group.addoption(
        "--plait-model", action="append", default=[], metavar="MODEL", help="Run suites with it."
    )
    group.addoption("--plait-repeat", type=int, metavar="N", help="Runs of each case of a suite.")
    group.addoption(
        "--plait-threshold",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="The share of the runs of a case that must pass (1.0).",
    )
    group.addoption(
        "--plait-report", metavar="DIR", help="Keep results and traces of suites in this folder."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "plait(repeat=1, threshold=1.0): run the test several times; "
        "it passes if this share of the runs does.",
    )
    config.stash[_FOLDERS] = []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """Collect suite files: those with a fitting name, and those on the command line."""
    if file_path.suffix not in _SUFFIXES:
        return None
    patterns: list[str] = parent.config.getini("plait_suites")
    if not parent.session.isinitpath(file_path):
        if not any(fnmatch.fnmatch(file_path.name, pattern) for pattern in patterns):
            return None
        # Other programs have files with such names, too.
        if _CASES.search(file_path.read_text(encoding="utf-8", errors="replace")) is None:
            return None
    return SuiteFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]


class SuiteFile(pytest.File):
    """A suite, with a test for each case and model."""

    def collect(self) -> Iterable[pytest.Item]:
        """Read the suite; one that is wrong is a test that cannot be run."""
        from plait.errors import ConfigError  # noqa: PLC0415
        from plait.verification.read import read_suite  # noqa: PLC0415

        try:
            suite = read_suite(self.path)
        except ConfigError as error:
            # An error of the collection would end the tests of all other files.
            yield WrongSuite.from_parent(self, name="suite", problem=str(error))  # pyright: ignore[reportUnknownMemberType]
            return
        models: list[str] = self.config.getoption("--plait-model") or []
        for case in suite.cases:
            chosen = models or case.model or [None]
            for model in chosen:
                name = f"{case.name}[{model}]" if len(chosen) > 1 else case.name
                item = SuiteItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
                    self, name=name, suite=suite, case=case.name, model=model
                )
                yield item


class _Reported(pytest.Item):
    """An item whose failures show what is wrong, not where it was found."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show only the message of our own errors."""
        if isinstance(excinfo.value, CaseFailedError | CaseUndecidedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the case."""
        return self.path, None, f"case {self.name}"


class WrongSuite(_Reported):
    """Stands for a suite that cannot be read."""

    def __init__(self, *, problem: str, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._problem = problem

    def setup(self) -> None:
        """Fail before the test: it says nothing."""
        raise CaseUndecidedError(self._problem)

    def runtest(self) -> None:
        """Do nothing: the set-up has failed."""


class SuiteItem(_Reported):
    """A case of a suite by one model.

    The runs are made in the set-up, so that failures of the infrastructure are errors for pytest,
    and only wrong answers are failures.
    """

    def __init__(self, *, suite: Suite, case: str, model: str | None, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._suite = suite
        self._case = case
        self._model = model
        self._results: list[CaseResult] = []
        tags = next(one.tags for one in suite.cases if one.name == case)
        self.extra_keyword_matches.update(tags)

    def setup(self) -> None:
        """Run the case."""
        from plait.verification.plan import RunOptions  # noqa: PLC0415
        from plait.verification.runner import SuiteRunner  # noqa: PLC0415

        key = hashlib.sha256(self.nodeid.encode()).hexdigest()[:12]
        report: str | None = self.config.getoption("--plait-report")
        if report is None:
            temporary = tempfile.TemporaryDirectory(prefix="plait-")
            self.config.add_cleanup(temporary.cleanup)
            folder = Path(temporary.name)
        else:
            worker = getattr(self.config, "workerinput", {}).get("workerid", "main")
            folder = Path(report) / "parts" / worker / key
            self.config.stash[_FOLDERS].append(folder)
        options = RunOptions(
            report=folder,
            cases=(self._case,),
            models=() if self._model is None else (self._model,),
            repeat=self.config.getoption("--plait-repeat"),
        )
        self._results = asyncio.run(SuiteRunner(self._suite, options).run())
        broken = [result for result in self._results if result.outcome == "error"]
        if broken:
            raise CaseUndecidedError(broken[0].failure)

    def runtest(self) -> None:
        """Fail if too few runs passed."""
        passed = sum(result.outcome == "passed" for result in self._results)
        threshold: float = self.config.getoption("--plait-threshold") or 0.0
        if passed < threshold * len(self._results):
            lines = [
                f"run {result.repeat}: {result.failure}\n  answer: {result.answer}"
                for result in self._results
                if result.outcome != "passed"
            ]
            raise CaseFailedError(
                f"{passed} of {len(self._results)} runs passed\n" + "\n".join(lines)
            )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Join the results of all cases; workers of pytest-xdist leave a folder each."""
    folders = [one for one in session.config.stash[_FOLDERS] if (one / "results.jsonl").exists()]
    report: str | None = session.config.getoption("--plait-report")
    if not folders or report is None:
        return
    from plait.verification.answers import merge_reports  # noqa: PLC0415

    worker = getattr(session.config, "workerinput", {}).get("workerid")
    merge_reports(folders, Path(report) if worker is None else Path(report) / worker)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with the marker `plait` several times, each with fixtures of its own."""
    marker = item.get_closest_marker("plait")
    if marker is None or not isinstance(item, pytest.Function):
        return None
    repeat, threshold = int(marker.kwargs.get("repeat", 1)), marker.kwargs.get("threshold", 1.0)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runs: list[list[pytest.TestReport]] = []
    for number in range(1, repeat + 1):
        item._initrequest()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        # The fixtures of the module stay for the next run, those of the test do not.
        following: Any = nextitem if number == repeat else item.parent
        runs.append(runtestprotocol(item, log=False, nextitem=following))
    for report in _summed_up(runs, float(threshold)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _summed_up(
    runs: Sequence[list[pytest.TestReport]], threshold: float
) -> list[pytest.TestReport]:
    """Return the reports that stand for all runs: the first failed ones, if too few passed."""
    for reports in runs:
        if any(report.when != "call" and report.failed for report in reports):
            return reports  # a fixture failed: the test says nothing
    called = [(reports, report) for reports in runs for report in reports if report.when == "call"]
    if not called or any(report.skipped for _, report in called):
        return runs[-1]
    passed = sum(report.passed for _, report in called)
    enough = passed >= threshold * len(called)
    reports, call = next(one for one in called if one[1].passed is enough)
    call.sections.append(("plait", f"{passed} of {len(called)} runs passed"))
    return reports
