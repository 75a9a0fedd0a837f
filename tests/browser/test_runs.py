"""Pages of runs in a real browser: no error, no request, and they do what they offer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from plait.html.compare import compare_page
from plait.html.conversation import run_page
from plait.html.page import page as whole_page
from plait.html.runs import run_row, runs_section
from tests.browser.chromium import Chromium, Page
from tests.unit.html.sample_runs import failed_run, full_run, hostile_run, long_run

OPEN_STEPS = "[...document.querySelectorAll('.step')].filter(s => !s.hidden).length"


def _file(folder: Path, name: str, page: str) -> str:
    path = folder / f"{name}.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write every kind of page."""
    folder = tmp_path_factory.mktemp("pages")
    first, second = full_run(), full_run(run="b" * 12, warmer=-3, extra_turn=True)
    rows = [
        run_row(trace, href=f"run-{place}.html", file="traces/monday.jsonl")
        for place, trace in enumerate((first, second, failed_run()))
    ]
    return {
        "run": _file(folder, "run", run_page(first)),
        "failed": _file(folder, "failed", run_page(failed_run())),
        "compare": _file(
            folder, "compare", compare_page(first, second, names=("before.jsonl", "after.jsonl"))
        ),
        "runs": _file(
            folder, "runs", whole_page("Runs", runs_section(rows, compare="compare.html"))
        ),
        "hostile": _file(folder, "hostile", run_page(hostile_run())),
        "hostile-compare": _file(
            folder, "hostile-compare", compare_page(hostile_run(big=90_000), full_run())
        ),
    }


@pytest.mark.parametrize("name", ["run", "failed", "compare", "runs"])
def test_a_page_fits_and_has_no_problem(
    browser: Chromium, pages: dict[str, str], shots: Path, name: str
) -> None:
    with browser.open(pages[name]) as page:
        page.looks(shots, name, height=1100, whole=True)
        if name == "run":
            page.press("v")
            page.wait_for("document.querySelector('.bar').checkVisibility()")
            page.looks(shots, "waterfall", height=1100, whole=True)


def test_the_keyboard_moves_searches_and_switches(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(pages["run"]) as page:
        for key in "jjk":
            page.press(key)
        assert page.evaluate("location.hash") == "#e1"
        page.press("j")
        page.press("j")
        page.press("o")
        assert page.evaluate("document.querySelector('#e3 details').open") is True
        page.press("/")
        page.type("Bonn")
        page.wait_for(f"{OPEN_STEPS} < 6")
        page.press("j")  # it is a letter of the search now
        assert page.evaluate("document.activeElement.value") == "Bonnj"
        page.press("Escape")
        page.press("?")
        assert page.evaluate("document.querySelector('#help').open") is True


def test_a_link_to_a_result_opens_it(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(f"{pages['run']}#e8") as page:
        page.wait_for("document.querySelector('#e8').open")
        page.wait_for("document.querySelector('#e8').getBoundingClientRect().top < innerHeight")


def test_the_choice_of_dark_is_kept(browser: Chromium, pages: dict[str, str]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with browser.open(pages["run"]) as page:
        light = page.evaluate(colour)
        page.click("[data-do=theme]")
        dark = page.evaluate(colour)
        page.goto(pages["compare"])
        assert page.evaluate(colour) == dark != light


def test_runs_are_filtered(browser: Chromium, pages: dict[str, str]) -> None:
    shown = "[...document.querySelectorAll('tr[data-item]')].filter(r => !r.hidden).length"
    with browser.open(pages["runs"]) as page:
        assert page.evaluate(shown) == 3
        choose = "(n, v) => {const e = document.querySelector(n); e.value = v;"
        choose += "e.dispatchEvent(new Event('input', {bubbles: true}))}"
        page.evaluate(f"({choose})('[data-filter=outcome]', 'failed')")
        page.wait_for(f"{shown} === 1")
        page.evaluate(f"({choose})('[data-filter=outcome]', '')")
        page.evaluate(f"({choose})('[data-filter-min=time]', '8')")
        page.wait_for(f"{shown} === 1")
        assert page.text(".count") == "1 run"


def test_runs_are_sorted_by_a_column(browser: Chromium, pages: dict[str, str]) -> None:
    times = "[...document.querySelectorAll('tr[data-item]')].map(r => Number(r.dataset.time))"
    with browser.open(pages["runs"]) as page:
        page.click("[data-sort=time]")
        assert page.evaluate(times) == sorted(page.evaluate(times), reverse=True)
        page.click("[data-sort=time]")
        assert page.evaluate(times) == sorted(page.evaluate(times))
        assert page.evaluate("document.querySelector('th[aria-sort]').innerText").startswith("time")


def _drag(page: Page, start: float, end: float) -> None:
    """Drag over a part of the overview, as a person would."""
    page.evaluate("document.querySelector('.zoomable').scrollIntoView({block: 'center'})")
    box = page.evaluate(
        "(() => {const r = document.querySelector('.zoomable').getBoundingClientRect();"
        "return [r.x, r.width, r.y + r.height / 2]})()"
    )
    for kind, part in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
        place = {"x": box[0] + part * box[1], "y": box[2]}
        page.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)


def test_a_part_of_the_time_is_chosen_by_dragging(
    browser: Chromium, pages: dict[str, str], shots: Path
) -> None:
    shown = "[...document.querySelectorAll('.step')].filter(s => s.checkVisibility()).length"
    with browser.open(pages["run"]) as page:
        every = page.evaluate(shown)
        page.press("v")
        _drag(page, 0.2, 0.45)
        page.wait_for(f"{shown} < {every}")
        start, width = page.evaluate(
            "document.querySelector('.bar').getAttribute('viewBox').split(' ').map(Number)"
            ".filter((_, at) => at % 2 === 0)"
        )
        assert start == pytest.approx(0.2 * 7.1, abs=0.05)
        assert width == pytest.approx(0.25 * 7.1, abs=0.05)
        assert page.evaluate("document.querySelector('.axis text').textContent").startswith("1.4")
        page.screenshot(shots / "zoomed.png")
        page.click("[data-do=whole]")
        page.wait_for(f"{shown} === {every}")


def test_turns_collapse(browser: Chromium, pages: dict[str, str], shots: Path) -> None:
    calls = "[...document.querySelectorAll('.step.call')].filter(s => s.checkVisibility()).length"
    with browser.open(pages["run"]) as page:
        assert page.evaluate(calls) == 3
        page.click(".step.turn .fold")
        assert page.evaluate(calls) == 1
        page.click("[data-do=turns]")
        assert page.evaluate(calls) == 0
        page.screenshot(shots / "turns.png")
        page.click("[data-do=turns]")
        assert page.evaluate(calls) == 3


def test_5000_events_are_zoomed_and_folded_at_once(browser: Chromium, tmp_path: Path) -> None:
    with browser.open(_file(tmp_path, "long", run_page(long_run(5_000)))) as page:
        began = time.monotonic()
        _drag(page, 0.4, 0.5)
        page.wait_for("document.querySelectorAll('.outside').length > 1000")
        page.click("[data-do=turns]")
        page.wait_for("document.querySelectorAll('.away').length > 1000")
        took = time.monotonic() - began
    print(f"5,000 events: zoomed and folded in {took:.2f} s")
    idle = os.getloadavg()[0] < (os.cpu_count() or 1)
    assert took < (2 if idle else 20)


def test_a_hostile_trace_runs_nothing(browser: Chromium, pages: dict[str, str]) -> None:
    for name in ("hostile", "hostile-compare"):
        with browser.open(pages[name]) as page:
            page.evaluate("document.querySelectorAll('details').forEach(d => {d.open = true})")
            assert "<script>alert(1)</script>" in page.text("main")
            assert page.evaluate("document.scripts.length") == 1
            assert page.evaluate("document.querySelectorAll('main img, main iframe').length") == 0


def test_the_policy_of_a_file_stops_what_would_slip_through(
    browser: Chromium, tmp_path: Path
) -> None:
    broken = run_page(full_run()).replace("</main>", "<script>window.x = 1</script></main>")
    page = browser.open(_file(tmp_path, "broken", broken))

    assert page.evaluate("window.x") is None
    assert any("Content Security Policy" in problem for problem in page.problems)
    page.close()


def test_ten_thousand_events_open_and_scroll(browser: Chromium, tmp_path: Path) -> None:
    began = time.process_time()
    text = run_page(long_run(10_000))
    rendered = time.process_time() - began
    with browser.open(_file(tmp_path, "long", text)) as page:
        opened = page.wait_for(
            "performance.timing.loadEventEnd - performance.timing.navigationStart"
        )
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for(
            "document.querySelector('.step.end').getBoundingClientRect().top < innerHeight"
        )
        page.goto(page.evaluate("location.href") + "#e9001")
        page.wait_for(
            "Math.abs(document.querySelector('#e9001').getBoundingClientRect().top) < 900"
        )
    print(f"10,000 events: {rendered:.2f} s to write (CPU), {opened / 1000:.2f} s to open")
    idle = os.getloadavg()[0] < (os.cpu_count() or 1)
    assert opened < (2_000 if idle else 30_000)


def test_a_run_prints_with_its_results(browser: Chromium, pages: dict[str, str]) -> None:
    with browser.open(pages["run"]) as page:
        assert page.printed().startswith(b"%PDF")
