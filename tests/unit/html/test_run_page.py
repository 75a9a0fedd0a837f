"""A run as a page: what it shows, and what it must never contain."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import ClassVar

from plait.html.conversation import RunView, event_text, run_page, step_articles
from plait.html.page import Site, asset
from plait.html.runs import run_row, runs_section
from plait.traces.events import ToolReturned, TraceEvent
from plait.traces.messages.message import Message
from plait.traces.recorder import Recorder
from plait.traces.trace import Trace
from tests.clock import FakeClock
from tests.unit.html.parsed import Parsed, parsed
from tests.unit.html.sample_runs import (
    failed_run,
    full_run,
    hostile_run,
    long_run,
    png,
)
from tests.unit.traces.runs import begun

_ALLOWED = set(
    re.findall(
        r"\w+",
        """html head meta title link style body header main section span nav button div h1 h2 dl dt
        dd p details summary svg path rect text label input select option article a strong pre img
        code ul li b i dialog table tr td kbd script ol h3 em blockquote""",
    )
)


def _steps(page: Parsed) -> list[tuple[str, str]]:
    return [(one.attributes["id"], one.attributes["data-kind"]) for one in page.all("article")]


def test_every_step_of_a_run_has_a_place_with_a_link() -> None:
    page = parsed(run_page(full_run()))

    assert [kind for _, kind in _steps(page)] == [
        "question", "turn", "call", "call", "incident", "incident",
        "turn", "call\nerror", "incident", "incident", "turn", "end",
    ]  # fmt: skip
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(set(ids)) == len(ids)
    links = [one.attributes["href"] for one in page.all("a", "at")]
    assert links == [f"#{step}" for step, _ in _steps(page)]


def test_a_run_shows_durations_tokens_cost_and_incidents() -> None:
    text = parsed(run_page(full_run())).all("main")[0].text

    for expected in (
        "claude-haiku-5-5", "1,240 → 86 tokens", "$0.0017", "1.40 s", "2 attempts", "2 in parallel",
        "Retry of weather/forecast", "connection lost", "weather healed", "lost for 0.50 s",
        "trains/book approved", "by the person", "the policy asks about trains/*",
        "Question of trains", "Pay 23.40 € now?", "accept", "payment service unavailable (503)",
        "maps could not be reached: connection refused", "5,060 → 198", "$0.0060",
        "Two cities: I can look at both at once", "temperature", "The forecast of a city.",
    ):  # fmt: skip
        assert expected in text


def test_bars_stand_where_the_steps_were_in_time() -> None:
    page = parsed(run_page(full_run()))
    bars = [one for one in page.all("rect") if "bar" in one.inside]
    spans = [(float(one.attributes["x"]), float(one.attributes["width"])) for one in bars]

    assert spans[:3] == [(0.0, 1.4), (1.4, 1.7), (1.4, 0.5)]
    assert len(spans) == 10
    assert min(width for _, width in spans) > 0
    boxes = {one.attributes["viewbox"] for one in page.all("svg", "bar")}
    assert boxes == {"0 0 7.1 10"}


def test_connecting_is_a_bar_from_the_question_on() -> None:
    clock = FakeClock()
    recorder = Recorder(clock=clock, run="r")
    clock.seconds += 2.5
    recorder.run_started([Message.user("**Why?**")], interface="manual", servers=["shop"])
    clock.seconds += 1.0
    recorder.turn(Message.assistant("Since **so**."), seconds=1.0)
    page = parsed(run_page(recorder.ended("completed")))

    assert [kind for _, kind in _steps(page)] == ["question", "connect", "turn", "end"]
    assert "Connecting" in page.all("main")[0].text
    bars = [one for one in page.all("rect") if "bar" in one.inside]
    assert [(one.attributes["x"], one.attributes["width"]) for one in bars] == [
        ("0", "2.5"),
        ("2.5", "1"),
    ]
    assert page.all("a", "at")[0].text == "0 s"
    assert [one.text for one in page.all("strong") if one.text == "so"] == ["so", "so"]


def test_results_in_json_are_trees_and_images_are_shown() -> None:
    page = parsed(run_page(full_run()))

    names = [one.text for one in page.all("b") if "json" in " ".join(one.inside)]
    assert {"city", "days", "rain", "station"} <= set(names)
    assert len(page.all("img")) == 2  # of the question, and of a result
    assert all("data:image/png;base64,iVBOR" in one.attributes["src"] for one in page.all("img"))


def test_an_image_that_results_share_is_shown_with_each_of_them() -> None:
    recorder = Recorder(clock=FakeClock(), run="r")
    recorder.run_started([Message.user("Twice.")], interface="manual")
    image = ("image/png", base64.b64encode(png(2, 2)).decode())
    huge = ("image/png", base64.b64encode(bytes(8_000_000)).decode())
    for number, images in enumerate(([image], [image, huge])):
        recorder.tool_called(f"c{number}", "draw", {})
        recorder.tool_returned(f"c{number}", "drawn", images=images)
    page = parsed(run_page(recorder.ended()))

    assert len(page.all("img")) == 2
    assert "not in the trace" in page.all("main")[0].text


def test_an_edited_call_shows_its_new_arguments_and_other_events_their_names() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Paused(TraceEvent):
        kind: ClassVar[str] = "run_paused"

    recorder = Recorder(clock=FakeClock(), run="r")
    recorder.run_started([Message.user("Pay.")], interface="manual")
    recorder.approval(
        "bank", "pay", "edit", "ask about bank/*", by="person", arguments={"amount": 5}
    )
    recorder.approval("bank", "pay", "deny", "deny bank/pay", by="policy", message="not today")
    trace = recorder.ended()
    later = Paused(run="r", id=9, time=trace.events[0].time, at=0.0)
    text = parsed(run_page(replace(trace, events=(*trace.events, later)))).all("main")[0].text

    for expected in ("bank/pay changed", '"amount": 5', "bank/pay denied", "by the policy"):
        assert expected in text
    assert "not today" in text
    assert "run paused" in text


def test_a_single_file_admits_its_own_style_and_script_and_nothing_else() -> None:
    text = run_page(full_run())
    page = parsed(text)
    (policy,) = [one for one in page.all("meta") if "http-equiv" in one.attributes]
    (style,), (script,) = page.all("style"), page.all("script")

    assert policy.attributes["content"] == (
        f"default-src 'none'; img-src data:; style-src '{_hash(style.text)}'; "
        f"script-src '{_hash(script.text)}'; base-uri 'none'; form-action 'none'"
    )
    assert _addresses(page) <= {"#", "data:image/png;base64,"}
    assert not re.search(r"https?://|url\(|@import", text)
    assert len(text) < 66_000


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _addresses(page: Parsed) -> set[str]:
    """Return the beginnings of all addresses."""
    found = [
        one.attributes.get(name, "") for one in page.elements for name in ("href", "src", "action")
    ]
    return {text[: text.find(",") + 1] or text[:1] for text in found if text}


def test_the_viewer_links_its_files_and_pages() -> None:
    site = Site(styles=("/a/plait.css",), scripts=("/a/plait.js",), links=(("Runs", "/"),))
    page = parsed(run_page(full_run(), site=site))

    assert page.all("style") == []
    assert [one.attributes for one in page.all("script")] == [{"src": "/a/plait.js", "defer": ""}]
    assert ("Runs", "/") in [(one.text, one.attributes.get("href")) for one in page.all("a")]


def test_a_hostile_trace_is_shown_as_text() -> None:
    page = parsed(run_page(hostile_run(big=200_000)))

    assert {one.tag for one in page.elements} <= _ALLOWED
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    for one in page.elements:
        assert not [name for name in one.attributes if name.startswith("on") or name == "style"]
    assert _addresses(page) <= {"#", "data:image/png;base64,"}
    shown = page.all("main")[0].text
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>\\x1b[31mred" in shown
    assert "\\u202eevil\\u202c \\u200bhidden\\U000e0041 javascript:alert(3)" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b\ud800-\udfff]", shown)


def test_a_long_text_is_cut_and_whole_when_unfolded() -> None:
    trace = hostile_run(big=100_000)
    (whole,) = [event.content for event in trace.events if isinstance(event, ToolReturned)]
    page = parsed(run_page(trace))
    (block,) = [one for one in page.all("details", "whole") if "alert(4)" in one.text]

    assert block.text.count("alert(4)") == whole.count("alert(4)")
    linked = RunView(source=lambda event, part: f"/text/{event}/{part}")
    page = parsed(run_page(trace, view=linked))
    blocks = page.all("details", "whole")
    (block,) = [one for one in blocks if one.attributes["data-src"].endswith("/content")]
    assert "alert(4)" not in block.text
    event, part = block.attributes["data-src"].removeprefix("/text/").split("/")
    assert event_text(trace, int(event), part) == whole


def test_a_trace_of_ten_thousand_events_is_laid_out_in_chunks() -> None:
    page = parsed(run_page(long_run(1_000)))

    assert len(page.all("div", "chunk")) == 7
    assert len(page.all("article")) == 666


def test_a_failed_run_shows_its_error_and_an_unfinished_one_says_so() -> None:
    page = parsed(run_page(failed_run()))
    assert "ConnectError" in page.all("article", "failure")[0].text
    assert "the server did not start" in page.all("article", "failure")[0].text

    recorder = Recorder(run="x")
    recorder.run_started([Message.user("Go.")], interface="manual")
    recorder.delta("text", "I am wri")
    recorder.delta("thinking", "x")
    text = parsed(run_page(recorder.trace)).all("main")[0].text
    assert "killed, or is still running" in text
    assert "I am wri" in text


def test_an_open_page_gets_the_steps_that_changed() -> None:
    whole = full_run()
    until_first_result = Trace(run=whole.run, events=whole.events[:6])

    begun = dict(step_articles(until_first_result))
    later = step_articles(whole, after=until_first_result.events[-1].id)

    assert list(begun) == ["e1", "e2", "e3", "e4"]
    assert [key for key, _ in later][:3] == ["e3", "e6", "e7"]
    assert "no result" in begun["e3"]
    assert "no result" not in dict(later)["e3"]


def test_the_wire_of_a_call_is_shown_where_it_was_recorded() -> None:
    message = {"method": "tools/call", "params": {"name": "forecast"}}
    page = parsed(run_page(full_run(), view=RunView(wire={"c1": [message]})))

    (wire,) = [one for one in page.all("details") if one.text.startswith("wire")]
    assert "tools/call" in wire.text


def test_our_own_files_request_nothing_and_write_no_markup_of_texts() -> None:
    for name, markups in (("plait.css", 0), ("plait.js", 1)):
        text = asset(name)
        assert not re.search(r"https?:|url\(|@import|eval\(|document\.write|outerHTML", text)
        assert text.count("innerHTML") == markups
        assert len(text) < 20_000
        json.dumps(text)


def test_a_run_that_completed_though_calls_failed_is_not_plainly_good() -> None:
    def badges(page: str) -> set[tuple[str, str]]:
        return {(one.text, one.attributes["class"]) for one in parsed(page).all("span", "badge")}

    failed = full_run()
    good = replace(
        failed, events=tuple(one for one in failed.events if not getattr(one, "is_error", False))
    )
    for trace, badge in (
        (failed, ("completed, 1 call failed", "badge warn")),
        (good, ("completed", "badge good")),
    ):
        assert badge in badges(run_page(trace))
        assert badge in badges(runs_section([run_row(trace, href="#")]))
    assert ("completed", "badge good") not in badges(run_page(failed))


def test_a_page_says_who_approved_a_call() -> None:
    recorder = begun()
    for by in ("person", "program", "policy"):
        recorder.approval("weather", "now", "approve", "rule 1", by=by, seconds=29.0)
    page = " ".join(parsed(run_page(recorder.ended())).all("main")[0].text.split())

    for text in ("by the person", "by the program", "by the policy"):
        assert f"weather/now approved {text}" in page
    assert page.count("answered after 29.0 s") == 3
