"""A line whose values have other types than its event is damaged, and the others are still read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from plait.html.conversation import run_page
from plait.html.runs import run_row
from plait.traces.codec import event_from_line, line_from_event
from plait.traces.file import traces_from_bytes
from tests.unit.html.sample_runs import full_run

LINES = [line_from_event(event) for event in full_run().events]
NESTED = "[" * 100_000


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to every value inside another."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        yield (*path, key)
        if isinstance(one, dict | list):
            yield from _places(one, (*path, key))


def _with(line: bytes, path: tuple[str | int, ...], text: str) -> bytes:
    """Return the line with a JSON text in place of one of its values."""
    data = inner = json.loads(line)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = "@@"
    return json.dumps(data).replace('"@@"', text).encode() + b"\n"


@pytest.mark.parametrize(
    ("kind", "field", "text"),
    [
        ("run", "id", "1e999"),
        ("run", "id", "true"),
        ("run", "time", "null"),
        ("run", "at", "NaN"),
        ("run", "at", "1e308"),
        ("run", "run", "[]"),
        ("run", "servers", "[1]"),
        ("run", "unreached", '{"a": 1}'),
        ("tool", "digest", "{}"),
        ("tool", "input_schema", '"x"'),
        ("tool_call", "arguments", "[1]"),
        ("tool_call", "arguments", NESTED),
        ("tool_result", "images", '[{"mime_type": 1, "digest": "a", "size_bytes": 2}]'),
        ("tool_result", "images", "[{}]"),
        ("turn", "message", '{"role": "assistant", "content": [1]}'),
        ("turn", "usage", '{"cost_usd": "much"}'),
        ("end", "usage", '{"input_tokens": 1e999}'),
        ("turn", "message", '"x"'),
    ],
)
def test_a_value_of_another_type_is_no_event(kind: str, field: str, text: str) -> None:
    line = next(one for one in LINES if json.loads(one)["event"] == kind)
    assert event_from_line(line) is not None

    wrong = _with(line, (field,), text)
    with pytest.raises(ValueError, match=r"not an event|not the content"):
        event_from_line(wrong)
    (trace,) = traces_from_bytes(LINES[1] + wrong + b'{"v":1,"event":"end","run":"r1"}')
    assert trace.damaged == 2


@pytest.mark.parametrize("text", ["null", "1e999", "-1", '"\\ud800"', '[{"a": 1}]', '{"a": [1]}'])
def test_whatever_a_file_contains_its_runs_are_listed_and_shown(text: str) -> None:
    lines = [b'{"v": 1, "event": ' + text.encode() + b"}\n", *LINES]
    for number, line in enumerate(LINES):
        for path in _places(json.loads(line)):
            if path[0] not in {"v", "event", "run"}:
                run = f"{number}{path}".encode().hex()
                own = _with(line, ("run",), f'"{run[:40]}"')
                lines += [_with(own, path, text)] if len(path) < 3 else []

    for trace in traces_from_bytes(b"".join(lines)):
        run_row(trace, href="/", file="run.jsonl")
        run_page(trace)
