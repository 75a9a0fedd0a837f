"""The pages of the viewer in a real browser: no problem on any, and they follow what they show."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plait.reasoning.backends.port import HostCompleter
from plait.reasoning.diagram import read_document
from plait.reasoning.html import thinking_page
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.testing import stdio_config
from plait.traces.codec import line_from_event
from plait.viewer.library import TracePath
from tests.browser.chromium import Chromium, Page
from tests.unit.html.sample_runs import full_run, hostile_run, long_run
from tests.unit.verification.sample_reports import write_report

SHOP = Path(__file__).parents[1] / "integration" / "cli" / "shop_server.py"

SESSION: list[tuple[str, dict[str, object]]] = [
    ("linear", {"content": "Why did latency double after the release?", "confidence": 0.9}),
    ("linear", {"content": "Cache, payment client or logging changed.", "confidence": 0.85}),
    (
        "tree",
        {
            "content": "Which of them explains a slow tail?",
            "branches": [
                {"thought": "Cache misses", "rationale": "p95 rose, p50 did not"},
                {"thought": "Logging", "rationale": "would move p50 too", "confidence": 0.3},
                {"thought": "Retries of payments", "rationale": "a second peak"},
            ],
        },
    ),
    ("checkpoint_create", {"name": "three ways"}),
    ("tree_focus", {"branch_id": "b2"}),
    ("linear", {"content": "The hit rate fell to 71 %: the keys changed.", "confidence": 0.95}),
    ("session_conclude", {"conclusion": "Warm the new keys.", "thought_ids": ["t7"]}),
]


@dataclass(frozen=True)
class Served:
    """A viewer that runs, and what it shows."""

    address: str
    """With its token."""
    folder: Path

    @property
    def home(self) -> str:
        return "{0.scheme}://{0.netloc}".format(urlsplit(self.address))

    def run_address(self, file: str, run: str) -> str:
        return f"{self.home}/runs/{TracePath.from_path(self.folder / 'traces' / file).key}/{run}"

    def open(self, browser: Chromium, path: str, **how: bool | int) -> Page:
        """Open a page, signed in."""
        page = browser.open(self.address, **how)  # pyright: ignore[reportArgumentType]
        page.wait_for("!document.getElementById('sign-in') && location.pathname === '/runs'")
        page.problems.clear()  # a browser reports that the first answer was 401
        page.goto(path if path.startswith("http") else f"{self.home}{path}")
        return page


def _write_traces(folder: Path) -> None:
    folder.mkdir()
    second = full_run(run="b2", warmer=3.0, extra_turn=True)
    for name, traces in {
        "trips": [full_run(), second],
        "hostile": [hostile_run()],
        "long": [long_run(10_000)],
    }.items():
        lines = [line_from_event(event) for trace in traces for event in trace.events]
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines))


async def _write_session(path: Path) -> str:
    store = SqlStorage(database_from_text(str(path)))
    await store.open()
    reasoner = Reasoner(store, HostCompleter())
    for tool, arguments in SESSION:
        await reasoner.call(f"reasoning_{tool}", {**arguments, "session_id": "latency"})
    session = await store.get_session("latency")
    assert session is not None
    page = thinking_page(await read_document(store, session))
    await store.aclose()
    return page


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run `plait view` on real files, a real database and a real server."""
    folder = tmp_path_factory.mktemp("viewer")
    _write_traces(folder / "traces")
    write_report(folder / "traces" / "nightly")
    single = asyncio.run(_write_session(folder / "reasoning.db"))
    (folder / "session.html").write_text(single, "utf-8")
    server = {"command": sys.executable, "args": [str(SHOP)]}
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"shop": server, "faults": stdio_config()}})
    )
    options = ["--db", "reasoning.db", "--config", "mcp.json", "--allow-calls", "--port", "0"]
    with _viewer(folder, "traces", *options) as address:
        yield Served(address, folder)


@contextmanager
def _viewer(folder: Path, *options: str) -> Generator[str]:
    """Run `plait view` in a folder, and return its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "plait.cli", "view", *options],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    process.wait(30)
    process.stdout.close()


PAGES = {
    "view-runs": "/runs",
    "view-run": "trips.jsonl a1b2c3d4e5f6",
    "view-servers": "/servers",
    "view-server": "/servers/shop",
    "view-sessions": "/thinking",
    "view-thinking": "/thinking/latency",
    "view-reports": "/reports",
    "view-report": "/reports first",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_has_no_problem(
    browser: Chromium, served: Served, shots: Path, name: str
) -> None:
    path, _, which = PAGES[name].partition(" ")
    path = path if path.startswith("/") else served.run_address(path, which)
    with served.open(browser, path) as page:
        if which == "first":
            page.goto(page.evaluate("document.querySelector('td a').href"))
        page.wait_for("!!document.querySelector('main h1')")
        if name.startswith("view-server"):
            page.wait_for("document.querySelector('#status').innerText.includes('ready')")
        if name == "view-server":
            page.wait_for("document.querySelector('#offer').innerText.includes('prompt')")
        page.looks(shots, name, height=1000)


def test_a_run_is_followed_while_it_is_written(browser: Chromium, served: Served) -> None:
    lines = [line_from_event(event) for event in full_run(run="live").events]
    path = served.folder / "traces" / "live.jsonl"
    path.write_bytes(b"".join(lines[:3]))
    with served.open(browser, served.run_address("live.jsonl", "live")) as page:
        page.wait_for("document.querySelector('.run-head').innerText.includes('unfinished')")
        page.evaluate(
            "window.waits = []; const wait = setTimeout;"
            "window.setTimeout = (...call) => { waits.push(call[1]); return wait(...call) }"
        )
        page.wait_for("waits.length")
        path.write_bytes(b"".join(lines))
        before = page.evaluate("waits.length")
        page.wait_for("document.querySelector('.run-head').innerText.includes('completed')")
        # It looks every half second, and the first look after the change shows it.
        waits = page.evaluate("waits")
        assert max(waits) <= 500
        assert len(waits) - before <= 2
        assert "Köln is warmer." in page.text("main")
        shown = page.evaluate("document.querySelectorAll('.step').length")
        page.goto(served.run_address("live.jsonl", "live"))
        assert page.evaluate("document.querySelectorAll('.step').length") == shown


def test_a_run_of_10000_events_shows_its_start_at_once_and_then_all_of_it(
    browser: Chromium, served: Served
) -> None:
    run = long_run(10_000).run
    with served.open(browser, served.run_address("long.jsonl", run)) as page:
        first = page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd")
        print(f"the page was there after {first:.0f} ms")
        assert page.evaluate("document.querySelectorAll('.step').length") >= 600
        count = "document.querySelectorAll('.step').length"
        page.wait_for(f"{count} > 6000", 60)
        assert page.evaluate(
            "new Set([...document.querySelectorAll('.step')].map(s => s.id)).size"
        ) == page.evaluate(count)


def test_a_hostile_run_runs_nothing(browser: Chromium, served: Served) -> None:
    with served.open(browser, "/runs") as page:
        address = page.evaluate(
            "[...document.querySelectorAll('tr')].find(r => r.innerText.includes('hostile'))"
            ".querySelector('a').href"
        )
        page.goto(address)
        page.wait_for("!!document.querySelector('.run')")
        assert page.evaluate("document.scripts.length") == 3
        assert "alert(1)" in page.text("main")


def test_two_runs_are_selected_and_compared(browser: Chromium, served: Served) -> None:
    with served.open(browser, "/runs") as page:
        page.evaluate(
            "[...document.querySelectorAll('tr')].filter(r => r.innerText.includes('trips'))"
            ".forEach(r => r.querySelector('input[name=run]').click())"
        )
        page.click("button.compare")
        page.wait_for("location.pathname === '/compare' && !!document.querySelector('main h1')")
        assert "differ" in page.text("main")


def _choose(page: Page, name: str) -> None:
    """Select a tool, resource or prompt of the page of a server in its list."""
    link = f"document.querySelector('.chooser a[href=\"#{name}\"]')"
    page.wait_for(f"!!{link}")
    page.evaluate(f"{link}.click()")
    shown = "document.querySelector('.use .a-tool:not([hidden])')?.id"
    page.wait_for(f"{shown} === decodeURIComponent({json.dumps(name)})")


OUTCOME = "document.querySelector('.use .a-tool:not([hidden]) .outcome').innerText"


def test_filters_and_order_of_runs_are_in_the_address(browser: Chromium, served: Served) -> None:
    shown = "[...document.querySelectorAll('tr[data-item]')].filter(r => !r.hidden).length"
    with served.open(browser, "/runs") as page:
        every = page.evaluate(shown)
        page.click("input[type=search]")
        page.type("hostile")
        page.wait_for(f"{shown} === 1")
        page.click("[data-sort=tokens]")
        assert page.evaluate("location.search") == "?text=hostile&sort=-tokens"
        page.goto(page.evaluate("location.href"))
        page.wait_for(f"{shown} === 1")
        sorted_by = "document.querySelector('th[aria-sort] button').dataset.sort"
        assert page.evaluate(sorted_by) == "tokens"
        page.goto(f"{served.home}/runs")
        assert page.evaluate(shown) == every


def test_runs_of_a_report_stand_below_it(browser: Chromium, served: Served) -> None:
    with served.open(browser, "/runs") as page:
        summary = page.text(".group > summary")
        assert "report nightly" in summary
        page.click(".group > summary a")
        page.wait_for("location.pathname.startsWith('/reports/')")


def test_a_run_is_saved_as_one_file(browser: Chromium, served: Served, tmp_path: Path) -> None:
    with served.open(browser, served.run_address("trips.jsonl", "a1b2c3d4e5f6")) as page:
        page.wait_for("!!document.querySelector('a[download]')")
        text = page.evaluate(
            "fetch(document.querySelector('a[download]').href).then(async r => "
            "[r.headers.get('Content-Disposition'), await r.text()])"
        )
    assert text[0] == "attachment; filename=run-a1b2c3d4e5f6.html"
    (tmp_path / "run.html").write_text(text[1])
    with browser.open((tmp_path / "run.html").as_uri()) as page:
        assert page.evaluate("document.querySelectorAll('.step').length") == 12


def test_a_tool_is_called_by_its_form(browser: Chromium, served: Served) -> None:
    with served.open(browser, "/servers/shop") as page:
        _choose(page, "tool-add")
        page.click("#tool-add [name='field.a']")
        page.type("40")
        page.click("#tool-add [name='field.b']")
        page.type("2")
        page.click("#tool-add button.primary")
        page.wait_for(f"{OUTCOME}.includes('42')")
        page.click("#tool-add [value=command]")
        page.wait_for(f"{OUTCOME}.includes('call shop add')")
        command = page.evaluate(OUTCOME).strip()
        _choose(page, "tool-escape")
        page.click("#tool-escape button.primary")
        page.wait_for(f"{OUTCOME}.includes('[2J')")
        assert page.evaluate("document.querySelector('#tool-add [name=\"field.a\"]').value") == "40"
        page.wait_for("document.querySelectorAll('#history .past').length >= 2")
        assert "a: 40, b: 2" in page.text("#history")

    # The copied command does what the form did.
    words = [sys.executable, "-m", "plait.cli", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=served.folder, capture_output=True, text=True, check=True)
    assert "42" in done.stdout


def test_tools_are_filtered_and_reached_by_keys(browser: Chromium, served: Served) -> None:
    shown = "[...document.querySelectorAll('.chooser li')].filter(e => !e.hidden).length"
    with served.open(browser, "/servers/shop") as page:
        page.wait_for(f"{shown} > 6")
        page.press("/")
        page.type("two numbers")
        page.wait_for(f"{shown} === 1")
        page.press("Escape")
        page.press("j")
        page.press("o")
        page.wait_for("document.querySelector('.use .a-tool:not([hidden])').id === 'tool-add'")


def test_a_call_shows_its_progress_and_is_cancelled(
    browser: Chromium, served: Served, shots: Path
) -> None:
    with served.open(browser, "/servers/shop") as page:
        _choose(page, "tool-slow")
        page.click("#tool-slow [name='field.seconds']")
        page.type("600")
        page.click("#tool-slow button.primary")
        page.wait_for("document.querySelector('#running progress')?.value === 1")
        assert "one of three" in page.text("#running")
        page.looks(shots, "view-call-runs", height=900)
        page.click("#running button")
        page.wait_for(f"{OUTCOME}.includes('cancelled')")
        page.wait_for("document.querySelector('#running').innerText === ''")
        page.wait_for("document.querySelector('#history .past').innerText.includes('no result')")
        page.problems.clear()  # the answer to what was cancelled is 503


def _is_in_view(page: Page, selector: str) -> bool:
    """Return whether all elements are inside the window, and nothing covers them."""
    return page.evaluate(
        "[...document.querySelectorAll(" + json.dumps(selector) + ")].every(e => {"
        "const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;"
        "return r.top >= 0 && r.bottom <= innerHeight"
        " && e.contains(document.elementFromPoint(x, y))})"
    )


@pytest.mark.parametrize("width", [1400, 390])
def test_a_question_is_answered_during_the_call_and_its_buttons_are_in_view(
    browser: Chromium, served: Served, shots: Path, width: int
) -> None:
    with served.open(browser, "/servers/faults", width=width, height=900) as page:
        _choose(page, "tool-ask")
        page.click("#tool-ask [name='field.question']")
        page.type("Which colour? " + "It may be any colour. " * 300)
        page.click("#tool-ask button.primary")
        page.wait_for("document.querySelector('#inbox').innerText.includes('Which colour?')")
        for place in ("0", "document.body.scrollHeight"):
            page.evaluate(f"scrollTo(0, {place})")
            assert _is_in_view(page, "#inbox .actions button")
        page.screenshot(shots / f"view-question-{width}.png")
        page.evaluate("document.querySelector('#inbox [name=\"field.text\"]').focus()")
        page.type("blue")
        page.click("#inbox button.primary")
        page.wait_for("document.querySelector('#tool-ask .outcome').textContent.includes('blue')")
        page.wait_for("document.querySelector('#inbox').innerText === ''")


def test_an_approval_of_plait_run_is_given_in_the_viewer(
    browser: Chromium, served: Served, shots: Path
) -> None:
    script = [{"calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}, {"text": "Done."}]
    (served.folder / "script.json").write_text(json.dumps(script))
    config = json.loads((served.folder / "mcp.json").read_text())
    config["mcpServers"].pop("faults")
    config["policy"] = {"default": "ask"}
    (served.folder / "asking.json").write_text(json.dumps(config))
    words = ["run", "Add them", "--model", "scripted:script.json", "--config", "asking.json"]
    with served.open(browser, "/inbox") as page:
        page.wait_for("document.querySelector('.hint').checkVisibility()")
        page.looks(shots, "view-inbox-empty", height=900)
        run = subprocess.Popen(
            [sys.executable, "-m", "plait.cli", *words, "--trace", "asked.jsonl"],
            cwd=served.folder,
            env={**os.environ, "HOME": str(served.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        page.wait_for("document.querySelector('#inbox').innerText.includes('plait: Add them')")
        page.looks(shots, "view-inbox", height=900)
        page.evaluate("document.querySelector('#inbox textarea').value = '{\"a\": 40, \"b\": 2}'")
        page.click("#inbox .primary")
        assert "Done." in run.communicate(timeout=60)[0], run.returncode
        page.wait_for("document.querySelector('#inbox').innerText === ''")
    assert "42" in (served.folder / "asked.jsonl").read_text()


def test_a_resource_is_read_and_a_prompt_filled_in(browser: Chromium, served: Served) -> None:
    with served.open(browser, "/servers/shop") as page:
        _choose(page, "resource-shop%3A//notes")
        page.click("[id='resource-shop://notes'] button.primary")
        page.wait_for(f"{OUTCOME}.includes('second line')")
        _choose(page, "prompt-summarize")
        page.click("#prompt-summarize [name='field.text']")
        page.type("plums")
        page.click("#prompt-summarize button.primary")
        page.wait_for(f"{OUTCOME}.includes('dry tone: plums')")


def test_a_server_is_killed_by_its_tile_and_seen_to_return(
    browser: Chromium, served: Served
) -> None:
    with served.open(browser, "/servers") as page:
        tile = "document.querySelector('#tile-shop').innerText"
        page.wait_for(f"{tile}.includes('ready')")
        pid = page.evaluate(f"{tile}.match(/process (\\d+)/)[1]")
        page.click("#tile-shop .danger")
        page.wait_for(
            f"{tile}.includes('ready') && {tile}.includes('process') && !{tile}.includes('{pid}')"
        )
        assert "lost" in page.text("#feed")
        assert page.evaluate("document.querySelectorAll('#tile-shop .beats .c-bad').length") == 1
        tile = "document.querySelector('#tile-shop').innerText"
        page.click("#tile-shop .actions button:last-child")
        page.wait_for("document.querySelector('#feed').innerText.includes('restart')")
        page.wait_for(f"{tile}.includes('ready')")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run `plait view --demo`."""
    folder = tmp_path_factory.mktemp("demo")
    with _viewer(folder, "--demo", "--port", "0") as address:
        yield Served(address, folder)


def test_the_demonstration_shows_an_agent_whose_servers_are_killed_and_whose_payment_is_approved(
    browser: Chromium, demo: Served, shots: Path
) -> None:
    rows = "document.querySelectorAll('#agent .step').length"
    with browser.open(demo.address) as page:
        page.wait_for("document.querySelectorAll('.tile').length === 5")
        page.problems.clear()  # a browser reports that the first answer was 401
        page.wait_for(f"{rows} > 2 && {rows} < 8")
        page.wait_for(f"{rows} > 8")
        page.click("#tile-shop .danger")
        page.wait_for("document.querySelector('#feed').innerText.includes('killed')")
        page.wait_for("document.querySelector('#count').innerText.includes('5 of 5')")
        page.wait_for("document.querySelector('#inbox').innerText.includes('May it call')", 90)
        page.looks(shots, "view-demo", height=900)
        assert _is_in_view(page, "#inbox .actions button")
        page.evaluate("document.querySelector('#inbox textarea').value = '{\"amount\": 1}'")
        page.click("#inbox .primary")
        page.wait_for("document.querySelector('#agent').innerText.includes('bank/pay changed')")
        page.wait_for("document.querySelector('#agent').innerText.includes('completed')")


@pytest.mark.parametrize("single_file", [False, True], ids=["live", "single-file"])
def test_a_session_is_gone_through_thought_by_thought(
    browser: Chromium, served: Served, shots: Path, single_file: bool
) -> None:
    if single_file:
        page = browser.open((served.folder / "session.html").as_uri())
    else:
        page = served.open(browser, "/thinking/latency")
    visible = (
        "[...document.querySelectorAll('svg a.node')]"
        ".filter(n => getComputedStyle(n).visibility === 'visible').length"
    )
    with page:
        every = page.evaluate(visible)
        assert every == 8
        for _ in range(every - 1):
            page.click("[data-move='-1']")
        assert page.evaluate(visible) == 1
        assert "Why did latency double" in page.text(".details")
        page.click("[data-move='1']")
        assert page.evaluate(visible) == 2
        page.evaluate(
            "document.querySelector('svg a[href=\"#t4\"]')"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
        )
        assert "p95 rose, p50 did not" in page.text(".details")
        page.click("[for=view-tree]")
        assert "Cache, payment client" in page.text(".tree")
        page.looks(shots, f"view-tree-{single_file}", height=1000)
        page.click("[for=view-graph]")
        page.click("[data-zoom='1.25']")


@pytest.mark.parametrize("width", [1400, 390])
def test_a_graph_opens_with_readable_text_and_is_panned_and_zoomed(
    browser: Chromium, served: Served, width: int
) -> None:
    smallest = (
        "(() => {const s = document.querySelector('.session svg');"
        "const scale = s.getBoundingClientRect().width / s.viewBox.baseVal.width;"
        "return Math.min(...[...s.querySelectorAll('.card, .card *, text')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize) * scale))})()"
    )
    with served.open(browser, "/thinking/latency", width=width) as page:
        assert page.evaluate(smallest) >= 12
        place = page.evaluate(
            "(() => {const r = document.querySelector('.graph').getBoundingClientRect();"
            "return {x: r.x + r.width / 2, y: r.y + 30}})()"
        )
        for kind, x in (("mousePressed", 0), ("mouseMoved", -120), ("mouseReleased", -120)):
            at = {"x": place["x"] + x, "y": place["y"]}
            page.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        assert page.evaluate("document.querySelector('.graph').scrollLeft") >= 100
        wheel = {"deltaX": 0, "deltaY": -100, "modifiers": 2}
        page.send("Input.dispatchMouseEvent", type="mouseWheel", **place, **wheel)
        page.wait_for(f"{smallest} > 13")
        page.click("[data-zoom=fit]")
        page.wait_for(
            "document.querySelector('.session svg').getBoundingClientRect().width"
            " <= document.querySelector('.graph').clientWidth"
        )


def test_a_session_grows_on_the_page(browser: Chromium, served: Served) -> None:
    async def think(content: str) -> None:
        store = SqlStorage(database_from_text(str(served.folder / "reasoning.db")))
        await store.open()
        arguments = {"content": content, "session_id": "growing"}
        await Reasoner(store, HostCompleter()).call("reasoning_linear", arguments)
        await store.aclose()

    asyncio.run(think("first"))
    with served.open(browser, "/thinking/growing") as page:
        asyncio.run(think("second"))
        page.wait_for("document.querySelector('.tree').textContent.includes('second')")
        page.wait_for("document.querySelector('output').textContent === '2 of 2'")
