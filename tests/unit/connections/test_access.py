"""Credentials beside those of the configuration."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.config.servers import HttpServer
from plait.connections.access import Access

SECRET = "s3cr3t-t0ken"


def access(**headers: str) -> Access:
    made = Access.of(headers)
    assert made is not None
    return made


def test_nothing_given_is_no_access() -> None:
    assert Access.of() is None
    assert Access.of({}) is None


def test_the_key_and_the_repr_do_not_tell_the_credentials() -> None:
    made = access(Authorization=SECRET)

    assert SECRET not in made.key
    assert SECRET not in repr(made)


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_the_same_headers_have_the_same_key_in_any_order(headers: dict[str, str]) -> None:
    turned = dict(reversed(headers.items()))

    assert Access.of(headers).key == Access.of(turned).key  # pyright: ignore[reportOptionalMemberAccess]


def test_different_credentials_have_different_keys() -> None:
    auth = object()
    keys = {
        access(a="1").key,
        access(a="2").key,
        access(b="1").key,
        access(a="1", b="1").key,
        Access(auth=auth).key,
        Access(auth=object()).key,
    }

    assert len(keys) == 6
    assert Access(auth=auth).key == Access(auth=auth).key


def test_headers_replace_those_of_the_server_whatever_their_case() -> None:
    server = HttpServer(url="http://localhost/mcp", headers={"X-User": "a", "X-Other": "o"})

    applied = access(**{"x-user": "b"}).applied_to(server)

    assert applied.headers == {"X-Other": "o", "x-user": "b"}
    assert server.headers == {"X-User": "a", "X-Other": "o"}


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [False, True])
async def test_headers_join_those_that_a_function_makes(is_async: bool) -> None:
    def made() -> dict[str, str]:
        return {"X-User": "a", "X-Other": "o"}

    async def made_later() -> dict[str, str]:
        return made()

    server = HttpServer(url="http://localhost/mcp", headers=made_later if is_async else made)

    joined = access(**{"x-user": "b"}).applied_to(server).headers

    assert callable(joined)
    answer = joined()
    assert inspect.isawaitable(answer)
    assert await answer == {"X-Other": "o", "x-user": "b"}


def test_the_servers_own_authentication_stays_unless_another_is_given() -> None:
    own, other = object(), object()
    server = HttpServer(url="http://localhost/mcp", auth=own)

    assert access(a="1").applied_to(server).auth is own
    assert Access(auth=other).applied_to(server).auth is other
