"""Reports of suites in a real browser: plots are drawn, and traces of failures open."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.verification.html_report import comparison_page, report_page
from tests.browser.chromium import Chromium
from tests.unit.verification.sample_reports import hostile_result, write_report


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write the reports."""
    folder = tmp_path_factory.mktemp("reports")
    before, after = folder / "before", folder / "after"
    first, second = write_report(before), write_report(after, better=True)
    hostile = folder / "hostile"
    texts = {
        "report": report_page("trips", first, folder=before),
        "reports": comparison_page(("before", first, before), ("after", second, after)),
        "hostile": report_page("hostile", [hostile_result(hostile)], folder=hostile),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in texts}


@pytest.mark.parametrize("name", ["report", "reports"])
def test_a_report_fits_and_has_no_problem(
    browser: Chromium, pages: dict[str, str], shots: Path, name: str
) -> None:
    with browser.open(pages[name]) as page:
        page.evaluate("document.querySelector('.case').open = true")
        page.looks(shots, name, height=1100, whole=True)


def test_the_trace_of_a_failing_case_opens(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(pages["report"]) as page:
        page.click("#r0 > summary")
        page.click("#r0 .trace > summary")
        page.wait_for("document.querySelector('#r0 .step.call').checkVisibility()")
        assert "trains/book" in page.text("#r0 .trace")


def test_a_link_into_a_trace_opens_everything_around_it(
    browser: Chromium, pages: dict[str, str]
) -> None:
    with browser.open(f"{pages['report']}#r1-e12") as page:
        page.wait_for("document.querySelector('#r1-e12').checkVisibility()")
        page.wait_for("document.querySelector('#r1-e12').getBoundingClientRect().top < innerHeight")


def test_a_dot_of_the_grid_leads_to_its_run(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(pages["report"]) as page:
        assert page.evaluate("document.querySelectorAll('.grid .dot').length") == 25
        assert page.evaluate("document.querySelectorAll('.grid .dot.failed').length") == 8
        page.click(".grid .dot.failed")
        page.wait_for("document.querySelector(location.hash).open")
        page.wait_for(
            "document.querySelector(location.hash).getBoundingClientRect().top < innerHeight"
        )
        assert "failed" in page.evaluate("document.querySelector(location.hash).innerText")


def test_plots_have_a_size_and_their_colours(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(pages["report"]) as page:
        sizes = page.evaluate(
            "[...document.querySelectorAll('.histogram rect, .rate circle')]"
            ".map(e => {const r = e.getBoundingClientRect(); return r.width * r.height})"
        )
        assert len(sizes) > 20
        assert min(sizes) > 4
        fills = page.evaluate(
            "[...new Set([...document.querySelectorAll('.histogram rect')]"
            ".map(e => getComputedStyle(e).fill))].length"
        )
        assert fills == 3


def test_runs_are_filtered_and_their_steps_are_not(
    browser: Chromium, pages: dict[str, str]
) -> None:
    shown = "[...document.querySelectorAll('.case')].filter(e => !e.hidden).length"
    with browser.open(pages["report"]) as page:
        assert page.evaluate(shown) == 25
        page.evaluate(
            "(() => {const e = document.querySelector('[data-filter=tag]'); e.value = 'travel';"
            "e.dispatchEvent(new Event('input', {bubbles: true}))})()"
        )
        page.wait_for(f"{shown} === 12")
        assert page.evaluate("document.querySelectorAll('.step[hidden]').length") == 0


def test_a_hostile_report_runs_nothing(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(pages["hostile"]) as page:
        page.evaluate("document.querySelectorAll('.case details').forEach(d => {d.open = true})")
        assert "<script>alert(1)</script>" in page.text("main")
