"""A configuration is read from anything a user has at hand."""

from __future__ import annotations

import codecs
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from inline_snapshot import snapshot
from mcp.server import MCPServer, Server

from plait.client.config.read import ClientConfig, read_config
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
    ReconnectPolicy,
    StdioServer,
    Timeouts,
    WebSocketServer,
)
from plait.errors import ConfigError


def problems_of(source: Any, **options: Any) -> list[tuple[str, str, str | None]]:
    with pytest.raises(ConfigError) as caught:
        read_config(source, environ={}, **options)
    return [(found.path, found.code, found.suggestion) for found in caught.value.problems]


def server_from(entry: Mapping[str, object], **environ: str) -> Any:
    return read_config({"it": dict(entry)}, environ=environ).servers["it"]


def test_servers_alone_are_a_configuration() -> None:
    config = read_config({"files": {"command": "npx"}}, environ={})

    assert config == ClientConfig(servers={"files": StdioServer(command="npx")})


@pytest.mark.parametrize("name", ["mcpServers", "mcp_servers", "servers"])
def test_servers_stand_under_any_of_three_names_beside_options(name: str) -> None:
    config = read_config(
        {name: {"files": {"command": "npx"}}, "default_tool_timeout": 30, "cache": True},
        environ={},
    )

    assert list(config.servers) == ["files"]
    assert config.default_tool_timeout == 30.0
    assert config.options == {"cache": True}


def test_what_was_read_is_not_read_again() -> None:
    config = read_config({"files": {"command": "npx"}}, environ={})

    assert read_config(config) is config


def test_a_file_is_found_by_text_and_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"files": {"command": "npx"}}}')

    assert read_config(path, environ={}) == read_config(str(path), environ={})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_file_may_have_comments_trailing_commas_and_a_byte_order_mark(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "mcp.json"
    text = """{
        // the only server
        "mcpServers": { /* here */ "naïve": {"url": "https://example.com//mcp",}, },
    }"""
    path.write_bytes(text.encode(encoding))

    server = read_config(path, environ={}).servers["naïve"]

    assert isinstance(server, HttpServer)
    assert server.url == "https://example.com//mcp"


def test_typed_servers_and_server_objects_stay_what_they_are() -> None:
    typed = WebSocketServer(url="wss://example.com/ws", required=True)
    high, low = MCPServer("high"), Server("low")

    servers = read_config(
        {"typed": typed, "high": high, "low": low, "with options": {"server": high, "timeout": 5}},
        environ={},
    ).servers

    assert servers["typed"] is typed
    assert servers["high"] == InProcessServer(server=high)
    assert isinstance(servers["low"], InProcessServer)
    assert servers["low"].server is low
    assert servers["with options"] == InProcessServer(
        server=high, timeouts=Timeouts(call_seconds=5.0)
    )


def test_a_server_of_sdk_1_is_recognized_without_its_sdk() -> None:
    kind = type("FastMCP", (), {"__module__": "mcp.server.fastmcp.server"})
    server = type("Shop", (kind,), {})()

    assert read_config({"old": server}, environ={}).servers["old"] == InProcessServer(server=server)


def test_every_stdio_key_reaches_its_field() -> None:
    server = server_from(
        {
            "transport": "stdio",
            "command": Path("bin/server"),
            "args": ("-v", Path("x")),
            "env": {"PORT": 8080, "MODE": "fast", "GONE": None},
            "cwd": "sub",
            "inherit_env": ["AWS_*"],
            "encoding": "latin-1",
            "encoding_error_handler": "strict",
            "stderr": "ignore",
            "timeout": 7,
            "connect_timeout": 4,
            "list_timeout": timedelta(minutes=1),
            "read_timeout": 6.5,
            "close_timeout": 2,
            "tool_timeouts": {"slow_*": 120, "quick": None},
            "max_call_seconds": 600,
            "restart": {"enabled": False, "max_attempts": 5, "delay_ms": 250, "jitter": 0},
            "idle_timeout": 60,
            "protocol": "modern",
            "max_concurrency": 4,
            "required": True,
            "include": ["read_*"],
            "exclude": {"read_secret"},
            "output_handling": "artifact",
            "session_kwargs": {"read_timeout_seconds": 3},
            "name": "ignored",
            "alwaysAllow": ["x"],
        }
    )

    assert server == StdioServer(
        command="bin/server",
        args=("-v", "x"),
        env={"PORT": "8080", "MODE": "fast"},
        cwd="sub",
        inherit_env=("AWS_*",),
        encoding="latin-1",
        encoding_error_handler="strict",
        stderr="ignore",
        timeouts=Timeouts(
            connect_seconds=4.0,
            list_seconds=60.0,
            read_seconds=6.5,
            close_seconds=2.0,
            call_seconds=7.0,
            tool_seconds={"slow_*": 120.0},
            longest_call_seconds=600.0,
        ),
        reconnect=ReconnectPolicy(
            enabled=False,
            max_attempts=5,
            first_delay_seconds=0.25,
            longest_delay_seconds=0.25,
            jitter=0.0,
        ),
        idle_seconds=60.0,
        protocol="2026-07-28",
        max_concurrency=4,
        required=True,
        include=("read_*",),
        exclude=("read_secret",),
        output_handling="artifact",
        client_options={"read_timeout_seconds": 3},
    )


def test_every_http_key_reaches_its_field_in_camel_case_too() -> None:
    def factory() -> None: ...

    auth = httpx.BasicAuth("user", "password")
    server = server_from(
        {
            "type": "streamableHttp",
            "url": "https://example.com/mcp",
            "headers": {"X-Tenant": "acme"},
            "authProvider": auth,
            "timeout": 10,
            "sseReadTimeout": 60_000,
            "automaticSSEFallback": False,
            "terminateOnClose": False,
            "maxSseEventSize": 1000,
            "httpxClientFactory": factory,
            "idleTimeout": 0,
            "connectTimeout": 4000,
            "toolTimeouts": {"slow": 90_000},
            "maxCallSeconds": 600,
            "protocolEra": "legacy",
            "reconnect": {"delayMs": 2000, "maxDelay": 30_000},
        }
    )

    assert server == HttpServer(
        url="https://example.com/mcp",
        headers={"X-Tenant": "acme"},
        auth=auth,
        exchange_seconds=10.0,
        stream_read_seconds=60.0,
        automatic_sse_fallback=False,
        terminate_on_close=False,
        max_sse_event_size=1000,
        http_client_factory=factory,
        idle_seconds=None,
        timeouts=Timeouts(
            connect_seconds=4.0, tool_seconds={"slow": 90.0}, longest_call_seconds=600.0
        ),
        protocol="legacy",
        reconnect=ReconnectPolicy(first_delay_seconds=2.0, longest_delay_seconds=30.0),
    )


HTTP = {"url": "http://localhost/"}


@pytest.mark.parametrize(
    ("entry", "field", "value"),
    [
        pytest.param({**HTTP, "headers": dict}, "headers", dict, id="headers may be a function"),
        *(({**HTTP, "idle_timeout": never}, "idle_seconds", None) for never in (0, None, False)),
        ({**HTTP, "idle_timeout": timedelta(0)}, "idle_seconds", None),
        pytest.param(HTTP, "idle_seconds", 300.0, id="idle connections close on HTTP"),
        pytest.param({"command": "a"}, "idle_seconds", None, id="and stay on stdio"),
        ({"command": "a", "default_tool_timeout": 0}, "timeouts", Timeouts()),
        ({"command": "a", "default_tool_timeout": None}, "timeouts", Timeouts()),
        ({"command": "a", "restart": False}, "reconnect", ReconnectPolicy(enabled=False)),
        ({"command": "a", "reconnect": True}, "reconnect", ReconnectPolicy()),
        pytest.param(
            {"command": "a", "restart": {"delay": 90}},
            "reconnect",
            ReconnectPolicy(first_delay_seconds=90.0, longest_delay_seconds=90.0),
            id="a first delay above the longest lifts it",
        ),
        ({"command": "a", "timeout": "${WAIT:-30}"}, "timeouts", Timeouts(call_seconds=30.0)),
        ({"command": "a", "required": "${MUST}"}, "required", True),
        ({"command": "~/bin/a"}, "command", "/home/ann/bin/a"),
        ({"command": "a", "cwd": "~"}, "cwd", "/home/ann"),
    ],
)
def test_what_an_entry_means(entry: dict[str, Any], field: str, value: object) -> None:
    assert getattr(server_from(entry, MUST="true", HOME="/home/ann"), field) == value


@pytest.mark.parametrize("nothing", [0, None])
def test_a_tool_timeout_of_nothing_is_not_set(nothing: object) -> None:
    config = read_config({"servers": {"a": HTTP}, "default_tool_timeout": nothing}, environ={})

    assert config.default_tool_timeout is None


def test_a_working_folder_in_a_file_is_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"a": {"command": "a", "cwd": "sub"}}')

    server = read_config(path, environ={}).servers["a"]

    assert isinstance(server, StdioServer)
    assert server.cwd == str(tmp_path / "sub")


def test_unknown_keys_fail_in_python_and_warn_in_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = {
        "mcpServers": {
            "a": {"command": "a", "conectTimeout": 1000, "headers": {"X": "y"}, "oauth": {}},
            "b": {"url": "http://localhost/", "args": [], "argz": ["x"]},
        },
        "throwOnLoadErrors": True,
        "unheard": 1,
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(source))

    expected = [
        ("throwOnLoadErrors", "unknown_key", 'did you mean "throwOnLoadError"?'),
        ("unheard", "unknown_key", None),
        ("mcpServers.a.conectTimeout", "unknown_key", 'did you mean "connectTimeout"?'),
        ("mcpServers.a.headers", "misplaced_key", "remove it"),
        *(("mcpServers.a.oauth", "unknown_key", None), ("mcpServers.b.argz", "unknown_key", None)),
    ]
    assert problems_of(source) == expected
    with caplog.at_level(logging.WARNING, logger="plait.client.config"):
        config = read_config(path, environ={})
    assert [(one.path, one.code, one.suggestion) for one in config.warnings] == expected
    assert [record.getMessage() for record in caplog.records] == [
        str(warning) for warning in config.warnings
    ]
    assert list(config.servers) == ["a", "b"]


def test_suspicious_values_are_read_with_a_warning() -> None:
    config = read_config(
        {
            "a": {"command": "npx -y some-server --token x", "timeout": 30_000},
            "b": {"command": "b", "connectTimeout": 20, "restart": {"delayMs": 20}},
            "c": {"command": "C:\\Program Files\\c.exe", "timeout": timedelta(days=1)},
        },
        environ={},
    )

    assert [(one.path, one.message, one.suggestion) for one in config.warnings] == snapshot(
        [
            (
                "a.timeout",
                "30000 seconds is more than an hour; milliseconds?",
                "snake_case durations are in seconds: 30",
            ),
            (
                "a.command",
                "looks like a whole command line",
                'write "command": "npx", and the other words into "args"',
            ),
            (
                "b.connectTimeout",
                "20 milliseconds is very short; seconds?",
                "camelCase durations are in milliseconds: 20000",
            ),
        ]
    )


def test_a_key_that_stands_twice_in_a_file_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"a": {"command": "first"}, "a": {"command": "second"}}')

    config = read_config(path, environ={})

    assert [warning.code for warning in config.warnings] == ["duplicate_key"]


def test_all_problems_of_all_servers_are_reported_together() -> None:
    found = problems_of(
        {
            "a": {"command": 1, "args": [2], "connect_timeout": True},
            "b": {"url": "nowhere", "headers": {"X": 3}},
            "c": None,
            "d": MCPServer,
            4: {"command": "e"},
            "f": {"command": "f", "session_kwargs": {5: 6}},
            "g": {"url": "http://localhost/", "auth": httpx.BasicAuth},
        }
    )

    assert found == snapshot(
        [
            ("a.command", "wrong_type", None),
            ("a.args[0]", "wrong_type", "put it in quotes"),
            ("a.connect_timeout", "wrong_type", None),
            ("b.url", "bad_url", "write all of it, such as https://example.com/mcp"),
            ("b.headers.X", "wrong_type", "put it in quotes"),
            ("c", "wrong_type", 'write {"command": …} or {"url": …}'),
            ("d", "wrong_type", 'write {"command": …} or {"url": …}'),
            ("", "bad_name", None),
            ("f.session_kwargs", "wrong_type", None),
            ("g.auth", "wrong_type", "create one: BasicAuth(…)"),
        ]
    )


@pytest.mark.parametrize(
    "source", [None, 7, MCPServer("x"), "", '{"mcpServers": {}}', "https://example.com/mcp"]
)
def test_a_source_of_another_type_is_refused(source: object) -> None:
    assert [code for _, code, _ in problems_of(source)] == ["wrong_type"]


def test_a_missing_file_names_the_ones_that_exist(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").touch()

    assert problems_of(tmp_path / "mpc.json") == [("", "file_missing", "there is mcp.json")]
    assert problems_of(tmp_path) == [
        ("", "file_unreadable", f"did you mean {tmp_path / 'mcp.json'}?")
    ]
    assert problems_of(tmp_path / "sub" / "mcp.json") == [
        ("", "file_missing", f"there is no folder {tmp_path / 'sub'} either")
    ]


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(codecs.BOM_UTF8 + b'{"a": "\xff"}')

    assert problems_of(path) == [("", "file_unreadable", "save it as UTF-8")]


def test_all_servers_may_be_switched_off() -> None:
    config = read_config(
        {"a": {"command": 7, "disabled": True}, "b": {"enabled": False}}, environ={}
    )

    assert config == ClientConfig(servers={}, disabled=("a", "b"))


@pytest.mark.parametrize(
    ("name", "entries"),
    {
        "stdio": [{"command": "a"}, {"command": "a", "url": ""}],
        "http": [
            *(
                {"url": url}
                for url in ("http://localhost:8000/mcp", "HTTPS://h", "http://[::1]:80")
            ),
            {"transport": None, **HTTP},
            *(
                {key: spelling, **HTTP}
                for key in ("transport", "type")
                for spelling in ("http", "HTTP", "streamable_http", "streamable-http")
            ),
            {"type": "streamableHttp", **HTTP},
        ],
        "sse": [{"type": "sse", **HTTP}, {"transport": "sse", "type": "sse", **HTTP}],
        "websocket": [
            *({"url": url} for url in ("ws://localhost/", "${URL}")),
            *({"type": name, "url": "ws://h/"} for name in ("websocket", "ws", "WebSocket")),
        ],
        "in-process": [{"server": MCPServer("e")}],
    }.items(),
)
def test_a_transport_follows_from_what_is_said_else_from_what_is_there(
    name: str, entries: list[dict[str, Any]]
) -> None:
    for entry in entries:
        assert server_from(entry, URL="wss://h/").transport == name, entry


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"type": "sse", "url": "ws://localhost/"}, "transport_conflict"),
        ({"type": "in-process", "command": "a"}, "transport_conflict"),
        *(({"type": "http"}, "missing_key"), ({"type": "stdio"}, "missing_key")),
    ],
)
def test_a_transport_without_what_it_needs_is_refused(entry: dict[str, Any], code: str) -> None:
    assert [found for _, found, _ in problems_of({"it": entry})] == [code]


@pytest.mark.parametrize(
    ("settings", "delays"),
    [
        ({"delayMs": 2000}, [2.0, 2.0, 2.0]),
        ({"delay_ms": 2000, "jitter": 0.5}, [1.0, 1.0, 1.0]),
        ({"delayMs": 2000, "maxDelayMs": 5000, "jitter": 0}, [2.0, 4.0, 5.0]),
        ({"delay": 2, "jitter": 0}, [2.0, 4.0, 8.0]),
    ],
)
def test_a_delay_in_milliseconds_is_fixed_unless_it_has_a_maximum(
    settings: dict[str, Any], delays: list[float]
) -> None:
    server = read_config({"a": {"command": "a", "reconnect": settings}}).servers["a"]
    assert [server.reconnect.delay_seconds(n, lambda: 1.0) for n in range(3)] == delays
