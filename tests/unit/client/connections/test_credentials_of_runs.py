"""Whom a run acts for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from plait import ConfigError
from plait.client.config.servers import HttpServer, InProcessServer, StdioServer
from plait.client.connections.credentials import (
    CallerCredentials,
    access_for,
    takes_run,
    thread_of,
    without_run,
)

pytestmark = pytest.mark.anyio

RUN = {"configurable": {"user": "ann", "thread_id": 7}}
URL = "http://localhost/mcp"


def user(run: Mapping[str, Any]) -> dict[str, str]:
    return {"X-User": run["configurable"]["user"]}


async def user_later(run: Mapping[str, Any]) -> dict[str, str]:
    return user(run)


def everyone() -> dict[str, str]:
    return {"X-Key": "k"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (user, True),
        (user_later, True),
        (lambda run=None: run, True),
        (everyone, False),
        (lambda *, run: run, False),
        ({"X": "1"}, False),
        (None, False),
        (dict, False),
    ],
)
def test_a_function_with_a_parameter_is_one_of_the_run(function: object, expected: bool) -> None:
    assert takes_run(function) is expected


@pytest.mark.parametrize("headers", [user, user_later])
async def test_headers_come_from_the_run(headers: Any) -> None:
    server = HttpServer(url=URL, headers=headers)

    assert await access_for("s", server, RUN) == CallerCredentials(headers={"X-User": "ann"})
    assert without_run(server).headers == {}  # pyright: ignore[reportAttributeAccessIssue]


async def test_what_is_the_same_for_everyone_is_left_where_it_is() -> None:
    for server in (
        HttpServer(url=URL, headers={"X": "1"}),
        HttpServer(url=URL, headers=everyone),
        HttpServer(url=URL, auth=httpx2.BasicAuth("a", "b")),
        StdioServer(command="x", env={"A": "1"}),
    ):
        assert await access_for("s", server, RUN) is None
        assert without_run(server) == server


async def test_a_token_from_the_run_is_sent_as_one() -> None:
    server = HttpServer(url=URL, headers=user, auth=lambda run: "t0ken")

    assert await access_for("s", server, RUN) == CallerCredentials(
        headers={"X-User": "ann", "Authorization": "Bearer t0ken"}
    )


async def test_authentication_from_the_run_is_used_as_it_is() -> None:
    auth = httpx2.BasicAuth("a", "b")
    server = HttpServer(url=URL, auth=lambda run: auth)

    found = await access_for("s", server, RUN)

    assert found is not None
    assert found.auth is auth
    assert without_run(server).auth is None  # pyright: ignore[reportAttributeAccessIssue]


async def test_an_environment_comes_from_the_run() -> None:
    server = StdioServer(command="x", env=lambda run: {"USER_KEY": run["configurable"]["user"]})

    assert await access_for("s", server, RUN) == CallerCredentials(env={"USER_KEY": "ann"})
    assert server.fixed_env == {}


async def test_a_conversation_is_known_by_its_thread() -> None:
    server = StdioServer(command="x", scope="thread")

    assert await access_for("s", server, RUN) == CallerCredentials(thread="7")
    assert await access_for("s", server, None) is None
    assert thread_of({"configurable": None}) is None


@pytest.mark.parametrize("run", [None, {}])
async def test_a_function_that_fails_names_its_server_and_setting(run: Any) -> None:
    server = HttpServer(url=URL, headers=user)

    with pytest.raises(ConfigError, match=r"s: the function for `headers` failed: KeyError"):
        await access_for("s", server, run)


async def test_a_function_must_return_a_mapping() -> None:
    server = HttpServer(url=URL, headers=lambda run: ["X"])

    with pytest.raises(ConfigError, match="returned a list"):
        await access_for("s", server, RUN)


async def test_nobody_is_asked_about_a_server_in_this_process() -> None:
    server = InProcessServer(server=object())  # pyright: ignore[reportArgumentType]

    assert await access_for("s", server, RUN) is None
