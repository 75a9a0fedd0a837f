"""Writes a trace as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from plait.traces import events
from plait.traces.events import TraceEvent
from plait.traces.messages.message import Role
from plait.traces.trace import Trace


def trace_to_markdown(trace: Trace) -> str:
    """Write a run as Markdown: a table of facts, then the events in order."""
    blocks = [f"# Run {trace.run}", _facts(trace)]
    for event in trace.events:
        blocks.extend(_blocks(event))
    if trace.ended is None:
        blocks.append("*The trace ends here: the run was killed, or still runs.*")
    return "\n\n".join(blocks) + "\n"


def _facts(trace: Trace) -> str:
    started, usage = trace.started, trace.usage
    rows = {
        "Began": started.time if started else None,
        "Engine": started.interface if started else None,
        "Model": trace.actual_model,
        "Servers": ", ".join(started.servers) if started else None,
        "Not reached": "; ".join(started.unreached.values()) if started else None,
        "Ended": trace.status,
        "Turns": str(trace.turns),
        "Tool calls": str(len(trace.calls)),
        "Tokens": f"{usage.input_tokens} in, {usage.output_tokens} out",
        "Cost": None if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
        "Seconds": f"{trace.seconds:.2f}",
    }
    lines = [f"| {name} | {_cell(value)} |" for name, value in rows.items() if value]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _blocks(event: TraceEvent) -> Iterator[str]:
    match event:
        case events.RunStarted():
            for message in event.messages:
                yield f"## {'System' if message.role is Role.SYSTEM else message.role.title()}"
                yield message.text
        case events.Turn():
            yield f"## Turn {event.number}"
            if event.message.thinking:
                yield "\n".join(f"> {line}" for line in event.message.thinking.split("\n"))
            if event.message.text:
                yield event.message.text
        case events.ToolCalled():
            server = f" of `{event.server}`" if event.server else ""
            yield f"### `{event.name}`{server}"
            yield _fenced(json.dumps(event.arguments, indent=2, ensure_ascii=False), "json")
        case events.ToolReturned():
            duration = "" if event.seconds is None else f" after {event.seconds:.2f} s"
            yield f"`{event.name}` {'failed' if event.is_error else 'answered'}{duration}:"
            yield _fenced(event.content)
        case events.Retried():
            reason = f": {event.reason}" if event.reason else ""
            yield f"*Attempt {event.attempt} of `{event.server}/{event.tool}`{reason}*"
        case events.Healed():
            yield f"*`{event.server}` was lost, and reconnected.*"
        case events.Elicited():
            answer = event.action or "no answer"
            yield f"*Elicitation of `{event.server}`: {event.question} ({answer})*"
        case events.ApprovalDecided():
            who = "a person" if event.by == "person" else "the policy"
            why = f"{event.reason}: {event.message}" if event.message else event.reason
            yield f"*`{event.server}/{event.tool}`: {event.decision} by {who} ({why})*"
        case events.Summarized():
            yield f"*The conversation so far was replaced by a summary:* {event.text}"
        case events.RunFailed():
            yield f"**{event.error}**: {event.message}"
        case events.RunEnded():
            yield "## Answer"
            yield event.final_response
        case _:
            pass


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _fenced(text: str, language: str = "text") -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
