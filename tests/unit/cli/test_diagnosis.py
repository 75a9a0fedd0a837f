"""What `plait doctor` finds: of each server, of their tools together, and of a configuration."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.cli.commands.auth import state_of
from plait.cli.commands.doctor import print_section, print_summary
from plait.cli.diagnosis import (
    MANY_TOKENS,
    MANY_TOOLS,
    Detail,
    Diagnosis,
    Examined,
    Finding,
    Launch,
    _has_started_server,
    diagnose,
    findings_for,
    findings_from_config_error,
    findings_from_problems,
    login_findings,
)
from plait.cli.logins import LoginStatus
from plait.cli.terminal import and_list, share_label, some_of, tokens_label
from plait.client.catalog.tool import Tool
from plait.client.config.read import ClientConfig
from plait.client.config.servers import HttpServer, ServerConfig, StdioServer
from plait.client.connections.status import ServerStatus
from plait.errors import ConfigError, ConnectError, ListTimeoutError, Problem

SINCE = datetime(2026, 11, 15, tzinfo=UTC)
READY = ServerStatus(
    name="time",
    transport="stdio",
    state="ready",
    since=SINCE,
    protocol_version="2026-07-28",
    server_info={"name": "mcp-time", "version": "1.2"},
    tool_count=2,
    connect_seconds=0.9,
)
CLOCK = StdioServer(command="sh")
WEB = HttpServer(url="http://localhost:9/mcp")
FIFTY = [f"tool_{number}" for number in range(50)]

Listed = Mapping[str, Sequence[str | Tool] | None]
"""The tools of each server; `None` for a server that does not answer."""


def tool(server: str, name: str, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties}
    return Tool(server=server, wire_name=name, name=name, input_schema=schema)


def diagnosed(
    listed: Listed,
    *,
    servers: Mapping[str, Mapping[str, Any]] | None = None,
    known: list[str] | None = None,
    disabled: tuple[str, ...] = (),
    **options: Any,
) -> Diagnosis:
    own = servers or {}
    configured: dict[str, ServerConfig] = {
        name: StdioServer(command="sh", **own.get(name, {})) for name in listed
    }
    seen: list[Examined] = []
    for name, tools in listed.items():
        found = tuple(tool(name, one) if isinstance(one, str) else one for one in tools or ())
        error = ConnectError("gone") if tools is None else None
        status = ServerStatus(
            name=name,
            transport="stdio",
            state="failed" if error else "ready",
            since=SINCE,
            tool_count=None if tools is None else len(tools),
            error=error,
        )
        listing = None if tools is None else found
        seen.append(Examined(config=configured[name], status=status, listed=listing))
    config = ClientConfig(servers=configured, disabled=disabled, options=options)
    return diagnose(config, seen, known)


def by_code(diagnosis: Diagnosis, server: str | None = None) -> dict[str, Finding]:
    alone = [*diagnosis.configuration, *diagnosis.together]
    found = alone if server is None else diagnosis.servers[server]
    return {finding.code: finding for finding in found}


def test_two_servers_without_anything_wrong_have_nothing_to_fix() -> None:
    diagnosis = diagnosed({"files": ["read", "write"], "web": ["get"]})

    assert {finding.level for finding in diagnosis.findings} == {"ok"}
    assert [finding.message for finding in diagnosis.together] == snapshot(
        [
            "no tool names conflict",
            (
                "3 tools, about 60 tokens in every request; "
                "largest: files/read 20, files/write 20 and web/get 20"
            ),
        ]
    )
    assert diagnosis.to_dict()["tokens"] == snapshot(
        {
            "tools": 3,
            "tokens": 60,
            "profile": "default",
            "servers": {
                "files": {"tools": 2, "tokens": 40, "backup": False},
                "web": {"tools": 1, "tokens": 20, "backup": False},
            },
            "largest": [
                {"server": "files", "tool": "read", "tokens": 20},
                {"server": "files", "tool": "write", "tokens": 20},
                {"server": "web", "tool": "get", "tokens": 20},
            ],
        }
    )
    nothing = {"ok": True, "servers": [], "tokens": None, "findings": []}
    assert Diagnosis().to_dict() == nothing


LONG = tool("a", "long", x={"type": "string", "description": "x" * MANY_TOKENS * 4})
NEEDY = Tool(
    server="a",
    wire_name="get",
    name="get",
    input_schema={"type": "object", "properties": {"x": {}}, "required": ["x"]},
)


@pytest.mark.parametrize(
    ("listed", "options", "server", "code", "level", "message", "fix"),
    [
        pytest.param(
            {"a": ["get", "put"], "b": ["get"]},
            {},
            None,
            *("collision", "warn"),
            "a and b both have a tool get: they become a__get and b__get",
            "prefix_tool_name_with_server_name",
            id="a name on two servers",
        ),
        pytest.param(
            {"a": FIFTY, "b": FIFTY},
            {},
            None,
            *("collision", "warn"),
            "a and b share 50 tool names, such as tool_0: they become a__tool_0 and b__tool_0",
            "prefix",
            id="servers that share many names are one finding",
        ),
        pytest.param(
            {"a": ["get"], "b": ["get"]},
            {"on_collision": "error"},
            None,
            *("collision", "error", '"on_collision" forbids that', "prefix"),
            id="a collision that the client refuses",
        ),
        pytest.param(
            {"a": ["x.y", "x_y"]},
            {},
            None,
            *("collision", "warn"),
            "a has several tools with the name x_y: they become",
            "rename one",
            id="one server can collide with itself",
        ),
        pytest.param(
            {"a": ["admin.users.list", "fine", "x" * 70]},
            {},
            None,
            *("renamed", "ok"),
            "2 names changed for models: admin.users.list → admin_",
            None,
            id="names that no model takes",
        ),
        pytest.param(
            {"small": ["one"], "large": [f"tool_{one}" for one in range(MANY_TOOLS)]},
            {},
            None,
            *("many_tokens", "warn", "61 tools", "start with large: 60 tools"),
            id="many tools name the largest server",
        ),
        pytest.param(
            {"a": [LONG]},
            {},
            None,
            *("many_tokens", "warn", "1 tool, about 20,0", "offer fewer"),
            id="many tokens, however few the tools",
        ),
        pytest.param(
            {"a": FIFTY},
            {"servers": {"a": {"include": ("tool_1", "tool_2")}}},
            "a",
            *("tokens", "ok", "offers 2 of 50 tools, ", None),
            id="only what is offered is counted",
        ),
        pytest.param(
            {"a": ["x", "y"]},
            {"exclude": ("*",)},
            "a",
            *("none_offered", "warn", "none of its 2 tools", 'check "include"'),
            id="filters that leave nothing",
        ),
        pytest.param(
            {"a": ["get"], "b": ["get"]},
            {"fallbacks": {"a": "b"}},
            "b",
            *("tokens", "ok", ", only as a backup", None),
            id="a backup costs nothing until it is needed",
        ),
        pytest.param(
            {"a": ["get", "put"], "b": ["get"]},
            {"fallbacks": {"a": "b"}},
            None,
            *("fallback_gap", "warn"),
            '"fallbacks": b lacks 1 of 2 tools of a: put',
            "use a backup",
            id="a backup that lacks tools",
        ),
        pytest.param(
            {"a": ["get"]},
            {"tool_overrides": {"get": {"arguments": {"x": {"description": "none"}}}}},
            "a",
            *("override_problem", "warn"),
            'a/get: the override is for an argument "x"',
            "tool_overrides",
            id="an override of an argument that is not there",
        ),
        pytest.param(
            {"a": [NEEDY]},
            {"tool_overrides": {"get": {"arguments": {"x": False}}}},
            "a",
            *("config", "error", "", None),
            id="an override that cannot be applied",
        ),
        pytest.param(
            {"a": ["read_file"]},
            {"servers": {"a": {"include": ("read_fil", "re:x", "*"), "exclude": ("@x",)}}},
            "a",
            *("unknown_include", "warn", "read_fil", 'did you mean "read_file"?'),
            id="a name in a filter of a server that no tool has",
        ),
    ],
)
def test_each_fault_is_a_finding(
    listed: Listed,
    options: dict[str, Any],
    server: str | None,
    code: str,
    level: str,
    message: str,
    fix: str | None,
) -> None:
    found = by_code(diagnosed(listed, **options), server)[code]

    assert found.level == level
    assert message in found.message
    assert (fix or "") in (found.fix or "")


@pytest.mark.parametrize(
    ("listed", "options", "code", "details"),
    [
        (
            {"a": ["get", "put"], "b": ["get"]},
            {},
            "collision",
            [("a/get", "a__get"), ("b/get", "b__get")],
        ),
        (
            {"a": ["get"], "b": ["get"]},
            {"on_collision": "error"},
            "collision",
            [("a/get", None), ("b/get", None)],
        ),
        ({"a": ["x.y"]}, {}, "renamed", [("a/x.y", "x_y")]),
        (
            {"a": ["get", "put"], "b": ["get"]},
            {"fallbacks": {"a": "b"}},
            "fallback_gap",
            [("a/put", None)],
        ),
    ],
)
def test_every_case_of_a_finding_is_a_detail(
    listed: Listed, options: dict[str, Any], code: str, details: list[object]
) -> None:
    found = by_code(diagnosed(listed, **options))[code]

    assert [(one.tool, one.name) for one in found.details] == details


@pytest.mark.parametrize(
    ("listed", "options", "codes"),
    [
        (
            {"a": ["get"], "b": ["get"]},
            {"prefix_tool_name_with_server_name": True},
            {"names", "total_tokens"},
        ),
        ({"a": ["x.y"]}, {"tool_overrides": {"x.y": {"name": "xy"}}}, {"total_tokens"}),
        ({"a": ["x", "y"]}, {"exclude": ("*",)}, set()),
        ({"a": ["get"]}, {"known": ["a", "b"], "fallbacks": {"a": "b"}}, {"total_tokens"}),
        ({"a": None}, {}, set()),
    ],
    ids=["prefixes", "a name of the user", "no tools", "a backup not examined", "no answer"],
)
def test_what_is_no_fault_is_no_finding(
    listed: Listed, options: dict[str, Any], codes: set[str]
) -> None:
    assert set(by_code(diagnosed(listed, **options))) == codes


def test_names_in_filters_and_fallbacks_that_nothing_has_are_named_where_they_stand() -> None:
    diagnosis = diagnosed(
        {"files": ["read_file"], "b": ["get"]},
        disabled=("off",),
        include=("gett", "c/get"),
        exclude=("b/gett",),
        tool_overrides={"gte": "Gets.", "files/put": "Puts."},
        fallbacks={"flies": "b", "files": "off", "b": "b"},
    )

    found = [(one.level, one.message, one.fix) for one in diagnosis.configuration]
    unknown = "names {}, but there is no such tool"
    assert found[:3] == [
        ("warn", f'"include" {unknown.format("gett")}', 'did you mean "get"?'),
        (
            "warn",
            f'"include" {unknown.format("c/get")}',
            "there is no server c: correct or remove it",
        ),
        ("warn", f'"exclude" {unknown.format("b/gett")}', 'did you mean "b/get"?'),
    ]
    assert [one[1] for one in found[3:5]] == [
        f'"tool_overrides" {unknown.format(name)}' for name in ("gte", "files/put")
    ]
    assert found[5:] == [
        ("error", '"fallbacks": there is no server flies', 'did you mean "files"?'),
        ("error", '"fallbacks": the server off is disabled', "enable or remove it"),
        ("error", '"fallbacks": b cannot be its own fallback', "name another server"),
    ]


@pytest.mark.parametrize(
    ("listed", "known"), [({"a": ["get"], "b": None}, None), ({"a": ["get"]}, ["a", "b"])]
)
def test_nothing_is_called_unknown_while_a_server_may_still_have_it(
    listed: Listed, known: list[str] | None
) -> None:
    overrides = {"read": "Reads.", "b/read": "Reads.", "a/get": "Gets."}

    diagnosis = diagnosed(
        listed,
        known=known,
        include=("get", "read"),
        exclude=("write",),
        tool_overrides=overrides,
    )

    assert diagnosis.configuration == []


def test_an_option_that_a_client_refuses_is_an_error_and_the_rest_is_still_checked() -> None:
    diagnosis = diagnosed(
        {"a": ["get"], "b": ["get"]},
        servers={"b": {"include": ("re:(",)}},
        include=("re:(",),
        cache="sometimes",
    )

    assert [one.level for one in diagnosis.configuration] == ["error", "error"]
    assert by_code(diagnosis, "b")["config"].level == "error"
    assert "collision" in by_code(diagnosis)


def test_the_tokens_are_those_of_the_profile_that_the_client_sets() -> None:
    plain = diagnosed({"a": ["get"]}).cost
    strict = diagnosed({"a": ["get"]}, profile="openai_strict").cost

    assert plain is not None
    assert strict is not None
    profiles = [one.to_dict()["profile"] for one in (plain, strict)]
    assert profiles == ["default", "openai_strict"]
    assert strict.tokens > plain.tokens


def facts(findings: Sequence[Finding]) -> list[tuple[str, str, str, str | None]]:
    return [(one.level, one.code, one.message, one.fix) for one in findings]


def test_a_healthy_server_has_only_good_findings() -> None:
    findings = findings_for(Examined(config=CLOCK, status=READY, round_trips=[0.003, 0.9, 0.004]))

    assert facts(findings) == [
        ("ok", "ready", "connected in 0.90 s, protocol 2026-07-28 (modern)", None),
        ("ok", "latency", "responds in 4 ms (median of 3 round trips)", None),
    ]
    assert findings[0].to_dict() == {
        "server": "time",
        "level": "ok",
        "code": "ready",
        "message": findings[0].message,
        "fix": None,
        "details": (),
    }


def test_a_server_that_cannot_be_reached_or_stops_answering_is_an_error_with_a_fix() -> None:
    error = ConnectError("web: connection refused", server="web")
    error.__cause__ = ConnectionRefusedError()
    down = replace(READY, name="web", transport="http", state="failed", error=error)
    silent = Examined(config=CLOCK, status=READY, error=ListTimeoutError("time: no answer"))

    running = "is the server running at localhost:9? start it, or correct the URL"
    assert facts(findings_for(Examined(config=WEB, status=down))) == [
        ("error", "refused", "web: connection refused", running)
    ]
    assert [one[:2] for one in facts(findings_for(silent))] == [("error", "list_timeout")]


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

    ready, *habits, stderr = facts(
        findings_for(Examined(config=WEB, status=status, round_trips=[2.0]))
    )

    assert ready == ("ok", "ready", "connected, protocol 2025-11-25 (legacy)", None)
    assert {one[0] for one in habits} == {"warn"}
    assert [one[1:] for one in habits] == snapshot(
        [
            (
                "slow_connect",
                "took 10.2 s to connect",
                'skip the probe for the newer protocol: "protocol": "legacy"',
            ),
            (
                "slow_answers",
                "responds in 2.00 s (median of 1 round trip)",
                "every call takes at least this long: check the network and the load of the host",
            ),
            (
                "sse_only",
                "supports only the older SSE transport, detected after a failed attempt",
                'skip that attempt: "type": "sse"',
            ),
            ("no_tools", "has no tools", 'check "include" and "exclude", and its version'),
            (
                "stdout_noise",
                "wrote 3 lines to stdout outside the protocol",
                "write logs and banners to stderr: stdout is for the protocol",
            ),
            (
                "repaired",
                "repaired: tools/list: tool 'x' has no schema",
                "update the server, or report it to its authors",
            ),
        ]
    )
    assert stderr == ("ok", "stderr", "last on stderr: listening", None)


def test_many_notes_of_one_kind_are_one_finding_with_every_case() -> None:
    lost = tuple(f"tools/list: tool 't{number}' was left out: no name" for number in range(40))
    mended = tuple(f"tools/call: content[{number}] became text" for number in range(4))
    one = "tools/list: _meta was not an object"

    def found(*notes: str) -> list[Finding]:
        return findings_for(Examined(config=CLOCK, status=replace(READY, repaired=notes)))[1:]

    left_out, repaired = found(*lost, one)
    assert left_out.code == "left_out"
    assert left_out.message == f"40 tools skipped: {lost[0]} (and 39 more)"
    assert [detail.text for detail in left_out.details] == list(lost)
    assert (repaired.code, repaired.details) == ("repaired", ())
    (repaired,) = found(*mended)
    assert repaired.message == f"repaired: {mended[0]} (and 3 more)"
    assert [detail.text for detail in repaired.details] == list(mended)


def test_problems_of_a_configuration_are_findings_about_their_server() -> None:
    guess = 'did you mean "args"?'
    problems = [
        Problem(file="mcp.json", path=path, code="x", message="unknown key", suggestion=fix)
        for path, fix in (("mcpServers.my.server.argz", guess), ("option", None))
    ]

    findings = findings_from_problems(problems, "warn", ["my", "my.server", "other"])

    assert [(found.server, found.message, found.fix) for found in findings] == [
        ("my.server", "mcpServers.my.server.argz: unknown key", guess),
        (None, "option: unknown key", None),
    ]
    (whole,) = findings_from_config_error(ConfigError("no configuration found"))
    assert (whole.level, whole.code) == ("error", "config")


@pytest.mark.parametrize(
    ("samples", "started"),
    [
        ([(1, False), (2, False)], None),
        ([(1, False), (2, True), (3, True)], 2),
        # A helper that ends at once is not the server.
        ([(1, True), (1.1, False), (6, True), (7, True)], 6),
        ([(1, True), (1.5, False), (4, False)], None),
        # The server ends before its launcher, when both are stopped.
        ([(1, True), (2.5, True), (20, False)], 1),
    ],
)
def test_the_server_is_started_once_a_child_stays(
    samples: list[tuple[float, bool]], started: float | None
) -> None:
    launch = Launch("npx")
    for seconds, has_server in samples:
        launch.watched_seconds = seconds
        launch._note(has_server)

    assert launch.started_seconds == started


def test_only_launchers_are_watched() -> None:
    commands = ("/usr/bin/npx", "uvx.exe", "python")
    servers = [*(StdioServer(command=one) for one in commands), WEB]

    assert [Launch.for_server(one) is None for one in servers] == [False, False, True, True]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are read from /proc")
def test_a_script_that_starts_the_real_launcher_has_not_started_the_server(tmp_path: Path) -> None:
    shim, real, downloading = tmp_path / "npx", tmp_path / "npx-cli.sh", tmp_path / "downloading"
    shim.write_text(f"sh {real}; true")
    real.write_text(f"touch {downloading}; read downloaded; cat; true")
    with subprocess.Popen(["sh", shim], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        while not downloading.exists():
            time.sleep(0.01)
        assert not _has_started_server(process.pid)
        process.stdin.write(b"downloaded\n")
        process.stdin.flush()
        until = time.monotonic() + 30
        while not _has_started_server(process.pid):
            assert time.monotonic() < until
            time.sleep(0.01)
        process.stdin.close()


NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("left", "login", "level", "code", "state"),
    [
        (None, {"signed_in": False}, "error", "not_signed_in", "not signed in"),
        (None, {}, "ok", "signed_in", "signed in"),
        (-1, {}, "error", "login_over", "expired"),
        (-1, {"renewable": True}, "ok", "signed_in", "renewed on next use"),
        (600, {}, "warn", "login_ends", "signed in for 10 min"),
        (600, {"renewable": True}, "ok", "signed_in", "signed in, renewed in 10 min"),
        (86400, {}, "ok", "signed_in", "signed in for 24 h"),
        (None, {"grant": "client_credentials"}, None, None, "client credentials"),
    ],
)
def test_a_login_is_judged_by_what_a_person_must_do(
    left: float | None, login: dict[str, Any], level: str | None, code: str | None, state: str
) -> None:
    known: dict[str, Any] = {
        "signed_in": True,
        "grant": "authorization_code",
        "renewable": False,
        **login,
    }
    expires = None if left is None else NOW + left
    status = LoginStatus(server="shop", user=None, scopes=("read",), expires_at=expires, **known)

    found = [(one.level, one.code, one.fix) for one in login_findings(status, NOW)]

    fix = None if level == "ok" else "plait auth login shop"
    assert found == ([] if level is None else [(level, code, fix)])
    assert state_of(status, NOW) == state


CASES = tuple(
    Detail(tool=f"shop/{name}", text="x: maxLength moved", profiles=("openai_strict", "gemini"))
    for name in ("add", "pay")
)
LIMITS = "limits described in words for openai_strict: 2 tools, such as add"
FINDINGS = [
    Finding("shop", "ok", "ready", "shop: connected"),
    Finding("shop", "ok", "schema_limits", LIMITS, None, CASES),
    Finding("shop", "warn", "repaired", "repaired: \x1b[2J", "update the shop"),
    Finding("shop", "error", "refused", "refused"),
]


def test_findings_have_marks_and_wrap_under_their_own_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    print_section("shop", "stdio", FINDINGS, verbose=False, stderr=["hello"])
    assert capsys.readouterr().out.splitlines() == [
        "shop  stdio",
        "  ✓ connected",
        "  · limits described in words for",
        "    openai_strict: 2 tools, such as add",
        "  ! repaired: \\x1b[2J",
        "      fix: update the shop",
        "  ✗ refused",
        "    | hello",
        "",
    ]
    monkeypatch.setenv("COLUMNS", "100")
    print_section("shop", "stdio", FINDINGS, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    for name in ("add", "pay"):
        assert f"      shop/{name}: x: maxLength moved (openai_strict, gemini)" in lines


def test_the_summary_counts_what_there_is_to_fix(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary([], FINDINGS)
    print_summary([], FINDINGS[:2])

    assert capsys.readouterr().out.splitlines() == ["1 error, 1 warning", "nothing to fix"]


def test_lists_and_numbers_are_written_for_people() -> None:
    assert [and_list(list(words)) for words in ("", "a", "abc")] == ["", "a", "a, b and c"]
    assert [some_of(list(words)) for words in ("abc", "abcde")] == [
        "a, b and c",
        "a, b, c and 2 more",
    ]
    assert (tokens_label(1), tokens_label(20_000)) == ("about 1 token", "about 20,000 tokens")
    assert (share_label(2, 2, "tool"), share_label(1, 3, "tool")) == ("2 tools", "1 of 3 tools")
