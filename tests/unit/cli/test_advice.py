"""Each cause of a failure has its own advice."""

import socket
import ssl
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from plait.cli.advice import Advice, address_of, advice_for, causes_of, command_fix, target_of
from plait.client.config.servers import HttpServer, InProcessServer, ServerConfig, StdioServer
from plait.errors import (
    AuthRequiredError,
    CallTimeoutError,
    ConnectError,
    ConnectTimeoutError,
    EndpointNotFoundError,
    OutcomeUnknownError,
    PlaitError,
    RateLimitedError,
    ToolNotFoundError,
)

WEB = HttpServer(url="http://user:hunter2@localhost:8080/api?key=hunter2")


def caused_by(cause: BaseException) -> PlaitError:
    error = ConnectError("web: cannot connect", server="web")
    error.__cause__ = ExceptionGroup("unhandled", [RuntimeError("x"), OSError("y")])
    error.__cause__.exceptions[1].__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "server", "expected"),
    [
        (
            caused_by(ConnectionRefusedError()),
            WEB,
            Advice(
                "refused", "is the server running at localhost:8080? start it, or correct the URL"
            ),
        ),
        (
            caused_by(socket.gaierror()),
            WEB,
            Advice("unknown_host", "check the host name in the URL"),
        ),
        (
            caused_by(ssl.SSLCertVerificationError()),
            WEB,
            Advice("certificate", "its certificate is not trusted: set SSL_CERT_FILE"),
        ),
        (
            EndpointNotFoundError("404", status=404),
            WEB,
            Advice("endpoint_not_found", "check the path of the URL (try /mcp or /sse)"),
        ),
        (
            EndpointNotFoundError("404", status=404),
            HttpServer(url="http://localhost/mcp/"),
            Advice("endpoint_not_found", "check the path of the URL (try /sse)"),
        ),
        (
            AuthRequiredError("401", status=401),
            WEB,
            Advice(
                "auth_required",
                'set the Authorization header: "headers": {"Authorization": "Bearer ${TOKEN}"}, '
                'or sign in: "auth": "oauth"',
            ),
        ),
        (
            RateLimitedError("429", retry_after=30),
            WEB,
            Advice("rate_limited", "wait 30 s, then try again"),
        ),
        (
            CallTimeoutError("slow"),
            None,
            Advice("call_timeout", "wait longer with --timeout SECONDS"),
        ),
        (
            OutcomeUnknownError("lost"),
            None,
            Advice("outcome_unknown", "check whether it ran before repeating it"),
        ),
        (
            ToolNotFoundError("no", server="time"),
            None,
            Advice("tool_not_found", "list them: plait tools time"),
        ),
        (
            ConnectError("x"),
            StdioServer(command="npx", args=["-y", "thing"], env={"PATH": "/nowhere"}),
            Advice("command_not_found", "install Node.js (it brings npx), or give its full path"),
        ),
        (
            ConnectError("x"),
            StdioServer(command="sh", cwd="/no/such/folder"),
            Advice("no_such_folder", 'create the folder, or correct "cwd": /no/such/folder'),
        ),
        (
            ConnectError("x"),
            StdioServer(command="sh", args=["-c", "echo $0", "--token", "hunter2!"]),
            Advice("start_failed", "run it in a terminal to see why: sh -c 'echo $0' --token ***"),
        ),
        (
            ConnectTimeoutError("x"),
            StdioServer(command="sh"),
            Advice(
                "connect_timeout",
                'run its command in a terminal to see why, or raise "connect_timeout"',
            ),
        ),
        (PlaitError("x"), None, Advice("other")),
    ],
)
def test_a_cause_has_its_advice(
    error: PlaitError, server: ServerConfig | None, expected: Advice
) -> None:
    assert advice_for(error, server) == expected


def test_a_file_that_may_not_be_run_is_named(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\n")
    error = ConnectError("x")
    error.__cause__ = PermissionError()

    advice = advice_for(error, StdioServer(command=str(program)))

    assert advice == Advice("not_executable", f"make it executable: chmod +x {program}")


def test_the_way_to_get_a_program_depends_on_the_program() -> None:
    assert command_fix("uvx") == "install uv (it brings uvx), or give its full path"
    assert command_fix("my-server") == "install it, or give its full path"
    assert command_fix("/opt/my-server") == "check the path: there is no such file"


def test_causes_that_go_round_in_circles_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    assert list(causes_of(first)) == [first, second]


def test_a_command_line_can_be_pasted_and_holds_no_secret() -> None:
    server = StdioServer(
        command="npx",
        args=["-y", "some server", "--api-key", "hunter2hunter2", "--token=hunter3hunter3"],
        env={"API_TOKEN": "hunter4hunter4"},
    )

    assert target_of(server) == "npx -y 'some server' --api-key *** --token=***"


def test_a_url_holds_no_credentials() -> None:
    server = HttpServer(url="https://user:hunter2@example.com/mcp?key=hunter2#x")

    assert target_of(server) == "https://example.com/mcp"
    assert address_of(server) == "example.com:443"


def test_a_server_object_is_in_this_process() -> None:
    server = InProcessServer(server=MCPServer("x"))

    assert target_of(server) == "in this process"
    assert address_of(server) is None
