"""Each cause of a failure has its own advice, in a short block: what happened, and what to do."""

import socket
import ssl
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from plait.cli.advice import (
    Advice,
    Block,
    address_of,
    advice_for,
    block_for,
    causes_of,
    command_fix,
    target_of,
)
from plait.client.config.servers import HttpServer, InProcessServer, ServerConfig, StdioServer
from plait.errors import (
    AuthRequiredError,
    CallTimeoutError,
    ConfigError,
    ConnectError,
    ConnectTimeoutError,
    EndpointNotFoundError,
    OutcomeUnknownError,
    PlaitError,
    Problem,
    RateLimitedError,
    ToolNotFoundError,
)

WEB = HttpServer(url="http://user:hunter2@localhost:8080/api?key=hunter2")
SHELL = StdioServer(command="sh", args=["-c", "echo $0", "--token", "hunter2!"])
NPX = StdioServer(command="npx", args=["-y", "thing"], env={"PATH": "/nowhere"})
AUTH = (
    'set the Authorization header: "headers": {"Authorization": "Bearer ${TOKEN}"}, '
    'or sign in: "auth": "oauth"'
)
RUNNING = "is the server running at localhost:8080? start it, or correct the URL"
LATE = 'run its command in a terminal to see why, or raise "connect_timeout"'
START = "run it in a terminal to see why: sh -c 'echo $0' --token ***"
NO_FOLDER = 'create the folder, or correct "cwd": /no/such/folder'


def caused_by(cause: BaseException) -> PlaitError:
    error = ConnectError("web: cannot connect", server="web")
    error.__cause__ = ExceptionGroup("unhandled", [RuntimeError("x"), OSError("y")])
    error.__cause__.exceptions[1].__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "server", "code", "fix"),
    [
        (caused_by(ConnectionRefusedError()), WEB, "refused", RUNNING),
        (caused_by(socket.gaierror()), WEB, "unknown_host", "check the host name in the URL"),
        (
            caused_by(ssl.SSLCertVerificationError()),
            WEB,
            "certificate",
            "its certificate is not trusted: set SSL_CERT_FILE",
        ),
        (
            EndpointNotFoundError("404", status=404),
            WEB,
            "endpoint_not_found",
            "check the path of the URL (try /mcp or /sse)",
        ),
        (
            EndpointNotFoundError("404", status=404),
            HttpServer(url="http://localhost/mcp/"),
            "endpoint_not_found",
            "check the path of the URL (try /sse)",
        ),
        (AuthRequiredError("401", status=401), WEB, "auth_required", AUTH),
        (
            RateLimitedError("429", retry_after=30),
            WEB,
            "rate_limited",
            "wait 30 s, then try again",
        ),
        (CallTimeoutError("slow"), None, "call_timeout", "wait longer with --timeout SECONDS"),
        (
            OutcomeUnknownError("lost"),
            None,
            "outcome_unknown",
            "check whether it ran before repeating it",
        ),
        (
            ToolNotFoundError("no", server="time"),
            None,
            "tool_not_found",
            "list them: plait tools time",
        ),
        (
            ConnectError("x"),
            NPX,
            "command_not_found",
            "install Node.js (it brings npx), or give its full path",
        ),
        (
            ConnectError("x"),
            StdioServer(command="sh", cwd="/no/such/folder"),
            "no_such_folder",
            NO_FOLDER,
        ),
        (ConnectError("x"), SHELL, "start_failed", START),
        (ConnectTimeoutError("x"), StdioServer(command="sh"), "connect_timeout", LATE),
        (PlaitError("x"), None, "other", None),
    ],
)
def test_a_cause_has_its_advice(
    error: PlaitError, server: ServerConfig | None, code: str, fix: str | None
) -> None:
    assert advice_for(error, server) == Advice(code, fix)


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


@pytest.mark.parametrize(
    ("server", "target", "address"),
    [
        (
            StdioServer(
                command="npx",
                args=["-y", "some server", "--api-key", "hunter2hunter2", "--token=hunter3hunter3"],
                env={"API_TOKEN": "hunter4hunter4"},
            ),
            "npx -y 'some server' --api-key *** --token=***",
            None,
        ),
        (
            HttpServer(url="https://user:hunter2@example.com/mcp?key=hunter2#x"),
            "https://example.com/mcp",
            "example.com:443",
        ),
        (InProcessServer(server=MCPServer("x")), "in this process", None),
    ],
    ids=["a command line can be pasted", "a URL", "a server object"],
)
def test_a_server_is_named_without_its_secrets(
    server: ServerConfig, target: str, address: str | None
) -> None:
    assert (target_of(server), address_of(server)) == (target, address)


def problems(*paths: str, other: str = "mcp.json") -> ConfigError:
    return ConfigError.from_problems(
        Problem(
            file=other if path == "b" else "mcp.json",
            path=path,
            code="bad",
            message="is wrong",
            suggestion=None if path == "b" else "write it well",
        )
        for path in paths
    )


@pytest.mark.parametrize(
    ("error", "block"),
    [
        (problems("a.url"), Block("mcp.json: a.url: is wrong", (), "write it well")),
        (
            problems("a", "b"),
            Block(
                "2 problems in mcp.json", ("a: is wrong", "    fix: write it well", "b: is wrong")
            ),
        ),
        (
            problems("a", "b", other="other.json"),
            Block(
                "2 problems in the configuration",
                ("mcp.json: a: is wrong", "    fix: write it well", "other.json: b: is wrong"),
            ),
        ),
        (
            ToolNotFoundError("time has no tool 'x'", server="time"),
            Block("time has no tool 'x'", (), "list them: plait tools time"),
        ),
        (PermissionError(13, "Permission denied", "out"), Block("out: Permission denied")),
        (
            KeyError("x"),
            Block("internal error: KeyError: 'x'", hint="-v shows the traceback"),
        ),
        (ConnectError("one\ntwo"), Block("one", ("two",))),
    ],
    ids=["one problem", "several", "of several files", "advice", "a file", "a defect", "lines"],
)
def test_an_error_is_a_short_block(error: Exception, block: Block) -> None:
    assert block_for(error) == block
