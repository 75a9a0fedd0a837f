"""The plugin of pytest: suites are tests, and tests may be run several times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from plait.verification.results import read_results

pytestmark = pytest.mark.timeout(120)

SUITE = {
    "name": "greetings",
    "defaults": {"model": "scripted:script.json"},
    "cases": [
        {"name": "right", "question": "Hello?", "tags": "smoke", "checks": [{"contains": "hi"}]},
        {"name": "wrong", "question": "Hello?", "checks": [{"contains": "bye"}]},
        {
            "name": "broken",
            "question": "Hello?",
            "model": "scripted:empty.json",
            "checks": [{"contains": "hi"}],
        },
    ],
}


@pytest.fixture
def greetings(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".json", script=json.dumps(["Hi there."]), empty=json.dumps([]))
    pytester.path.joinpath("greetings.suite.yaml").write_text(json.dumps(SUITE))
    return pytester


def test_cases_are_tests_and_failed_servers_are_errors(greetings: pytest.Pytester) -> None:
    result = greetings.runpytest_inprocess("-q", "--plait-report", "out", "--plait-repeat", "2")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*0 of 2 runs passed*", "*'bye' is not in*"])
    outcomes = {(one.case, one.outcome) for one in read_results(greetings.path / "out")}
    assert outcomes == {("right", "passed"), ("wrong", "failed"), ("broken", "error")}


def test_tags_are_keywords_and_other_files_are_left_alone(greetings: pytest.Pytester) -> None:
    greetings.path.joinpath("other.yaml").write_text("not: a suite")
    result = greetings.runpytest_inprocess("-q", "-k", "smoke")
    result.assert_outcomes(passed=1, deselected=2)


def test_a_wrong_suite_is_an_error_and_other_tests_run(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("bad.suite.yaml").write_text("cases: [{name: a}]")
    pytester.path.joinpath("foreign.suite.yaml").write_text("testng: {tests: [a: *b, &]}")
    pytester.path.joinpath("binary.suite.json").write_bytes(b"\xff\x00")
    pytester.makepyfile("def test_unrelated(): pass")
    result = pytester.runpytest_inprocess("-q")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*bad.suite.yaml:1*"])
    pytester.runpytest_inprocess("-q", "foreign.suite.yaml").assert_outcomes(errors=1)


def test_a_marked_test_passes_if_enough_of_its_runs_do(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        made = []

        @pytest.fixture
        def number():
            made.append(1)
            return len(made)

        @pytest.mark.plait(repeat=5, threshold=0.8)
        def test_enough(number):
            assert number != 3

        @pytest.mark.plait(repeat=5, threshold=0.8)
        def test_too_few(number):
            assert number not in (7, 9)

        @pytest.mark.plait(repeat=3)
        def test_each_run_has_its_own_fixtures(number):
            assert 11 <= number <= 13

        def test_once(number):
            assert number == 14

        @pytest.fixture
        def gone():
            raise OSError

        @pytest.mark.plait(repeat=3, threshold=0.1)
        def test_a_broken_fixture_is_an_error(gone):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-q", "-p", "no:randomly")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*3 of 5 runs passed*"])


def test_projects_without_suites_import_nothing_of_it() -> None:
    program = (
        "import sys, plait.verification.pytest_plugin\n"
        "heavy = {'yaml', 'pydantic', 'mcp', 'langchain', 'plait.verification.suite'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
