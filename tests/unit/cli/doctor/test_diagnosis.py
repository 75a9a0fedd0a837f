"""What `plait doctor` makes of a whole configuration: names, tokens and options."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from inline_snapshot import snapshot

from plait.cli.diagnosis import (
    MANY_TOKENS,
    MANY_TOOLS,
    Cost,
    Diagnosis,
    Examined,
    Finding,
    diagnose,
)
from plait.client.catalog.tool import Tool
from plait.client.config.read import ClientConfig
from plait.client.config.servers import ServerConfig, StdioServer
from plait.client.connections.status import ServerStatus
from plait.errors import ConnectError

Listed = dict[str, list[str] | None]
"""The names of each server's tools; `None` for a server that does not answer."""


def tool(server: str, name: str, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties}
    return Tool(server=server, wire_name=name, name=name, input_schema=schema)


def examined(name: str, config: ServerConfig, tools: Sequence[Tool] | None) -> Examined:
    status = ServerStatus(
        name=name,
        transport="stdio",
        state="failed" if tools is None else "ready",
        since=datetime(2026, 11, 15, tzinfo=UTC),
        tool_count=None if tools is None else len(tools),
        error=ConnectError("gone") if tools is None else None,
    )
    listed = None if tools is None else tuple(tools)
    return Examined(config=config, status=status, listed=listed)


def cost_in(diagnosis: Diagnosis) -> Cost:
    assert diagnosis.cost is not None
    return diagnosis.cost


def diagnosed(
    listed: Listed,
    *,
    servers: dict[str, dict[str, Any]] | None = None,
    known: list[str] | None = None,
    disabled: tuple[str, ...] = (),
    **options: Any,
) -> Diagnosis:
    own = servers or {}
    config = ClientConfig(
        servers={name: StdioServer(command="sh", **own.get(name, {})) for name in listed},
        disabled=disabled,
        options=options,
    )
    seen = [
        examined(
            name,
            config.servers[name],
            None if names is None else [tool(name, one) for one in names],
        )
        for name, names in listed.items()
    ]
    return diagnose(config, seen, known)


def by_code(findings: Any) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings}


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
    assert cost_in(diagnosis).to_dict() == snapshot(
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


def test_a_name_on_two_servers_is_a_warning_with_the_names_they_get() -> None:
    collision = by_code(diagnosed({"a": ["get", "put"], "b": ["get"]}).together)["collision"]

    assert collision.level == "warn"
    assert collision.message == "a and b both have a tool get: they become a__get and b__get"
    assert "prefix_tool_name_with_server_name" in (collision.fix or "")
    assert [(one.tool, one.name) for one in collision.details] == [
        ("a/get", "a__get"),
        ("b/get", "b__get"),
    ]


def test_servers_that_share_many_names_are_one_finding() -> None:
    names = [f"tool_{number}" for number in range(50)]

    diagnosis = diagnosed({"a": names, "b": names})

    collisions = [one for one in diagnosis.together if one.code == "collision"]
    assert [one.message for one in collisions] == [
        "a and b share 50 tool names, such as tool_0: they become a__tool_0 and b__tool_0"
    ]
    assert len(collisions[0].details) == 100


def test_a_collision_that_the_client_refuses_is_an_error() -> None:
    diagnosis = diagnosed({"a": ["get"], "b": ["get"]}, on_collision="error")

    collision = by_code(diagnosis.together)["collision"]
    assert (collision.level, collision.server) == ("error", None)
    assert [one.name for one in collision.details] == [None, None]


def test_with_prefixes_nothing_collides() -> None:
    diagnosis = diagnosed({"a": ["get"], "b": ["get"]}, prefix_tool_name_with_server_name=True)

    assert [one.code for one in diagnosis.together] == ["names", "total_tokens"]


def test_one_server_can_collide_with_itself() -> None:
    collision = by_code(diagnosed({"a": ["x.y", "x_y"]}).together)["collision"]

    assert collision.message.startswith("a has several tools with the name x_y: they become")
    assert len({one.name for one in collision.details}) == 2


def test_names_that_no_model_takes_are_shown_with_what_they_become() -> None:
    diagnosis = diagnosed({"a": ["admin.users.list", "fine", "x" * 70]})

    renamed = by_code(diagnosis.together)["renamed"]
    assert renamed.level == "ok"
    assert renamed.message.startswith("2 names changed for models: admin.users.list → admin_")
    assert renamed.details[0].name == "admin_users_list"
    assert len(renamed.details[1].name or "") == 64


def test_a_name_of_the_users_own_is_not_called_changed() -> None:
    diagnosis = diagnosed({"a": ["x.y"]}, tool_overrides={"x.y": {"name": "xy"}})

    assert "renamed" not in by_code(diagnosis.together)


def test_many_tools_are_a_warning_that_names_the_largest_server() -> None:
    diagnosis = diagnosed(
        {"small": ["one"], "large": [f"tool_{number}" for number in range(MANY_TOOLS)]}
    )

    many = by_code(diagnosis.together)["many_tokens"]
    assert many.level == "warn"
    assert "start with large: 60 tools" in (many.fix or "")


def test_many_tokens_are_a_warning_too_however_few_the_tools() -> None:
    config = ClientConfig(servers={"a": StdioServer(command="sh")})
    long = tool("a", "long", x={"type": "string", "description": "x" * MANY_TOKENS * 4})

    diagnosis = diagnose(config, [examined("a", config.servers["a"], [long])])

    assert by_code(diagnosis.together)["many_tokens"].message.startswith("1 tool, about 20,0")


def test_only_what_is_offered_is_counted() -> None:
    everything = [f"tool_{number}" for number in range(100)]

    diagnosis = diagnosed({"a": everything}, servers={"a": {"include": ("tool_1", "tool_2")}})

    assert by_code(diagnosis.servers["a"])["tokens"].message.startswith("offers 2 of 100 tools, ")
    assert cost_in(diagnosis).to_dict()["tools"] == 2


def test_filters_that_leave_nothing_are_a_warning() -> None:
    diagnosis = diagnosed({"a": ["x", "y"]}, exclude=("*",))

    assert by_code(diagnosis.servers["a"])["none_offered"].level == "warn"
    assert diagnosis.together == []


def test_a_backup_costs_nothing_until_it_is_needed() -> None:
    diagnosis = diagnosed({"a": ["get"], "b": ["get"]}, fallbacks={"a": "b"})

    assert {finding.level for finding in diagnosis.findings} == {"ok"}
    assert by_code(diagnosis.servers["b"])["tokens"].message.endswith(", only as a backup")
    assert cost_in(diagnosis).to_dict()["tools"] == 1


def test_names_in_filters_that_no_tool_has_are_warnings_where_they_stand() -> None:
    diagnosis = diagnosed(
        {"a": ["read_file"], "b": ["get"]},
        servers={"a": {"include": ("read_fil", "re:x", "*"), "exclude": ("@destructive",)}},
        include=("gett", "c/get"),
        exclude=("b/gett",),
    )

    assert [(one.code, one.message, one.fix) for one in diagnosis.configuration] == snapshot(
        [
            (
                "unknown_include",
                '"include" names gett, but there is no such tool',
                'did you mean "get"?',
            ),
            (
                "unknown_include",
                '"include" names c/get, but there is no such tool',
                "there is no server c: correct or remove it",
            ),
            (
                "unknown_exclude",
                '"exclude" names b/gett, but there is no such tool',
                'did you mean "b/get"?',
            ),
        ]
    )
    assert by_code(diagnosis.servers["a"])["unknown_include"].fix == 'did you mean "read_file"?'


def test_nothing_is_called_unknown_while_a_server_may_still_have_it() -> None:
    wishes: dict[str, Any] = {
        "include": ("get", "read"),
        "exclude": ("write",),
        "tool_overrides": {"read": "Reads.", "b/read": "Reads.", "a/get": "Gets."},
    }

    silent = diagnosed({"a": ["get"], "b": None}, **wishes)
    narrowed = diagnosed({"a": ["get"]}, known=["a", "b"], **wishes)

    assert silent.configuration == narrowed.configuration == []


def test_overrides_that_fit_nothing_are_warnings() -> None:
    diagnosis = diagnosed(
        {"a": ["get"], "b": ["put"]},
        tool_overrides={
            "gte": "Gets.",
            "a/put": "Puts.",
            "get": {"arguments": {"x": {"description": "no such argument"}}},
        },
    )

    assert [one.message for one in diagnosis.configuration] == [
        '"tool_overrides" names gte, but there is no such tool',
        '"tool_overrides" names a/put, but there is no such tool',
    ]
    problem = by_code(diagnosis.servers["a"])["override_problem"]
    assert problem.message.startswith('a/get: the override is for an argument "x"')


def test_fallbacks_between_servers_that_are_not_there_are_errors() -> None:
    diagnosis = diagnosed(
        {"files": ["get"], "web": ["get"]},
        disabled=("off",),
        fallbacks={"flies": "web", "files": "off", "web": "web"},
    )

    assert [(one.level, one.message, one.fix) for one in diagnosis.configuration] == snapshot(
        [
            ("error", '"fallbacks": there is no server flies', 'did you mean "files"?'),
            (
                "error",
                '"fallbacks": the server off is disabled',
                "enable or remove it",
            ),
            ("error", '"fallbacks": web cannot be its own fallback', "name another server"),
        ]
    )


def test_a_fallback_to_a_server_that_was_not_examined_is_fine() -> None:
    diagnosis = diagnosed({"a": ["get"]}, known=["a", "b"], fallbacks={"a": "b"})

    assert {finding.level for finding in diagnosis.findings} == {"ok"}


def test_a_backup_that_lacks_tools_is_a_warning() -> None:
    diagnosis = diagnosed({"a": ["get", "put"], "b": ["get"]}, fallbacks={"a": "b"})

    gap = by_code(diagnosis.configuration)["fallback_gap"]
    assert gap.message == '"fallbacks": b lacks 1 of 2 tools of a: put'
    assert [one.tool for one in gap.details] == ["a/put"]


def test_an_option_that_a_client_refuses_is_an_error_and_the_rest_is_still_checked() -> None:
    diagnosis = diagnosed(
        {"a": ["get"], "b": ["get"]},
        servers={"b": {"include": ("re:(",)}},
        include=("re:(",),
        cache="sometimes",
    )

    assert [one.level for one in diagnosis.configuration] == ["error", "error"]
    assert by_code(diagnosis.servers["b"])["config"].level == "error"
    assert "collision" in by_code(diagnosis.together)


def test_an_override_that_cannot_be_applied_is_an_error_of_its_server() -> None:
    needy = Tool(
        server="a",
        wire_name="get",
        name="get",
        input_schema={"type": "object", "properties": {"x": {}}, "required": ["x"]},
    )
    config = ClientConfig(
        servers={"a": StdioServer(command="sh")},
        options={"tool_overrides": {"get": {"arguments": {"x": False}}}},
    )

    diagnosis = diagnose(config, [examined("a", config.servers["a"], [needy])])

    assert by_code(diagnosis.servers["a"])["config"].level == "error"
    assert cost_in(diagnosis).to_dict()["tools"] == 1


def test_the_tokens_are_those_of_the_profile_that_the_client_sets() -> None:
    plain = cost_in(diagnosed({"a": ["get"]}))
    strict = cost_in(diagnosed({"a": ["get"]}, profile="openai_strict"))

    assert (plain.to_dict()["profile"], strict.to_dict()["profile"]) == ("default", "openai_strict")
    assert strict.tokens > plain.tokens


def test_a_server_that_does_not_answer_has_no_findings_about_tools() -> None:
    diagnosis = diagnosed({"a": None})

    assert [one.level for one in diagnosis.servers["a"]] == ["error"]
    assert diagnosis.together == []


def test_no_finding_is_a_good_finding() -> None:
    assert Diagnosis().to_dict() == {"ok": True, "servers": [], "tokens": None, "findings": []}
