"""The transport of a server follows from what it says, else from what it has."""

from __future__ import annotations

from typing import Any

import pytest

from plait.client.config.read import read_config
from plait.errors import ConfigError


def transport_from(entry: dict[str, Any]) -> str:
    return read_config({"it": entry}, environ={"URL": "wss://h/"}).servers["it"].transport


@pytest.mark.parametrize("key", ["transport", "type"])
@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("http", "http"),
        ("HTTP", "http"),
        ("streamable_http", "http"),
        ("streamable-http", "http"),
        ("streamableHttp", "http"),
        ("sse", "sse"),
    ],
)
def test_every_spelling_of_an_http_transport_is_known(key: str, spelling: str, name: str) -> None:
    assert transport_from({key: spelling, "url": "https://example.com/mcp"}) == name


@pytest.mark.parametrize("spelling", ["websocket", "ws", "WebSocket"])
def test_every_spelling_of_a_websocket_is_known(spelling: str) -> None:
    assert transport_from({"transport": spelling, "url": "ws://localhost/"}) == "websocket"


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"command": "a"}, "stdio"),
        ({"command": "a", "url": ""}, "stdio"),
        ({"url": "http://localhost:8000/mcp"}, "http"),
        ({"url": "HTTPS://example.com"}, "http"),
        ({"url": "ws://localhost/"}, "websocket"),
        ({"url": "${URL}"}, "websocket"),
        ({"url": "http://[::1]:8000/mcp"}, "http"),
        ({"transport": "sse", "type": "sse", "url": "http://localhost/"}, "sse"),
        ({"transport": None, "url": "http://localhost/"}, "http"),
    ],
)
def test_without_a_word_the_keys_decide(entry: dict[str, Any], name: str) -> None:
    assert transport_from(entry) == name


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"command": "a", "url": "http://localhost/"}, "transport_conflict"),
        ({"type": "stdio", "url": "http://localhost/"}, "transport_conflict"),
        ({"type": "http", "url": "ws://localhost/"}, "transport_conflict"),
        ({"type": "sse", "url": "ws://localhost/"}, "transport_conflict"),
        ({"type": "ws", "url": "http://localhost/"}, "transport_conflict"),
        ({"type": "http", "command": "a"}, "transport_conflict"),
        ({"type": "in-process", "command": "a"}, "transport_conflict"),
        ({"type": "http", "transport": "sse", "url": "http://localhost/"}, "transport_conflict"),
        ({"type": "grpc", "url": "http://localhost/"}, "unknown_value"),
        ({"type": "http"}, "missing_key"),
        ({"type": "stdio"}, "missing_key"),
        ({}, "missing_key"),
        ({"url": "localhost/mcp"}, "bad_url"),
    ],
)
def test_a_contradiction_is_refused(entry: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        transport_from(entry)

    assert [problem.code for problem in caught.value.problems] == [code]
