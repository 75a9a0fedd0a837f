"""Writes a trace as Markdown in which texts of models and servers are shown, and nothing acts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from plait._support.sanitize import escaped, escaped_for_markdown
from plait.traces import events
from plait.traces.events import TraceEvent
from plait.traces.messages.message import Role
from plait.traces.trace import Trace


def trace_to_markdown(trace: Trace) -> str:
    """Write a run as Markdown: a table of facts, then the events in order."""
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
    cells = [(name, _inline(value).replace("|", "\\|")) for name, value in rows.items() if value]
    facts = "\n".join(["| | |", "| --- | --- |", *(f"| {one} | {cell} |" for one, cell in cells)])
    blocks = [f"# Run {_inline(trace.run)}", facts]
    for event in trace.events:
        blocks.extend(_blocks(event))
    if trace.ended is None:
        blocks.append("*The trace ends here: the run was killed, or still runs.*")
    return "\n\n".join(blocks) + "\n"


def _blocks(event: TraceEvent) -> Iterator[str]:
    match event:
        case events.RunStarted():
            for message in event.messages:
                yield f"## {'System' if message.role is Role.SYSTEM else message.role.title()}"
                yield _fenced(message.text)
        case events.Turn():
            yield f"## Turn {event.number}"
            if event.message.thinking:
                yield "*Thinking:*"
                yield _fenced(event.message.thinking)
            if event.message.text:
                yield _fenced(event.message.text)
        case events.ToolCalled():
            server = f" of {_code(event.server)}" if event.server else ""
            yield f"### {_code(event.name)}{server}"
            yield _fenced(json.dumps(event.arguments, indent=2, ensure_ascii=False), "json")
        case events.ToolReturned():
            duration = "" if event.seconds is None else f" after {event.seconds:.2f} s"
            yield f"{_code(event.name)} {'failed' if event.is_error else 'answered'}{duration}:"
            yield _fenced(event.content)
        case events.Retried():
            reason = f": {_inline(event.reason)}" if event.reason else ""
            yield f"*Attempt {event.attempt} of {_code(f'{event.server}/{event.tool}')}{reason}*"
        case events.Healed():
            yield f"*{_code(event.server)} was lost, and reconnected.*"
        case events.Elicited():
            answer = event.action or "no answer"
            yield f"*Elicitation of {_code(event.server)}: {_inline(event.question)} ({answer})*"
        case events.ApprovalDecided():
            who = "a person" if event.by == "person" else f"the {event.by}"
            why = f"{event.reason}: {event.message}" if event.message else event.reason
            tool = _code(f"{event.server}/{event.tool}")
            yield f"*{tool}: {event.decision} by {who} ({_inline(why)})*"
        case events.Summarized():
            yield "*The conversation so far was replaced by a summary:*"
            yield _fenced(event.text)
        case events.RunFailed():
            yield f"**{_inline(event.error)}**: {_inline(event.message)}"
        case events.RunEnded():
            yield "## Answer"
            yield _fenced(event.final_response)
        case _:
            pass


def _inline(text: str) -> str:
    return escaped_for_markdown(" ".join(text.split()))


def _code(name: str) -> str:
    text = escaped(" ".join(name.split())).replace("`", "'")
    return f"`{text}`"


def _fenced(text: str, language: str = "text") -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{escaped(text)}\n{fence}"
