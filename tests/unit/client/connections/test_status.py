"""What a client tells of its servers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.client.connections.states import Breaker, State
from plait.client.connections.status import Event, ServerStatus, Status, UserStatus, with_users
from plait.errors import AuthRequiredError, ConnectError, PlaitError

SINCE = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
DOWN = ConnectError("shop: cannot connect: refused", server="shop")


def _server(name: str = "files", state: State = "ready", **more: Any) -> ServerStatus:
    return ServerStatus(name=name, transport="stdio", state=state, since=SINCE, **more)


def _full() -> ServerStatus:
    return _server(
        state="waiting",
        required=True,
        breaker="open",
        protocol_version="2026-07-28",
        server_info=MappingProxyType({"name": "n", "version": "1"}),
        tool_count=3,
        tools_outdated=True,
        error=DOWN,
        refused_users=1,
        next_try_seconds=2.5,
        pid=7,
        sessions=2,
        in_flight=1,
        connect_seconds=0.25,
        repaired=("content was missing",),
        noise_lines=4,
        stderr_tail=("starting", "failed"),
    )


def test_a_server_is_described_as_plain_data() -> None:
    described = _full().to_dict()

    assert json.loads(json.dumps(described)) == described
    assert described == snapshot(
        {
            "name": "files",
            "transport": "stdio",
            "state": "waiting",
            "since": "2026-11-15T12:00:00+00:00",
            "required": True,
            "breaker": "open",
            "protocol_version": "2026-07-28",
            "server_info": {"name": "n", "version": "1"},
            "tool_count": 3,
            "tools_outdated": True,
            "last_error": "shop: cannot connect: refused",
            "error": {
                "type": "transport_error",
                "error": "ConnectError",
                "message": "shop: cannot connect: refused",
                "client": "shop",
                "retryable": True,
                "retry": "always",
            },
            "refused_users": 1,
            "needs_auth": False,
            "next_try_seconds": 2.5,
            "pid": 7,
            "sessions": 2,
            "in_flight": 1,
            "connect_seconds": 0.25,
            "repaired": ["content was missing"],
            "noise_lines": 4,
            "stderr_tail": ["starting", "failed"],
        }
    )


def test_everything_is_described_as_plain_data() -> None:
    event = Event(SINCE, "files", "opened", "session 1")
    status = Status({"files": _server(), "shop": _full()}, (event,))

    described = status.to_dict()

    assert json.loads(json.dumps(described)) == described
    assert list(described["servers"]) == ["files", "shop"]
    assert described["summary"] == status.summary
    assert described["events"] == [
        {
            "at": "2026-11-15T12:00:00+00:00",
            "server": "files",
            "kind": "opened",
            "detail": "session 1",
        }
    ]


def test_servers_are_found_by_name() -> None:
    status = Status({"files": _server()})

    assert status["files"].name == "files"
    with pytest.raises(KeyError):
        status["shop"]


def test_failures_are_the_servers_that_cannot_be_used_and_why() -> None:
    status = Status(
        {
            "ready": _server("ready", error=DOWN),
            "idle": _server("idle", "idle", error=DOWN),
            "waiting": _server("waiting", "waiting", error=DOWN),
            "failed": _server("failed", "failed", error=DOWN),
            "connecting": _server("connecting", "connecting"),
        }
    )

    assert dict(status.failures) == {"waiting": DOWN, "failed": DOWN}


@pytest.mark.parametrize(
    ("states", "summary"),
    [
        ([], "0 servers"),
        (["ready"], "1 server: 1 ready"),
        (["ready", "ready", "idle"], "3 servers: 2 ready, 1 idle"),
    ],
)
def test_the_summary_counts_states(states: list[State], summary: str) -> None:
    servers = {str(index): _server(str(index), state) for index, state in enumerate(states)}

    assert Status(servers).summary == summary


def test_the_summary_says_why_a_server_is_not_ready() -> None:
    status = Status({"files": _server(), "shop": _server("shop", "waiting", error=DOWN)})

    assert status.summary == ("2 servers: 1 ready, 1 waiting (shop: cannot connect: refused)")


@pytest.mark.parametrize(
    ("state", "breaker", "usable"),
    [
        ("idle", "closed", True),
        ("ready", "closed", True),
        ("connecting", "closed", True),
        ("lost", "closed", True),
        ("connecting", "half-open", False),
        ("waiting", "open", False),
        ("failed", "open", False),
        ("closed", "closed", False),
    ],
)
def test_a_server_is_usable_when_a_call_would_be_tried(
    state: State, breaker: Breaker, usable: bool
) -> None:
    assert _server(state=state, breaker=breaker).usable is usable


def test_a_server_is_usable_while_callers_may_wait_for_its_next_attempt() -> None:
    assert _server(state="waiting", breaker="closed").usable


@pytest.mark.parametrize(
    ("error", "state", "needed"),
    [
        (AuthRequiredError("x", status=401), "waiting", True),
        (AuthRequiredError("x", status=401), "ready", False),
        (DOWN, "waiting", False),
        (None, "waiting", False),
    ],
)
def test_credentials_are_needed_until_a_session_opens(
    error: PlaitError | None, state: State, needed: bool
) -> None:
    assert _server(state=state, error=error).needs_auth is needed


def test_errors_and_output_stay_out_of_the_representation() -> None:
    shown = repr(_full())

    assert "cannot connect" not in shown
    assert "starting" not in shown


REFUSED = AuthRequiredError("shop: 401", server="shop", status=401)
READY = UserStatus(_server(state="ready", in_flight=2, tool_count=3), True, 5.0, 0.0)
IDLE = UserStatus(_server(state="idle"), True, 1.0, 0.0)
OPENING = UserStatus(_server(state="connecting", in_flight=1), True, 0.0, 0.0)
DOWN_SINCE = UserStatus(_server(state="waiting", error=DOWN), True, 0.0, 6.0)
TRYING = UserStatus(_server(state="connecting", error=DOWN), True, 0.0, 6.0)
DOWN_BEFORE = UserStatus(_server(state="waiting", error=DOWN), True, 0.0, 4.0)
OFF = UserStatus(_server(state="failed", error=DOWN), True, 0.0, 6.0)
WRONG_TOKEN = UserStatus(_server(state="waiting", error=REFUSED), True, 0.0, 6.0)
WRONG_SETTING = UserStatus(_server(state="waiting", error=REFUSED), False, 0.0, 6.0)


@pytest.mark.parametrize(
    ("users", "state", "error", "failing"),
    [
        ([IDLE, READY], "ready", None, False),
        ([IDLE, OPENING], "connecting", None, False),
        ([IDLE], "idle", None, False),
        ([READY, DOWN_SINCE], "waiting", DOWN, True),
        ([READY, TRYING], "connecting", DOWN, True),
        ([DOWN_SINCE, OFF], "failed", DOWN, True),
        ([READY, DOWN_BEFORE], "ready", None, False),
        ([WRONG_TOKEN], "idle", REFUSED, False),
        ([READY, WRONG_TOKEN], "ready", REFUSED, False),
        ([OPENING, WRONG_TOKEN], "connecting", None, False),
        ([DOWN_SINCE, WRONG_TOKEN], "waiting", DOWN, True),
        ([READY, WRONG_SETTING], "waiting", REFUSED, True),
    ],
)
def test_a_server_is_described_by_the_connections_of_its_users(
    users: list[UserStatus], state: State, error: PlaitError | None, failing: bool
) -> None:
    status = with_users(_server(state="idle"), users)

    assert (status.state, status.error, status.is_failing) == (state, error, failing)
    assert status.refused_users == users.count(WRONG_TOKEN)
    assert status.in_flight == 2 * users.count(READY) + users.count(OPENING)
    assert status.tool_count == (3 if READY in users else None)


def test_a_failure_of_the_shared_connection_counts_whatever_its_users_say() -> None:
    shared = _server(state="waiting", error=DOWN)

    assert with_users(shared, [READY]).is_failing
    assert with_users(shared, []) is shared
