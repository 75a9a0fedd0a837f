"""A run as a page: its facts, then its steps as a conversation that is also a waterfall."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plait._support.sizes import size_label
from plait.html.elements import Child, Html, h
from plait.html.markdown import markdown_block
from plait.html.page import SINGLE_FILE, Site, page
from plait.html.pieces import (
    cost_label,
    count_label,
    facts,
    facts_list,
    folded,
    search_field,
    seconds_label,
    status_badge,
    tokens_label,
)
from plait.html.plots import axis, bar, colour_of, overview, total_seconds
from plait.html.steps import Step, steps_of
from plait.html.text import image_block, preview, result_block, text_block, value_block
from plait.traces import events
from plait.traces.events import ToolReturned
from plait.traces.messages.message import ImageContent, Message, Role, to_prompt_string
from plait.traces.trace import NO_RESPONSE, Trace

CHUNK_STEPS = 100
"""Steps that a browser lays out together, when they come into view."""
MAX_TITLE_CHARACTERS = 80
"""More does not fit into a heading or a row of a list."""
_ORDINARY_STOPS = (None, "end_turn", "tool_use", "stop", "tool_calls", "STOP", "completed")

TextPart = str
"""Which text of an event: `text`, `thinking`, `arguments`, `content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """How a run is shown."""

    prefix: str = ""
    """Put before the ids of steps, where a page shows several runs."""
    source: Callable[[int, TextPart], str] | None = None
    """Returns the address of a long text of an event; without it, it is in the page."""
    wire: Mapping[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )
    """The recorded messages of calls, by the ids of the calls."""
    save: str | None = None
    """The address of the run as one file, where there is one."""
    first: int | None = None
    """How many steps the page contains; others are requested. `None` is all of them."""


DEFAULT_VIEW = RunView()


def run_page(
    trace: Trace,
    *,
    site: Site = SINGLE_FILE,
    view: RunView = DEFAULT_VIEW,
    live: str | None = None,
) -> str:
    """Build the page of a run; `live` is the address that reports its further steps."""
    return page(run_title(trace), run_section(trace, view=view, live=live), site=site)


def run_title(trace: Trace) -> str:
    """Return the question of a run, in one short line."""
    question = to_prompt_string(trace.started.messages) if trace.started else ""
    line = " ".join(question[: 4 * MAX_TITLE_CHARACTERS].split()) or f"run {trace.run[:8]}"
    return line if len(line) <= MAX_TITLE_CHARACTERS else line[: MAX_TITLE_CHARACTERS - 1] + "…"


def run_section(trace: Trace, *, view: RunView = DEFAULT_VIEW, live: str | None = None) -> Html:
    """Build the facts and steps of a run."""
    steps = steps_of(trace)
    total = total_seconds(steps, trace.seconds)
    chosen = steps[: view.first]
    chunks = [chosen[start : start + CHUNK_STEPS] for start in range(0, len(chosen), CHUNK_STEPS)]
    return h(
        "section",
        run_heading(trace),
        overview(steps, total),
        _toolbar(view),
        h("div", axis(total), class_="axis-row"),
        h(
            "div",
            [
                h("div", [_article(step, trace, view, total) for step in chunk], class_="chunk")
                for chunk in chunks
            ],
            class_="steps",
            data_list=True,
            data_live=live,
            data_total=f"{total:.3f}",
        ),
        class_="run",
        id=f"{view.prefix}run",
    )


def waterfall(trace: Trace, *, href: str) -> Html:
    """Build the steps of a run in time, a line each, that link to the page of the run."""
    steps = steps_of(trace)
    total = total_seconds(steps, trace.seconds)
    rows: list[Html] = []
    for step in steps:
        head, _ = _head_and_body(step, trace, DEFAULT_VIEW)
        line = h("div", h("span", head, class_="head"), bar(step, total), class_="row")
        link = h("a", line, href=f"{href}#{step.key}")
        rows.append(h("article", link, class_=f"step {step.kind} {colour_of(step)}"))
    return h("div", h("div", axis(total), class_="axis-row"), rows, class_="flow")


def step_articles(
    trace: Trace, *, after: int = -1, most: int | None = None, view: RunView = DEFAULT_VIEW
) -> list[tuple[str, Html]]:
    """Return the steps that an event after number `after` began or changed, with their ids.

    A page that is open replaces the elements with these ids, or appends them. With `most`, only
    so many are returned.
    """
    steps = steps_of(trace)
    total = total_seconds(steps, trace.seconds)
    changed = [
        step for step in steps if max(step.event.id, step.result.id if step.result else -1) > after
    ]
    return [(view.prefix + step.key, _article(step, trace, view, total)) for step in changed[:most]]


def event_text(trace: Trace, event_id: int, part: TextPart) -> str | None:
    """Return the whole of a long text, as `RunView.source` addresses it."""
    event = next((event for event in trace.events if event.id == event_id), None)
    match event, part:
        case events.Turn(), "text":
            return event.message.text
        case events.Turn(), "thinking":
            return event.message.thinking
        case events.ToolCalled() | events.ApprovalDecided(), "arguments":
            return json.dumps(event.arguments, ensure_ascii=False, indent=1, default=str)
        case ToolReturned(), "content":
            return event.content
        case events.RunEnded(), "text":
            return event.final_response
        case events.Summarized(), "text":
            return event.text
        case _:
            return None


def run_heading(trace: Trace) -> Html:
    """Build the facts of a run, what is wrong with it, and its settings and tools."""
    started, usage, failed = trace.started, trace.usage, trace.failed_calls
    rows: list[tuple[str, str | None]] = [
        ("model", trace.actual_model or (started.model if started else None)),
        ("engine", started.interface if started else None),
        ("servers", ", ".join(started.servers) if started else None),
        ("began", started.time[:19].replace("T", " ") + " UTC" if started else None),
        ("took", seconds_label(trace.seconds)),
        ("turns", f"{trace.turns:,}"),
        ("calls", f"{len(trace.calls):,}" + (f", {failed:,} failed" if failed else "")),
        ("tokens", (tokens_label(usage) or "").removesuffix(" tokens")),
        ("cached", f"{usage.cache_read_tokens:,}" if usage.cache_read_tokens else None),
        ("cost", cost_label(usage.cost_usd)),
        ("run", trace.run[:12]),
        ("started by run", started.parent_run if started else None),
    ]
    unreached = started.unreached.items() if started else ()
    warnings = [f"{server} could not be reached: {reason}" for server, reason in unreached]
    if trace.ended is None:
        warnings.append("The trace is incomplete: the run was killed, or is still running.")
    if trace.damaged:
        warnings.append(f"{count_label(trace.damaged, 'line')} of the file cannot be read.")
    parts: list[Html] = []
    if started and started.settings:
        parts.append(folded("settings", value_block(dict(started.settings))))
    if started and (definitions := trace.definitions):
        tools = [
            folded(name, text_block(tool.description), value_block(dict(tool.input_schema)))
            for name, tool in definitions.items()
        ]
        parts.append(folded(count_label(len(tools), "tool"), tools))
    elif started and started.tools:
        parts.append(folded(count_label(len(started.tools), "tool"), ", ".join(started.tools)))
    badge = status_badge(trace.status, failed)
    answer = "" if trace.ended is None else trace.ended.final_response
    if answer == NO_RESPONSE and not trace.turns:
        answer = ""  # what a client of `plait serve` did: no model was asked
    return h(
        "div",
        h("h1", run_title(trace), " ", badge, dir="auto"),
        h("div", markdown_block(answer), class_="answer") if answer else None,
        facts_list(rows),
        [h("p", line, class_="warning") for line in warnings],
        parts,
        class_="run-head",
    )


def _toolbar(view: RunView) -> Html:
    views = [
        h(
            "label",
            h("input", type="radio", name=f"{view.prefix}view", value=value, checked=on),
            label,
        )
        for value, label, on in (("c", "Conversation", True), ("w", "Waterfall", False))
    ]
    kinds = [h("option", label, value=value) for value, label in _KINDS]
    return h(
        "div",
        h("span", views, class_="switch"),
        search_field("steps"),
        h("select", kinds, data_filter="kind", aria_label="kinds of steps"),
        h("button", "Unfold all", type="button", data_do="fold"),
        h("button", "Only turns", type="button", data_do="turns"),
        h("button", "Whole run", type="button", data_do="whole", hidden=True),
        h("a", "Save as one file", href=view.save, download=True) if view.save else None,
        class_="toolbar",
    )


_KINDS = (
    ("", "all steps"),
    ("turn", "model turns"),
    ("call", "tool calls"),
    ("error", "failures"),
    ("incident", "retries, heals, approvals, questions"),
)


def _article(step: Step, trace: Trace, view: RunView, total: float) -> Html:
    head, body = _head_and_body(step, trace, view)
    kinds = f"{step.kind}\nerror" if step.failed else step.kind
    key = view.prefix + step.key
    fold = None
    if isinstance(step.event, events.Turn) and step.event.message.tool_calls:
        label = "fold the calls of this turn"
        fold = h("button", "▾", type="button", data_do="turn", class_="fold", aria_label=label)
    return h(
        "article",
        h(
            "div",
            h("a", seconds_label(step.start) if step.start else "0 s", class_="at", href=f"#{key}"),
            h("span", fold, head, class_="head"),
            bar(step, total),
            class_="row",
        ),
        h("div", body, class_="body"),
        class_=f"step {step.kind} {colour_of(step)}",
        id=key,
        tabindex="-1",
        data_item=True,
        data_kind=kinds,
        data_of=view.prefix + step.turn if step.turn else None,
    )


def _head_and_body(step: Step, trace: Trace, view: RunView) -> tuple[Child, Child]:
    """Return the line of a step, and what stands below it."""
    event = step.event

    def text(content: str, part: TextPart = "text") -> Html:
        return text_block(content, source=_source(view, event.id, part))

    match event:
        case _ if step.kind == "partial":
            return _title("Answer, not complete"), text_block(trace.partial_text)
        case events.RunStarted() if step.kind == "connect":
            known = facts(seconds_label(step.end), ", ".join(event.servers))
            return [_title("Connecting"), " ", known], None
        case events.RunStarted():
            return _title("Question"), [_message(message) for message in event.messages]
        case events.Turn():
            return _turn(event, view)
        case events.ToolCalled():
            return _call(step, event, view)
        case events.Summarized():
            known = facts(event.model, tokens_label(event.usage))
            return [_title("Summary"), known], text(event.text)
        case events.RunFailed():
            details = value_block(dict(event.facts)) if event.facts else None
            return _title(event.error), [text_block(event.message), details]
        case events.RunEnded():
            turns = (one for one in reversed(trace.events) if isinstance(one, events.Turn))
            last = next(turns, None)
            is_said = event.final_response == (NO_RESPONSE if last is None else last.message.text)
            cost = cost_label(event.usage.cost_usd)
            known = facts(seconds_label(trace.seconds), tokens_label(event.usage), cost)
            badge = status_badge(trace.status, trace.failed_calls)
            return [_title("End"), " ", badge, " ", known], (
                None
                if is_said
                else markdown_block(event.final_response, source=_source(view, event.id, "text"))
            )
        case events.ApprovalDecided() if event.arguments is not None:
            source = _source(view, event.id, "arguments")
            return _incident(event), value_block(dict(event.arguments), source=source)
        case _:
            return _incident(event), None


def _title(text: str) -> Html:
    return h("strong", text, dir="auto")


def _message(message: Message) -> Html:
    role = h("p", message.role.value, class_="role") if message.role is not Role.USER else None
    images = [image_block(image) for image in message.images]
    text = message.text or "\n".join(result.content for result in message.tool_results)
    class_ = f"said {message.role.value}"
    return h("div", role, text_block(text) if text else None, images, class_=class_)


def _turn(event: events.Turn, view: RunView) -> tuple[Child, Child]:
    message = event.message
    stop = None if event.stop_reason in _ORDINARY_STOPS else f"stopped: {event.stop_reason}"
    cost = cost_label(event.usage.cost_usd) if event.usage else None
    duration = None if event.seconds is None else seconds_label(event.seconds)
    node = f"in {event.node}" if event.node else None
    known = facts(event.model, node, tokens_label(event.usage), cost, duration, stop)
    body: list[Child] = []
    if message.thinking:
        block = text_block(message.thinking, source=_source(view, event.id, "thinking"))
        body.append(folded("thinking", block, class_="thinking"))
    if message.text:
        body.append(markdown_block(message.text, source=_source(view, event.id, "text")))
    body += [image_block(image) for image in message.images]
    if message.tool_calls and not message.text:
        names = Counter(call.name for call in message.tool_calls)
        calls = (f"{name} ×{count}" if count > 1 else name for name, count in names.items())
        body.append(h("p", f"calls {', '.join(calls)}", class_="muted"))
    return [_title(f"Turn {event.number}"), " ", known], body


def _call(step: Step, event: events.ToolCalled, view: RunView) -> tuple[Child, Child]:
    result, body = step.result, list[Child]()
    known = facts(
        None if result else "no result",
        "failed" if step.failed else None,
        seconds_label(step.end - step.start) if result else None,
        f"{result.attempts} attempts" if result and result.attempts > 1 else None,
        f"{step.parallel} in parallel" if step.parallel > 1 else None,
        f"in {event.node}" if event.node else None,
    )
    name = f"{event.server}/{event.tool or event.name}" if event.server else event.name
    peek = preview(event.arguments)
    if event.arguments:
        label = "arguments ", h("span", peek, class_="peek", dir="auto")
        source = _source(view, event.id, "arguments")
        body.append(folded(label, value_block(dict(event.arguments), source=source)))
    if result is not None:
        kind = "error" if result.is_error else "result"
        content = preview(result.content)
        block = h(
            "details",
            h("summary", kind, " ", h("span", content, class_="peek", dir="auto")),
            result_block(result.content, source=_source(view, result.id, "content")),
            [h("p", note, class_="warning") for note in result.notes],
            id=f"{view.prefix}e{result.id}",
            class_=kind,
        )
        body.append(block)
        for image in result.images:
            if image.data is not None:
                body.append(image_block(ImageContent(image.data, image.mime_type)))
            else:
                about = f"{image.mime_type}, {size_label(image.size_bytes)}"
                body.append(h("p", f"[image: {about}, not in the trace]", class_="muted"))
    if wire := view.wire.get(event.call_id):
        label = f"wire, {count_label(len(wire), 'message')}"
        body.append(folded(label, [value_block(dict(message)) for message in wire]))
    head = [h("strong", name, class_="tool"), " ", known, h("span", peek, class_="peek")]
    return head, body


def _incident(event: events.TraceEvent) -> Child:
    what, known, more = event.kind.replace("_", " "), list[str | None](), None
    match event:
        case events.Retried() | events.ModelRetried():
            is_call = isinstance(event, events.Retried)
            of_what = f"{event.server}/{event.tool}" if is_call else "the model"
            what = f"Retry of {of_what}"
            delay = event.delay_seconds
            pause = None if delay is None else f"after {seconds_label(delay)}"
            known = [f"attempt {event.attempt}", event.reason, pause]
        case events.Healed():
            lost = None if event.seconds is None else f"lost for {seconds_label(event.seconds)}"
            what, known = f"{event.server} healed", [event.reason, lost]
        case events.ApprovalDecided():
            what = f"{event.server}/{event.tool} {_DECISIONS.get(event.decision, event.decision)}"
            who = _DECIDERS.get(event.by, event.by)
            known = [who, event.message, event.reason, _waited(event.seconds)]
        case events.Elicited():
            what = f"Question of {event.server}"
            known = [event.action or "no answer", _waited(event.seconds)]
            more = h("span", event.question, class_="peek")
        case _:
            return _title(what)
    return [_title(what), " ", facts(*known), more]


_DECISIONS = {"approve": "approved", "edit": "changed", "reject": "rejected", "deny": "denied"}
_DECIDERS = {
    "person": "by the person",
    "program": "by the program",
    "policy": "by the policy",
}


def _waited(seconds: float | None) -> str | None:
    return None if seconds is None else f"answered after {seconds_label(seconds)}"


def _source(view: RunView, event_id: int, part: TextPart) -> str | None:
    return None if view.source is None else view.source(event_id, part)
