"""Connections by server, credentials and conversation, and the turns of users to have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked
from mcp.server import MCPServer

from plait import ConnectTimeoutError, UnknownServerError
from plait._support.clock import SystemClock
from plait.client.config.secrets import secret_values
from plait.client.config.servers import HttpServer, InProcessServer, StdioServer, Timeouts
from plait.client.connections.connection import ConnectionPool
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import call_tool
from plait.client.connections.session_keeper import SessionOptions
from plait.testing import eventually
from tests.clock import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    servers = {"web": HttpServer(url="http://localhost/mcp"), "shell": StdioServer(command="x")}
    made = ConnectionPool(servers, lambda server: SessionOptions())
    made.tasks.open()
    yield made
    await made.close()


def of_user(number: int) -> CallerCredentials:
    return CallerCredentials(headers={"X-User": str(number)})


async def test_the_same_credentials_share_a_connection(pool: ConnectionPool) -> None:
    assert pool.connection("web", of_user(1)) is pool.connection("web", of_user(1))
    assert pool.connection("web", of_user(1)) is not pool.connection("web", of_user(2))
    assert pool.connection("web") is pool["web"]


async def test_what_means_nothing_to_a_server_changes_nothing(pool: ConnectionPool) -> None:
    assert pool.connection("shell", of_user(1)) is pool["shell"]


async def test_the_longest_unused_connection_makes_room_and_never_the_new_one(
    pool: ConnectionPool,
) -> None:
    first = pool.connection("web", of_user(0))
    for number in range(1, 500):
        new = pool.connection("web", of_user(number))
        assert pool.connection("web", of_user(number)) is new

    assert pool.connection("web", of_user(0)) is not first


async def test_a_conversation_that_is_forgotten_gets_another_connection(
    pool: ConnectionPool,
) -> None:
    one, two = (pool.connection("shell", CallerCredentials(thread=thread)) for thread in ("1", "2"))

    await pool.forget_thread("1")

    assert pool.connection("shell", CallerCredentials(thread="1")) is not one
    assert pool.connection("shell", CallerCredentials(thread="2")) is two


async def test_a_server_that_is_removed_takes_all_its_connections_along(
    pool: ConnectionPool,
) -> None:
    pool.connection("web", of_user(1))

    await pool.remove("web")

    with pytest.raises(UnknownServerError):
        pool.connection("web", of_user(1))


class _Ahead(SystemClock):
    """A clock that has run for longer than this test."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def monotonic(self) -> float:
        return super().monotonic() + self._seconds


async def test_the_session_of_a_conversation_ends_after_a_quarter_of_an_hour_without_a_call() -> (
    None
):
    server = InProcessServer(server=MCPServer("shop"))
    pool = ConnectionPool({"shop": server}, lambda _: SessionOptions(), clock=_Ahead(15 * 60 - 0.5))
    pool.tasks.open()
    private, shared = pool.connection("shop", CallerCredentials(thread="1")), pool["shop"]
    await shared.keeper.wait_for_session()
    await private.keeper.wait_for_session()

    await eventually(lambda: private.status().state == "idle")

    assert shared.status().state == "ready"
    await pool.close()


async def test_the_session_of_a_conversation_stays_open_until_then() -> None:
    server = InProcessServer(server=MCPServer("shop"))
    pool = ConnectionPool({"shop": server}, lambda _: SessionOptions(), clock=_Ahead(14 * 60))
    pool.tasks.open()
    private = pool.connection("shop", CallerCredentials(thread="1"))
    await private.keeper.wait_for_session()
    await wait_all_tasks_blocked()

    assert private.status().state == "ready"
    await pool.close()


async def test_the_connection_of_a_user_hides_the_secrets_of_the_server_too() -> None:
    server = HttpServer(url="http://localhost/mcp", headers={"Authorization": "Bearer of-server-1"})
    pool = ConnectionPool({"web": server}, lambda _: SessionOptions())

    own = CallerCredentials(headers={"Authorization": "Bearer of-ann-2"})

    assert secret_values(pool.connection("web", own).server) >= {"of-server-1", "of-ann-2"}


BOUND = 2


class Desk:
    """A server of which two sessions may be open, and whose one tool takes until it is told."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.served: list[str] = []
        self.done: dict[str, asyncio.Event] = {}
        mcp = MCPServer("desk")
        mcp.add_tool(self.serve, name="serve")
        server = replace(InProcessServer(server=mcp), timeouts=timeouts)
        self.pool = ConnectionPool(
            {"desk": server}, lambda _: SessionOptions(), most_user_sessions=BOUND
        )
        self.pool.tasks.open()

    async def serve(self, user: str) -> str:
        self.served.append(user)
        await self.done.setdefault(user, asyncio.Event()).wait()
        return user

    def finish(self, *users: str) -> None:
        for user in users:
            self.done.setdefault(user, asyncio.Event()).set()

    async def call(self, user: str) -> Any:
        connection = self.pool.connection("desk", CallerCredentials(thread=user))
        answer = await connection.request(
            lambda client: call_tool(client, "serve", {"user": user}),
            Deadline(60),
            method="tools/call",
            tool="serve",
        )
        return answer.value.content[0].text  # pyright: ignore[reportAttributeAccessIssue]

    async def begin(self, *users: str) -> list[asyncio.Task[Any]]:
        """Have users call one after another."""
        calls: list[asyncio.Task[Any]] = []
        for user in users:
            calls.append(asyncio.create_task(self.call(user)))
            await wait_all_tasks_blocked()
        return calls


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk(Timeouts())
    yield made
    await made.pool.close()


async def test_users_beyond_the_bound_are_served_in_the_order_in_which_they_came(
    desk: Desk,
) -> None:
    users = [f"user-{number}" for number in range(6)]
    calls = await desk.begin(*users)
    assert desk.served == users[:BOUND]

    for number, user in enumerate(users):
        desk.finish(user)
        due = users[: number + BOUND + 1]
        await eventually(lambda due=due: desk.served == due)

    assert await asyncio.gather(*calls) == users


async def test_a_session_in_use_is_not_closed_for_others(desk: Desk) -> None:
    calls = await desk.begin("ann", "bob", "cid")
    desk.finish("cid")
    desk.finish("bob")

    assert await calls[2] == "cid"
    assert not calls[0].done()
    desk.finish("ann")
    assert await asyncio.gather(*calls) == ["ann", "bob", "cid"]


async def test_idle_sessions_of_others_make_room_and_those_of_new_users_stay(desk: Desk) -> None:
    desk.finish("ann", "bob", "cid")
    for user in ("ann", "bob", "cid"):
        assert await desk.call(user) == user

    kept = [desk.pool.connection("desk", CallerCredentials(thread=user)) for user in ("bob", "cid")]
    assert [one.status().state for one in kept] == ["ready", "ready"]


async def test_whoever_gives_up_leaves_the_queue(desk: Desk) -> None:
    calls = await desk.begin("ann", "bob", "cid", "dan")
    calls[2].cancel()
    await asyncio.wait([calls[2]])
    desk.finish("ann", "bob", "cid", "dan")

    assert await calls[3] == "dan"
    assert desk.served == ["ann", "bob", "dan"]
    assert [event.kind for event in desk.pool.events] == ["opened"] * 3


async def test_a_turn_that_does_not_come_in_time_is_an_error_that_says_so() -> None:
    desk = Desk(Timeouts(connect_seconds=0.2))
    calls = await desk.begin("ann", "bob")

    with pytest.raises(ConnectTimeoutError, match="2 sessions of other users are open and in use"):
        await desk.call("cid")

    desk.finish("ann", "bob")
    assert await asyncio.gather(*calls) == ["ann", "bob"]
    await desk.pool.close()


async def test_closing_ends_those_who_wait_for_their_turn(desk: Desk) -> None:
    calls = await desk.begin("ann", "bob", "cid")

    async with asyncio.timeout(30):
        await desk.pool.close()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert {type(outcome).__name__ for outcome in outcomes} == {"ClientClosedError"}


async def test_a_connection_is_not_closed_between_the_steps_of_a_call() -> None:
    clock = FakeClock()
    servers = {"web": HttpServer(url="http://localhost/mcp")}
    pool = ConnectionPool(servers, lambda _: SessionOptions(), clock=clock)
    connection = pool.connection("web", CallerCredentials(headers={"X-User": "ann"}))

    with connection.used():
        clock.seconds += 60
        during = connection.is_unused
    after = connection.is_unused
    clock.seconds += 1

    assert (during, after, connection.is_unused) == (False, False, True)
