"""A run as a page: its facts, then its steps as a conversation that is also a waterfall."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plait._support.sizes import size_label
from plait.traces import events
from plait.traces.events import ResultImage, ToolReturned
from plait.traces.html.elements import Child, Html, h
from plait.traces.html.labels import cost_label, count_label, seconds_label, tokens_label
from plait.traces.html.page import SINGLE_FILE, Site, page
from plait.traces.html.steps import Step, steps_of
from plait.traces.html.text import (
    facts,
    image_block,
    preview,
    result_block,
    text_block,
    value_block,
)
from plait.traces.html.waterfall import axis, bar, colour_of, overview, total_seconds
from plait.traces.messages.content import ImageContent
from plait.traces.messages.message import Message, Role, to_prompt_string
from plait.traces.trace import Trace

_CHUNK = 100
"""Steps that a browser lays out together, when they come into view."""
_ORDINARY_STOPS = (None, "end_turn", "tool_use", "stop", "tool_calls", "STOP", "completed")
_LONGEST_TITLE = 80

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
    first: int | None = None
    """How many steps the page contains; others are requested. `None` is all of them."""


DEFAULT_VIEW = RunView()


def run_page(
    trace: Trace,
    *,
    title: str | None = None,
    site: Site = SINGLE_FILE,
    view: RunView = DEFAULT_VIEW,
    live: str | None = None,
) -> str:
    """Build the page of a run; `live` is the address that reports its further steps."""
    name = title or run_title(trace)
    return page(name, run_section(trace, view=view, live=live), site=site)


def run_title(trace: Trace) -> str:
    """Return the question of a run, in one short line."""
    question = to_prompt_string(trace.started.messages) if trace.started else ""
    line = " ".join(question[: 4 * _LONGEST_TITLE].split()) or f"run {trace.run[:8]}"
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1] + "…"


def run_section(trace: Trace, *, view: RunView = DEFAULT_VIEW, live: str | None = None) -> Html:
    """Build the facts and steps of a run."""
    steps = steps_of(trace)
    total = total_seconds(steps, trace.seconds)
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
                for chunk in _chunks(steps[: view.first])
            ],
            class_="steps",
            data_list=True,
            data_live=live,
            data_total=f"{total:.3f}",
        ),
        class_="run",
        id=f"{view.prefix}run",
    )


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
    """Build the facts of a run."""
    started, usage = trace.started, trace.usage
    rows: list[tuple[str, str | None]] = [
        ("model", trace.actual_model or (started.model if started else None)),
        ("engine", started.interface if started else None),
        ("servers", ", ".join(started.servers) if started else None),
        ("began", started.time[:19].replace("T", " ") + " UTC" if started else None),
        ("took", seconds_label(trace.seconds)),
        ("turns", f"{trace.turns:,}"),
        ("calls", _calls_label(trace)),
        ("tokens", (tokens_label(usage) or "").removesuffix(" tokens")),
        ("cached", f"{usage.cache_read_tokens:,}" if usage.cache_read_tokens else None),
        ("cost", cost_label(usage.cost_usd)),
        ("run", trace.run[:12]),
        ("started by run", started.parent_run if started else None),
    ]
    cells = [h("div", h("dt", name), h("dd", value)) for name, value in rows if value]
    return h(
        "div",
        h("h1", run_title(trace), " ", run_badge(trace), dir="auto"),
        h("dl", cells, class_="facts-list"),
        _warnings(trace),
        _settings(trace),
        class_="run-head",
    )


def status_badge(status: str) -> Html:
    """Show how a run or a case ended."""
    good = {"completed": "good", "passed": "good", "failed": "bad", "error": "bad"}
    return h("span", status, class_=f"badge {good.get(status, 'warn')}")


def run_badge(trace: Trace) -> Html:
    """Show how a run ended, and whether calls of it failed."""
    return outcome_badge(trace.status, trace.failed_calls)


def outcome_badge(status: str, failed_calls: int) -> Html:
    """Show how a run ended; one that completed though calls failed is not shown as plainly good."""
    if status != "completed" or not failed_calls:
        return status_badge(status)
    label = f"{status}, {count_label(failed_calls, 'call')} failed"
    return h("span", label, class_="badge warn")


def _calls_label(trace: Trace) -> str:
    failed = trace.failed_calls
    return f"{len(trace.calls):,}" + (f", {failed:,} failed" if failed else "")


def _warnings(trace: Trace) -> list[Html]:
    unreached = trace.started.unreached.items() if trace.started else ()
    lines = [f"{server} could not be reached: {reason}" for server, reason in unreached]
    if trace.ended is None:
        lines.append("The trace is incomplete: the run was killed, or is still running.")
    if trace.damaged:
        lines.append(f"{count_label(trace.damaged, 'line')} of the file cannot be read.")
    return [h("p", line, class_="warning") for line in lines]


def _settings(trace: Trace) -> list[Html]:
    started = trace.started
    if started is None:
        return []
    folded: list[Html] = []
    if started.settings:
        folded.append(_folded("settings", value_block(dict(started.settings))))
    if definitions := trace.definitions:
        tools = [
            _folded(name, text_block(tool.description), value_block(dict(tool.input_schema)))
            for name, tool in definitions.items()
        ]
        folded.append(_folded(count_label(len(tools), "tool"), tools))
    elif started.tools:
        folded.append(_folded(count_label(len(started.tools), "tool"), ", ".join(started.tools)))
    return folded


def _toolbar(view: RunView) -> Html:
    name = f"{view.prefix}view"
    return h(
        "div",
        h(
            "span",
            h(
                "label",
                h("input", type="radio", name=name, value="c", checked=True),
                "Conversation",
            ),
            h("label", h("input", type="radio", name=name, value="w"), "Waterfall"),
            class_="switch",
        ),
        h(
            "input",
            type="search",
            placeholder="Search steps  /",
            data_filter="text",
            autocomplete="off",
        ),
        h(
            "select",
            [h("option", label, value=value) for value, label in _KINDS],
            data_filter="kind",
            aria_label="kinds of steps",
        ),
        h("button", "Unfold all", type="button", data_do="fold"),
        class_="toolbar",
    )


_KINDS = (
    ("", "all steps"),
    ("turn", "model turns"),
    ("call", "tool calls"),
    ("error", "failures"),
    ("incident", "retries, heals, approvals, questions"),
)


def _chunks(steps: Sequence[Step]) -> list[Sequence[Step]]:
    return [steps[start : start + _CHUNK] for start in range(0, len(steps), _CHUNK)]


def _article(step: Step, trace: Trace, view: RunView, total: float) -> Html:
    head, body = _shown(step, trace, view)
    kinds = f"{step.kind}\nerror" if step.failed else step.kind
    key = view.prefix + step.key
    return h(
        "article",
        h(
            "div",
            h("a", seconds_label(step.start) if step.start else "0 s", class_="at", href=f"#{key}"),
            h("span", head, class_="head"),
            bar(step, total),
            class_="row",
        ),
        h("div", body, class_="body"),
        class_=f"step {step.kind} {colour_of(step)}",
        id=key,
        tabindex="-1",
        data_item=True,
        data_kind=kinds,
    )


def _shown(step: Step, trace: Trace, view: RunView) -> tuple[Child, Child]:
    """Return the line of a step, and what stands below it."""
    event = step.event
    match event:
        case _ if step.kind == "partial":
            return _title("Answer, not complete"), text_block(trace.partial_text)
        case events.RunStarted():
            return _title("Question"), [_message(message) for message in event.messages]
        case events.Turn():
            return _turn_head(event), _turn_body(event, view)
        case events.ToolCalled():
            return _call_head(step, event), _call_body(step, event, view)
        case events.Summarized():
            head = [_title("Summary"), facts(event.model, tokens_label(event.usage))]
            return head, text_block(event.text, source=_source(view, event.id, "text"))
        case events.RunFailed():
            details = value_block(dict(event.facts)) if event.facts else None
            return _title(event.error), [text_block(event.message), details]
        case events.RunEnded():
            return _end(event, trace, view)
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


def _turn_head(event: events.Turn) -> Child:
    stop = None if event.stop_reason in _ORDINARY_STOPS else f"stopped: {event.stop_reason}"
    cost = cost_label(event.usage.cost_usd) if event.usage else None
    duration = None if event.seconds is None else seconds_label(event.seconds)
    node = f"in {event.node}" if event.node else None
    known = facts(event.model, node, tokens_label(event.usage), cost, duration, stop)
    return [_title(f"Turn {event.number}"), " ", known]


def _turn_body(event: events.Turn, view: RunView) -> Child:
    message = event.message
    thinking = None
    if message.thinking:
        block = text_block(message.thinking, source=_source(view, event.id, "thinking"))
        thinking = h("details", h("summary", "thinking"), block, class_="thinking")
    text = None
    if message.text:
        text = text_block(message.text, source=_source(view, event.id, "text"))
    calls = None
    if not message.text and message.tool_calls:
        calls = h("p", f"calls {_names(message)}", class_="muted")
    return [thinking, text, [image_block(image) for image in message.images], calls]


def _names(message: Message) -> str:
    names: dict[str, int] = {}
    for call in message.tool_calls:
        names[call.name] = names.get(call.name, 0) + 1
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in names.items())


def _call_head(step: Step, event: events.ToolCalled) -> Child:
    result = step.result
    name = f"{event.server}/{event.tool or event.name}" if event.server else event.name
    attempts = f"{result.attempts} attempts" if result and result.attempts > 1 else None
    return [
        h("strong", name, class_="tool"),
        " ",
        facts(
            None if result else "no result",
            "failed" if step.failed else None,
            seconds_label(step.end - step.start) if result else None,
            attempts,
            f"{step.parallel} in parallel" if step.parallel > 1 else None,
            f"in {event.node}" if event.node else None,
        ),
        h("span", preview(event.arguments), class_="peek"),
    ]


def _call_body(step: Step, event: events.ToolCalled, view: RunView) -> Child:
    source = _source(view, event.id, "arguments")
    arguments = None
    if event.arguments:
        peek = h("span", preview(event.arguments), class_="peek", dir="auto")
        block = value_block(dict(event.arguments), source=source)
        arguments = h("details", h("summary", "arguments ", peek), block)
    images = [_result_image(image) for image in step.result.images] if step.result else None
    wire = _wire(view.wire.get(event.call_id, ()))
    return [arguments, _result(step.result, view), images, wire]


def _result_image(image: ResultImage) -> Html:
    if image.data is None:
        size = size_label(image.size_bytes)
        return h("p", f"[image: {image.mime_type}, {size}, not in the trace]", class_="muted")
    return image_block(ImageContent(data=image.data, mime_type=image.mime_type))


def _result(result: ToolReturned | None, view: RunView) -> Html | None:
    if result is None:
        return None
    block = result_block(result.content, source=_source(view, result.id, "content"))
    notes = [h("p", note, class_="warning") for note in result.notes]
    label = "error" if result.is_error else "result"
    peek = h("span", preview(result.content), class_="peek", dir="auto")
    return h(
        "details",
        h("summary", label, " ", peek),
        block,
        notes,
        id=f"{view.prefix}e{result.id}",
        class_=label,
    )


def _wire(messages: Sequence[Mapping[str, Any]]) -> Html | None:
    if not messages:
        return None
    label = f"wire, {count_label(len(messages), 'message')}"
    return _folded(label, [value_block(dict(message)) for message in messages])


def _end(event: events.RunEnded, trace: Trace, view: RunView) -> tuple[Child, Child]:
    turns = (one for one in reversed(trace.events) if isinstance(one, events.Turn))
    last = next(turns, None)
    body = None
    if last is None or event.final_response != last.message.text:
        body = text_block(event.final_response, source=_source(view, event.id, "text"))
    cost = cost_label(event.usage.cost_usd)
    known = facts(seconds_label(trace.seconds), tokens_label(event.usage), cost)
    return [_title("End"), " ", run_badge(trace), " ", known], body


def _incident(event: events.TraceEvent) -> Child:
    match event:
        case events.Retried():
            what, why = f"Retry of {event.server}/{event.tool}", f"attempt {event.attempt}"
            return [_title(what), " ", facts(why, event.reason, _pause(event.delay_seconds))]
        case events.ModelRetried():
            why = f"attempt {event.attempt}"
            known = facts(why, event.reason, _pause(event.delay_seconds))
            return [_title("Retry of the model"), " ", known]
        case events.Healed():
            lost = None if event.seconds is None else f"lost for {seconds_label(event.seconds)}"
            return [_title(f"{event.server} healed"), " ", facts(event.reason, lost)]
        case events.ApprovalDecided():
            what = f"{event.server}/{event.tool} {_DECISIONS.get(event.decision, event.decision)}"
            who, took = _DECIDERS.get(event.by, event.by), _waited(event.seconds)
            return [_title(what), " ", facts(who, event.message, event.reason, took)]
        case events.Elicited():
            answer = event.action or "no answer"
            what = f"Question of {event.server}"
            known = facts(answer, _waited(event.seconds))
            return [_title(what), " ", known, h("span", event.question, class_="peek")]
        case _:
            return _title(event.kind.replace("_", " "))


_DECISIONS = {"approve": "approved", "edit": "changed", "reject": "rejected", "deny": "denied"}
_DECIDERS = {
    "person": "by the person",
    "program": "without asking a person",
    "policy": "by the policy",
}


def _waited(seconds: float | None) -> str | None:
    return None if seconds is None else f"answered after {seconds_label(seconds)}"


def _pause(seconds: float | None) -> str | None:
    return None if seconds is None else f"after {seconds_label(seconds)}"


def _folded(label: str, *content: Child) -> Html:
    return h("details", h("summary", label), *content)


def _source(view: RunView, event_id: int, part: TextPart) -> str | None:
    return None if view.source is None else view.source(event_id, part)
