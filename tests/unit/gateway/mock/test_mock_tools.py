"""Mock tools answer from their files, and faults are read from words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plait import ConfigError
from plait.gateway.mock import Fault, Faults, MockTool, answer_of, fault_from, read_mocks


def tools_of(tmp_path: Path, document: object) -> tuple[MockTool, ...]:
    path = tmp_path / "mcp_MailTools.json"
    path.write_text(json.dumps(document))
    return read_mocks(path)


def test_a_file_says_everything_about_its_tools(tmp_path: Path) -> None:
    entry = {
        "name": "send",
        "description": "Send a mail.",
        "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}},
        "responseTemplate": "Sent to {{to}}.",
        "delayMs": 250,
        "errorRate": 0.5,
        "statusCode": 500,
        "enabled": False,
    }

    whole, plain = tools_of(tmp_path, [entry, {"name": "list", "description": None}])

    assert whole.model_dump(by_alias=True) == entry
    assert plain == MockTool(name="list")


@pytest.mark.parametrize(
    "document", [{}, ["text"], [{}], [{"name": " "}], [{"name": "a", "delayMs": "soon"}]]
)
def test_a_file_that_is_not_written_right_is_an_error_that_names_it(
    document: object, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"^[^\n]*mcp_MailTools\.json[^\n]*$"):
        tools_of(tmp_path, document)


@pytest.mark.parametrize(
    ("template", "arguments", "text", "missing"),
    [
        ("Mock response from {{name}}", {}, "Mock response from send", ()),
        ("To {{TO}}", {"to": "bob"}, "To bob", ()),
        ("{{ a }}, {{b}}, {{b}}", {"A": 1}, "1, {{b}}, {{b}}", ("b",)),
        ("{{list}}", {"list": ["ä"]}, '["ä"]', ()),
        ("Mock response from {{name}}", {"text": "said {{x}}", "x": "y"}, "said y", ()),
        ("Mock response from {{name}}", {"output": "b", "response": "a"}, "a", ()),
        ("own", {"response": "a"}, "own", ()),
    ],
)
def test_templates_are_filled_in_and_what_is_missing_stays_visible(
    template: str, arguments: dict[str, Any], text: str, missing: tuple[str, ...]
) -> None:
    answer = answer_of(MockTool(name="send", response_template=template), arguments)

    assert (answer.text, answer.missing) == (text, missing)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("discovery=429:1.5x2", Fault("discovery", "429", 1.5, 2)),
        ("history=slow:5", Fault("history", "slow", 5.0)),
        ("mcp_MailTools=500", Fault("mcp_MailTools", "500")),
        ("discovery=malformedx1", Fault("discovery", "malformed", None, 1)),
    ],
)
def test_a_fault_is_read_from_words(text: str, fault: Fault) -> None:
    assert fault_from(text) == fault


@pytest.mark.parametrize("text", ["", "discovery", "discovery=", "discovery=no", "x=500x", "x=50"])
def test_words_that_are_no_fault_are_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="TARGET=KIND"):
        fault_from(text)


def test_a_fault_happens_as_often_as_it_says_and_only_where_it_says() -> None:
    faults = Faults(["history=500x2", "history=503"])

    assert [fault.kind for fault in (faults.take("history") for _ in range(4)) if fault] == [
        "500",
        "500",
        "503",
        "503",
    ]
    assert faults.take("discovery") is None
    faults.set()
    assert faults.take("history") is None
