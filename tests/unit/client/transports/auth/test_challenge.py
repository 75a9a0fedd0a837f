"""What servers ask for, and what people are told about it."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.protocol.exchange import Advice
from plait.client.transports.auth.authorization_servers import OAuthError
from plait.client.transports.auth.challenge import (
    Challenge,
    SignInNeededError,
    challenge_from,
    challenge_in,
    joined_scopes,
    sign_in_advice,
)
from plait.client.transports.auth.sign_in import result_from_text

REQUEST = httpx2.Request("POST", "https://example.com/mcp")
scopes = st.lists(st.sampled_from(["read", "write", "list", "mcp:tools"]), max_size=4).map(" ".join)


@pytest.mark.parametrize(
    ("status", "header", "asks"),
    [
        (401, None, True),
        (401, "Bearer", True),
        (403, 'Bearer error="insufficient_scope", scope="write"', True),
        (403, 'Bearer error="invalid_token"', False),
        (403, None, False),
        (200, None, False),
        (500, 'Bearer scope="x"', False),
    ],
)
def test_only_refusals_that_a_login_cures_ask_for_one(
    status: int, header: str | None, asks: bool
) -> None:
    headers = {} if header is None else {"WWW-Authenticate": header}
    response = httpx2.Response(status, headers=headers, request=REQUEST)

    assert (challenge_from(response) is not None) is asks


@given(scopes.filter(bool), st.sampled_from([", ", ",", " ,  "]), st.booleans())
def test_the_parameters_of_a_challenge_are_read(scope: str, separator: str, quoted: bool) -> None:
    place = '"https://h/meta?a=b"' if quoted else "https://h/meta?a=b"
    parts = ['error="insufficient_scope"', f'SCOPE = "{scope}"', f"resource_metadata={place}"]

    read = challenge_in(403, f"Bearer {separator.join(parts)}")

    assert read is not None
    assert (read.scope, read.resource_metadata) == (scope, "https://h/meta?a=b")


def test_what_a_description_quotes_is_no_parameter() -> None:
    read = challenge_in(401, r'Bearer error_description="say scope=\"all\", ok", scope="a\"b"')

    assert read is not None
    assert read.scope == 'a"b'
    bare = challenge_in(401, 'Bearer scope="", x_scope="y"')
    assert bare is not None
    assert bare.scope is None


def test_a_challenge_may_have_any_characters() -> None:
    read = challenge_in(401, 'Bearer scope="l\u00e9sen \u200b\U000e0041"')

    assert read is not None
    assert read.scopes == ("l\u00e9sen", "\u200b\U000e0041")
    refused = SignInNeededError(read, Advice(text="sign in")).response(REQUEST)
    assert challenge_from(refused) == read


@given(scopes, scopes)
def test_joined_scopes_lose_and_repeat_nothing(first: str, second: str) -> None:
    joined = (joined_scopes(first, None, second) or "").split()

    assert set(joined) == {*first.split(), *second.split()}
    assert len(joined) == len(set(joined))


def test_advice_names_reason_scopes_and_the_way_out() -> None:
    refused = Challenge(status=401, scope="read")
    lacking = Challenge(status=403, scope="write admin")

    assert sign_in_advice("my shop", refused, "list", "not signed in").text == (
        "not signed in; it asks for the scopes read, list; sign in: plait auth login 'my shop'"
    )
    assert sign_in_advice("shop", lacking, "read", "more is needed").text == (
        "more is needed; it asks for the scopes write, admin; "
        "sign in: plait auth login shop --scope 'write admin'"
    )
    assert sign_in_advice("shop", Challenge(status=401), None, "no").text == (
        "no; sign in: plait auth login shop"
    )


def test_an_answer_is_an_address_a_query_or_a_code() -> None:
    for text in ("http://h/cb?code=c&state=s&iss=i", "?code=c&state=s&iss=i"):
        answer = result_from_text(f" {text}\n", "s")
        assert (answer.code, answer.state, answer.iss) == ("c", "s", "i")
    assert result_from_text("c", "s").state == "s"


@given(st.text(max_size=60), st.text(max_size=8))
def test_any_text_is_an_answer_or_is_refused(text: str, state: str) -> None:
    try:
        answer = result_from_text(text, state)
    except (OAuthError, ValueError):
        return
    assert bool(answer.code) or answer.error is not None
