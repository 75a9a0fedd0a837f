"""What `plait doctor` makes of what it saw."""

from dataclasses import replace
from datetime import UTC, datetime

from inline_snapshot import snapshot

from plait.cli.diagnosis import (
    Examined,
    Finding,
    findings_for,
    findings_from_config_error,
    findings_from_problems,
)
from plait.client.config.servers import HttpServer, StdioServer
from plait.client.connections.status import ServerStatus
from plait.errors import ConfigError, ConnectError, ListTimeoutError, Problem

READY = ServerStatus(
    name="time",
    transport="stdio",
    state="ready",
    since=datetime(2026, 11, 15, tzinfo=UTC),
    protocol_version="2026-07-28",
    server_info={"name": "mcp-time", "version": "1.2"},
    tool_count=2,
    connect_seconds=0.9,
)
CLOCK = StdioServer(command="sh")


def codes(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings]


def test_a_healthy_server_has_only_good_findings() -> None:
    findings = findings_for(Examined(config=CLOCK, status=READY, round_trips=[0.003, 0.9, 0.004]))

    assert [finding.to_dict() for finding in findings] == snapshot(
        [
            {
                "server": "time",
                "level": "ok",
                "code": "ready",
                "message": "connected in 0.90 s, protocol 2026-07-28 (modern)",
                "fix": None,
                "details": (),
            },
            {
                "server": "time",
                "level": "ok",
                "code": "latency",
                "message": "responds in 4 ms (median of 3 round trips)",
                "fix": None,
                "details": (),
            },
        ]
    )
    assert {finding.level for finding in findings} == {"ok"}


def test_a_server_that_cannot_be_reached_is_an_error_with_a_fix() -> None:
    error = ConnectError("web: connection refused", server="web")
    error.__cause__ = ConnectionRefusedError()
    status = replace(
        READY, name="web", transport="http", state="failed", error=error, tool_count=None
    )

    findings = findings_for(
        Examined(config=HttpServer(url="http://localhost:9/mcp"), status=status)
    )

    assert [finding.to_dict() for finding in findings] == snapshot(
        [
            {
                "server": "web",
                "level": "error",
                "code": "refused",
                "message": "web: connection refused",
                "fix": "is the server running at localhost:9? start it, or correct the URL",
                "details": (),
            }
        ]
    )
    assert "error" in {finding.level for finding in findings}


def test_a_server_that_stops_answering_while_it_is_measured_is_an_error() -> None:
    seen = Examined(config=CLOCK, status=READY, error=ListTimeoutError("time: no answer in 30 s"))

    assert codes(findings_for(seen)) == [("error", "list_timeout")]


def test_every_bad_habit_is_a_warning_with_a_fix() -> None:
    status = replace(
        READY,
        protocol_version="2025-11-25",
        connect_seconds=10.2,
        transport="sse",
        tool_count=0,
        noise_lines=3,
        repaired=("tools/list: tool 'x' has no schema", "tools/list: tool 'x' has no schema"),
        stderr_tail=("starting", "listening", ""),
    )

    findings = findings_for(
        Examined(config=HttpServer(url="http://h/mcp"), status=status, round_trips=[2.0])
    )

    assert [(found.level, found.code, found.message, found.fix) for found in findings] == snapshot(
        [
            ("ok", "ready", "connected, protocol 2025-11-25 (legacy)", None),
            (
                "warn",
                "slow_connect",
                "took 10.2 s to connect",
                'skip the probe for the newer protocol: "protocol": "legacy"',
            ),
            (
                "warn",
                "slow_answers",
                "responds in 2.00 s (median of 1 round trip)",
                "every call takes at least this long: check the network and the load of the host",
            ),
            (
                "warn",
                "sse_only",
                "supports only the older SSE transport, detected after a failed attempt",
                'skip that attempt: "type": "sse"',
            ),
            (
                "warn",
                "no_tools",
                "has no tools",
                'check "include" and "exclude", and its version',
            ),
            (
                "warn",
                "stdout_noise",
                "wrote 3 lines to stdout outside the protocol",
                "write logs and banners to stderr: stdout is for the protocol",
            ),
            (
                "warn",
                "repaired",
                "repaired: tools/list: tool 'x' has no schema",
                "update the server, or report it to its authors",
            ),
            ("ok", "stderr", "last on stderr: listening", None),
        ]
    )


def test_tools_that_were_left_out_are_one_finding_with_every_case() -> None:
    notes = tuple(f"tools/list: tool 't{number}' was left out: no name" for number in range(40))
    status = replace(READY, repaired=(*notes, "tools/list: _meta was not an object"))

    left_out, repaired = findings_for(Examined(config=CLOCK, status=status))[1:]

    assert (left_out.level, left_out.code) == ("warn", "left_out")
    assert left_out.message == f"40 tools skipped: {notes[0]} (and 39 more)"
    assert [detail.text for detail in left_out.details] == list(notes)
    assert (repaired.code, repaired.details) == ("repaired", ())


def test_many_notes_of_mending_are_one_finding() -> None:
    notes = tuple(f"tools/call: content[{number}] became text" for number in range(4))

    _, found = findings_for(Examined(config=CLOCK, status=replace(READY, repaired=notes)))

    assert found.message == f"repaired: {notes[0]} (and 3 more)"
    assert [detail.text for detail in found.details] == list(notes)


def test_problems_of_a_configuration_are_put_to_the_server_they_are_about() -> None:
    problems = [
        Problem(
            file="mcp.json",
            path="mcpServers.my.server.argz",
            code="unknown_key",
            message="unknown key",
            suggestion='did you mean "args"?',
        ),
        Problem(file="mcp.json", path="option", code="unknown_key", message="unknown key"),
    ]

    findings = findings_from_problems(problems, "warn", ["my", "my.server", "other"])

    assert [(found.server, found.message, found.fix) for found in findings] == [
        ("my.server", "mcpServers.my.server.argz: unknown key", 'did you mean "args"?'),
        (None, "option: unknown key", None),
    ]


def test_a_configuration_that_cannot_be_read_is_a_finding() -> None:
    findings = findings_from_config_error(ConfigError("no configuration found"))

    assert codes(findings) == [("error", "config")]
