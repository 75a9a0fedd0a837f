"""Credentials beside those of the configuration."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.config.servers import HttpServer, StdioServer
from plait.client.connections.credentials import (
    PRIVATE_IDLE_SECONDS,
    CallerCredentials,
    digest_of_headers,
    join,
)

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
    assert CallerCredentials.of() is None
    assert CallerCredentials.of({}) is None


def test_the_key_and_the_repr_do_not_tell_the_credentials() -> None:
    made = access(Authorization=SECRET)

    assert SECRET not in made.key
    assert SECRET.encode().hex() not in made.key
    assert SECRET not in repr(made)


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_the_same_headers_have_the_same_key_in_any_order(headers: dict[str, str]) -> None:
    turned = dict(reversed(headers.items()))

    assert CallerCredentials.of(headers).key == CallerCredentials.of(turned).key  # pyright: ignore[reportOptionalMemberAccess]


def test_different_credentials_have_different_keys() -> None:
    auth = object()
    keys = {
        access(a="1").key,
        access(a="2").key,
        access(b="1").key,
        access(a="1", b="1").key,
        CallerCredentials(auth=auth).key,
        CallerCredentials(auth=object()).key,
    }

    assert len(keys) == 6
    assert CallerCredentials(auth=auth).key == CallerCredentials(auth=auth).key


def test_headers_replace_those_of_the_server_whatever_their_case() -> None:
    server = HttpServer(url="http://localhost/mcp", headers={"X-User": "a", "X-Other": "o"})

    changed = applied(access(**{"x-user": "b"}), server)

    assert changed.headers == {"X-Other": "o", "x-user": "b"}
    assert server.headers == {"X-User": "a", "X-Other": "o"}


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [False, True])
async def test_headers_join_those_that_a_function_makes(is_async: bool) -> None:
    def made() -> dict[str, str]:
        return {"X-User": "a", "X-Other": "o"}

    async def made_later() -> dict[str, str]:
        return made()

    server = HttpServer(url="http://localhost/mcp", headers=made_later if is_async else made)

    joined = applied(access(**{"x-user": "b"}), server).headers

    assert callable(joined)
    answer = joined()
    assert inspect.isawaitable(answer)
    assert await answer == {"X-Other": "o", "x-user": "b"}


def test_the_servers_own_authentication_stays_unless_another_is_given() -> None:
    own, other = object(), object()
    server = HttpServer(url="http://localhost/mcp", auth=own)

    assert applied(access(a="1"), server).auth is own
    assert applied(CallerCredentials(auth=other), server).auth is other


def test_a_process_takes_an_environment_and_is_not_kept_for_ever() -> None:
    server = StdioServer(command="x", env={"A": "1", "B": "1"})

    changed = CallerCredentials(env={"B": "2"}).applied_to(server)

    assert isinstance(changed, StdioServer)
    assert changed.env == {"A": "1", "B": "2"}
    assert changed.idle_seconds == PRIVATE_IDLE_SECONDS
    assert server.idle_seconds is None


def test_headers_mean_nothing_to_a_process_and_an_environment_nothing_to_a_url() -> None:
    assert access(a="1").applied_to(StdioServer(command="x")) is None
    remote = HttpServer(url="http://localhost/mcp")
    assert applied(CallerCredentials(env={"A": "1"}), remote).headers == {}


def test_a_conversation_has_its_own_key_and_its_own_patience() -> None:
    server = StdioServer(command="x")
    one, two = CallerCredentials(thread="1"), CallerCredentials(thread="2")

    assert one.key != two.key
    changed = one.applied_to(server)
    assert changed is not None
    assert changed.idle_seconds == PRIVATE_IDLE_SECONDS


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


def test_values_that_change_places_under_one_name_are_other_credentials() -> None:
    one = CallerCredentials.of({"X-User": "ann", "x-user": "bob"})
    other = CallerCredentials.of({"X-User": "bob", "x-user": "ann"})

    assert one is not None
    assert other is not None
    assert one.key != other.key
    assert digest_of_headers(one.headers) != digest_of_headers(other.headers)
