"""Credentials beside those of the configuration: of callers, and of whom a run acts for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import ConfigError
from plait.client.config.servers import HttpServer, InProcessServer, StdioServer
from plait.client.connections.credentials import (
    PRIVATE_IDLE_SECONDS,
    CallerCredentials,
    access_for,
    digest_of_headers,
    join,
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


async def test_a_token_or_an_authentication_comes_from_the_run() -> None:
    auth = httpx2.BasicAuth("a", "b")
    with_token = HttpServer(url=URL, headers=user, auth=lambda run: "t0ken")
    with_auth = HttpServer(url=URL, auth=lambda run: auth)

    assert await access_for("s", with_token, RUN) == CallerCredentials(
        headers={"X-User": "ann", "Authorization": "Bearer t0ken"}
    )
    found = await access_for("s", with_auth, RUN)
    assert found is not None
    assert found.auth is auth
    assert without_run(with_auth).auth is None  # pyright: ignore[reportAttributeAccessIssue]


async def test_an_environment_comes_from_the_run() -> None:
    server = StdioServer(command="x", env=lambda run: {"USER_KEY": run["configurable"]["user"]})

    assert await access_for("s", server, RUN) == CallerCredentials(env={"USER_KEY": "ann"})
    assert server.fixed_env == {}


async def test_a_conversation_is_known_by_its_thread() -> None:
    server = StdioServer(command="x", scope="thread")

    assert await access_for("s", server, RUN) == CallerCredentials(thread="7")
    assert await access_for("s", server, None) is None
    assert thread_of({"configurable": None}) is None


@pytest.mark.parametrize(
    ("headers", "run", "text"),
    [
        (
            user,
            None,
            "`headers` failed: KeyError.*; it was called without a run",
        ),
        (user, {}, "s: the function for `headers` failed: KeyError"),
        (lambda run: ["X"], RUN, "returned a list"),
    ],
)
async def test_a_function_that_fails_names_its_server_and_setting(
    headers: Any, run: Any, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        await access_for("s", HttpServer(url=URL, headers=headers), run)


async def test_nobody_is_asked_about_a_server_in_this_process() -> None:
    server = InProcessServer(server=object())  # pyright: ignore[reportArgumentType]

    assert await access_for("s", server, RUN) is None


SECRET = "s3cr3t-t0ken"


def access(**headers: str) -> CallerCredentials:
    made = CallerCredentials.of(headers)
    assert made is not None
    return made


def applied(to: CallerCredentials, server: HttpServer) -> HttpServer:
    changed = to.applied_to(server)
    assert isinstance(changed, HttpServer)
    return changed


def test_nothing_given_is_no_access() -> None:
    assert CallerCredentials.of() is CallerCredentials.of({}) is None


def test_the_key_and_the_repr_do_not_tell_the_credentials() -> None:
    made = access(Authorization=SECRET)

    assert [text for text in (made.key, repr(made)) if SECRET in text] == []
    assert SECRET.encode().hex() not in made.key


@given(st.dictionaries(st.text("ab-1", min_size=1), st.text(), min_size=1))
def test_the_same_headers_have_the_same_key_in_any_order(headers: dict[str, str]) -> None:
    turned = dict(reversed(headers.items()))

    assert CallerCredentials.of(headers).key == CallerCredentials.of(turned).key  # pyright: ignore[reportOptionalMemberAccess]


def test_different_credentials_have_different_keys() -> None:
    auth = object()
    different = [
        *(access(**headers) for headers in ({"a": "1"}, {"a": "2"}, {"b": "1"})),
        access(a="1", b="1"),
        # Of names that differ in case, the order of the values counts for servers.
        access(**{"X-User": "ann", "x-user": "bob"}),
        access(**{"X-User": "bob", "x-user": "ann"}),
        *(CallerCredentials(auth=one) for one in (auth, object())),
        *(CallerCredentials(thread=thread) for thread in ("1", "2")),
    ]

    assert len({one.key for one in different}) == len(different)
    assert len({digest_of_headers(one.headers) for one in different[:6]}) == 6
    assert CallerCredentials(auth=auth).key == CallerCredentials(auth=auth).key


def test_headers_replace_those_of_the_server_whatever_their_case() -> None:
    server = HttpServer(url=URL, headers={"X-User": "a", "X-Other": "o"})

    for name in ("x-user", "X-USER"):
        changed = applied(access(**{name: "b"}), server)
        assert changed.headers == {"X-Other": "o", name: "b"}
    assert server.headers == {"X-User": "a", "X-Other": "o"}


@pytest.mark.parametrize("is_async", [False, True])
async def test_headers_join_those_that_a_function_makes(is_async: bool) -> None:
    async def later() -> dict[str, str]:
        return everyone()

    server = HttpServer(url=URL, headers=later if is_async else everyone)

    joined = applied(access(**{"x-user": "b"}), server).headers

    assert callable(joined)
    answer = joined()
    assert inspect.isawaitable(answer)
    assert await answer == {"X-Key": "k", "x-user": "b"}


def test_the_servers_own_authentication_stays_unless_another_is_given() -> None:
    own, other = object(), object()
    server = HttpServer(url=URL, auth=own)

    assert applied(access(a="1"), server).auth is own
    assert applied(CallerCredentials(auth=other), server).auth is other


@pytest.mark.parametrize(
    ("made", "env"),
    [
        (CallerCredentials(env={"B": "2"}), {"A": "1", "B": "2"}),
        (CallerCredentials(thread="1"), {"A": "1", "B": "1"}),
    ],
)
def test_a_process_of_a_user_or_a_conversation_is_not_kept_for_ever(
    made: CallerCredentials, env: dict[str, str]
) -> None:
    server = StdioServer(command="x", env={"A": "1", "B": "1"})

    changed = made.applied_to(server)

    assert isinstance(changed, StdioServer)
    assert (changed.env, changed.idle_seconds) == (env, PRIVATE_IDLE_SECONDS)
    assert server.idle_seconds is None


def test_headers_mean_nothing_to_a_process_and_an_environment_nothing_to_a_url() -> None:
    assert access(a="1").applied_to(StdioServer(command="x")) is None
    assert applied(CallerCredentials(env={"A": "1"}), HttpServer(url=URL)).headers == {}


def test_of_two_accesses_the_second_wins() -> None:
    first = CallerCredentials(headers={"X-User": "a", "Y": "1"}, env={"A": "1"}, thread="1")
    second = CallerCredentials(headers={"x-user": "b"}, env={"A": "2", "B": "2"})

    both = join(first, second)

    assert both == CallerCredentials(
        headers={"Y": "1", "x-user": "b"}, env={"A": "2", "B": "2"}, thread="1"
    )
    assert join(None, second) is second
    assert join(first, None) is first


class _Slotted:
    __slots__ = ("token",)


@pytest.mark.parametrize("kind", [type("Auth", (), {}), _Slotted])
def test_an_object_that_takes_the_place_of_another_gets_another_key(kind: type) -> None:
    keys: set[str] = set()
    places: set[int] = set()
    for _ in range(3000):
        auth = kind()
        places.add(id(auth))
        keys.add(CallerCredentials(auth=auth).key)
        del auth

    assert len(places) < 3000  # the addresses of objects are used again
    assert len(keys) == 3000
