"""Connections by server, credentials and conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from anyio import wait_all_tasks_blocked
from mcp.server import MCPServer

from plait import UnknownServerError
from plait._support.clock import SystemClock
from plait.client.config.secrets import secret_values
from plait.client.config.servers import HttpServer, InProcessServer, StdioServer
from plait.client.connections.connection import ConnectionPool
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.session import SessionOptions
from plait.testing import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    servers = {"web": HttpServer(url="http://localhost/mcp"), "shell": StdioServer(command="x")}
    made = ConnectionPool(servers, lambda server: SessionOptions())
    made.open()
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
    pool.open()
    private, shared = pool.connection("shop", CallerCredentials(thread="1")), pool["shop"]
    await shared.keeper.wait_for_session()
    await private.keeper.wait_for_session()

    await eventually(lambda: private.status().state == "idle")

    assert shared.status().state == "ready"
    await pool.close()


async def test_the_session_of_a_conversation_stays_open_until_then() -> None:
    server = InProcessServer(server=MCPServer("shop"))
    pool = ConnectionPool({"shop": server}, lambda _: SessionOptions(), clock=_Ahead(14 * 60))
    pool.open()
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
