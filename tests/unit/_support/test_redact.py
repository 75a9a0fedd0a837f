"""No secret gets into a text that people or models read, however it is written."""

from __future__ import annotations

import base64
import html
import json
import shlex
import string
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait._support.redact import HIDDEN, Redactor, encoded_forms

CANARY = "c4n4ry-Zx81-qqq"

tokens = st.text(string.ascii_letters + string.digits, min_size=12, max_size=40)
texts = st.text(string.ascii_letters + " .:\n{}[]()/", max_size=40)


@pytest.mark.parametrize(
    "text",
    [
        *(f"Authorization: Bearer {CANARY}", f"authorization: bearer {CANARY}"),
        *(f"curl -H 'Authorization: Basic {CANARY}'", f"Authorization: Token {CANARY}"),
        f"cannot reach https://user:{CANARY}@example.com/mcp",
        f"cannot reach https://{CANARY}@example.com/mcp",
        *(f"redis://:{CANARY}@cache.example.com:6379/0", f"API_KEY={CANARY}", f"api-key: {CANARY}"),
        *(f"X-Api-Key: {CANARY}", f"OPENAI_API_KEY={CANARY} node server.js"),
        *(f"GET /mcp?token={CANARY}&page=2", f"https://example.com/mcp?apikey={CANARY}"),
        *(f'{{"api_key": "{CANARY}"}}', f'{{"api_key":"{CANARY}","page":2}}'),
        *(f'{{"clientSecret" : "{CANARY}"}}', f'{{"password": "{CANARY}"}}'),
        *(f"DB_PASSWORD = {CANARY}", f"--token={CANARY}", f"credentials: {CANARY}"),
        "the key sk-proj-abcdefghijklmnopqrstuvwxyz is wrong",
        "remote: ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    shown = Redactor()(text)

    assert HIDDEN in shown
    for secret in (CANARY, "abcdefghijklm", "IOSFODNN7"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param(f"{{'api_key': '{CANARY}'}}", CANARY, id="python repr"),
        pytest.param(f'{{\\"api_key\\": \\"{CANARY}\\"}}', CANARY, id="JSON inside JSON"),
        pytest.param(f"https://user:part@{CANARY}@example.com/", CANARY, id="at sign"),
        pytest.param('{"header": "Basic YzRuNHJ5Wng4MXFxcXE="}', "YzRuNHJ5", id="padding"),
        # In a header even a plain word is a secret.
        ("Authorization: Bearer correcthorse", "correcthorse"),
        ("{'Authorization': 'Bearer correcthorse'}", "correcthorse"),
    ],
)
def test_less_common_spellings_are_hidden_too(text: str, secret: str) -> None:
    assert secret not in Redactor()(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "connection refused", "password:", "a task: a disk, a desk, a skill"),
        "HTTP 404: there is no MCP endpoint at https://example.com/mcp?page=2",
        "user@example.com wrote to admin@example.com",
        'unknown key "comand" in mcpServers.files',
        "the tool 'list_tokens' was not found",
        "SyntaxError: Unexpected token < in JSON at position 0",
        "[Errno 111] Connect call failed ('127.0.0.1', 8000)",
        # Ordinary words behind a telling one can still be read.
        *("the token expired an hour ago", "Invalid token provided", "The access token expired."),
        "Basic authentication is required",
        'error="invalid_token", error_description="The token expired"',
        # A challenge names no secret and stays usable.
        'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"',
        *('Bearer realm="mcp", error="invalid_token"', 'Basic realm="mcp"'),
    ],
)
def test_a_text_without_secrets_is_unchanged(text: str) -> None:
    assert Redactor()(text) == text


@given(texts, tokens, texts)
def test_a_known_value_is_hidden_wherever_it_stands(before: str, secret: str, after: str) -> None:
    shown = Redactor([secret])(f"{before}{secret}{after}{secret}")

    assert secret not in shown
    assert HIDDEN in shown


def test_the_longest_known_value_goes_first_whatever_the_order() -> None:
    long, short = "abcdefgh-and-more", "abcdefgh"

    for secrets in ([long, short], [short, long]):
        assert Redactor(secrets)(f"x {long} y {short} z") == f"x {HIDDEN} y {HIDDEN} z"


def test_values_too_short_to_be_secret_are_left_alone() -> None:
    assert Redactor(["", "a", "abc"])("abc is a word") == "abc is a word"


def test_more_values_can_be_hidden_without_changing_the_first_redactor() -> None:
    first = Redactor(["first-secret"])

    second = first.also(["second-secret"])

    text = "first-secret second-secret"
    assert first(text) == f"{HIDDEN} second-secret"
    assert second(text) == f"{HIDDEN} {HIDDEN}"


def test_an_excerpt_is_one_safe_line_of_at_most_200_characters() -> None:
    text = f"line one\nAuthorization: Bearer {CANARY}\n" + "word " * 200

    shown = Redactor().excerpt(text)

    assert len(shown) == 200
    assert shown.endswith("…")
    assert "\n" not in shown
    assert CANARY not in shown


def test_a_secret_is_hidden_before_the_text_is_cut() -> None:
    secret = "s" * 300

    assert Redactor([secret]).excerpt(f"got {secret} back", 9) == f"got {HIDDEN} …"


@given(st.text(max_size=400), st.integers(1, 250))
def test_an_excerpt_keeps_its_limit(text: str, limit: int) -> None:
    assert len(Redactor(["secret-value"]).excerpt(text, limit)) <= limit


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing(text: str) -> None:
    redact = Redactor(["secret-value"])

    assert redact(redact(text)) == redact(text)


def _seconds_for(text: str) -> float:
    taken: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        Redactor(["secret-value"])(text)
        taken.append(time.perf_counter() - began)
    return min(taken)


@pytest.mark.parametrize("unit", ["a", "ab.", "://a", "token a", "bearer ", "a_b="])
def test_a_long_text_takes_time_in_proportion(unit: str) -> None:
    assert _seconds_for(unit * 10_000) < 30 * _seconds_for(unit * 1000) + 1


def test_a_long_word_with_hyphens_takes_no_longer_than_another() -> None:
    assert _seconds_for("ab-" * 1000) < 0.5
    assert _seconds_for("token-" * 100) < 0.5


@pytest.mark.timeout(10)
def test_of_a_long_text_only_the_beginning_is_searched() -> None:
    shown = Redactor(["hunter2hunter2"]).excerpt(
        "token=abcdef123 at http://a:b@c hunter2hunter2 " * 500_000
    )

    assert shown.startswith(f"token={HIDDEN} at http://{HIDDEN}@c {HIDDEN} token=")
    assert len(shown) == 200


@given(before=st.integers(0, 3000), limit=st.integers(1, 2000), length=st.integers(8, 2000))
def test_a_secret_that_is_cut_is_not_shown_in_part(before: int, limit: int, length: int) -> None:
    secret = "".join(chr(ord("a") + number * 7 % 26) for number in range(length))

    text = Redactor([secret]).beginning("#" * before + secret * 3 + "#" * 3000, limit)

    assert len(text) <= limit + 1 or before + 3 * length + 3000 <= limit
    assert not set(text) - set(f"#…{HIDDEN}")


ODD = 'c4n4ry "Zx\'81"/+ä&<é=\\%'

words = st.text(string.ascii_letters, max_size=5)
secrets = st.text(string.ascii_letters + string.digits + "/+=&\"'\\ %<ä", min_size=12, max_size=30)


@pytest.mark.parametrize(
    "written",
    [
        json.dumps({"key": ODD}),
        json.dumps({"key": ODD}, ensure_ascii=False),
        json.dumps(json.dumps({"key": ODD})),
        *(repr(ODD), repr(ODD.encode())),
        repr({"key": json.dumps(ODD)}),
        *(shlex.quote(ODD), html.escape(ODD), html.escape(json.dumps(ODD)), quote(ODD)),
        quote(ODD, safe=""),
        quote(ODD, safe="").lower().replace("c4n4ry", "c4n4ry").replace("zx", "Zx"),
        *(quote_plus(ODD), f"\\t{ODD}\\n"),
    ],
)
def test_a_value_is_hidden_in_every_spelling(written: str) -> None:
    shown = Redactor([ODD])(f"before {written} after")

    assert HIDDEN in shown
    assert "c4n4ry" not in shown
    assert "81" not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


@given(
    st.text(string.ascii_letters, max_size=5), secrets, st.text(string.ascii_letters, max_size=5)
)
def test_a_value_is_hidden_wherever_in_base64_it_stands(
    before: str, secret: str, after: str
) -> None:
    encoded = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    safe = base64.urlsafe_b64encode(f"{before}{secret}{after}".encode()).decode()
    redact = Redactor([secret])

    for shown in (redact(encoded), redact(safe)):
        rest = shown.replace(HIDDEN, "")
        assert HIDDEN in shown
        assert len(rest) <= len(encoded) - len(secret.strip().encode()) * 4 // 3 + 4


def test_each_line_of_a_long_key_is_a_secret_of_its_own() -> None:
    key = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA\nyHtRoulQw3o\n-----END KEY-----\n"
    redact = Redactor([key])

    assert redact("line 2: MIIEowIBAAKCAQEA") == f"line 2: {HIDDEN}"
    assert redact("line 3: yHtRoulQw3o") == f"line 3: {HIDDEN}"


def test_a_value_with_a_line_break_at_its_end_is_found_without_it() -> None:
    assert Redactor(["s3cret-value\n"])("got s3cret-value!") == f"got {HIDDEN}!"


@pytest.mark.parametrize("short", ["", " ", "a", "abc", "   ab ", "\n\n\n\n"])
def test_short_values_do_not_blank_out_a_text(short: str) -> None:
    text = "a cab is about to arrive\n\n\n\nYWJj"

    assert Redactor([short])(text) == text


def test_an_ordinary_value_has_few_spellings() -> None:
    assert len(encoded_forms("abcdefghijklmnop0123456789")) < 40


KEY = "sEcReT-vAlUe-0815x"


@pytest.mark.parametrize(
    "written",
    [
        *(KEY.upper(), KEY.lower(), KEY.title(), f"İ {KEY.upper()}", KEY.encode().hex()),
        *(KEY.encode().hex().upper(), f"user:{KEY}".encode().hex()),
        base64.b16encode(KEY.encode()).decode(),
        base64.b64encode(base64.b64encode(KEY.encode())).decode(),
        base64.b64encode(b"Basic " + base64.b64encode(f"me:{KEY}".encode())).decode(),
        base64.urlsafe_b64encode(b"x" + base64.b64encode(f"user:{KEY}!".encode())).decode(),
    ],
)
def test_a_value_is_hidden_in_another_case_in_hex_and_in_base64_of_base64(written: str) -> None:
    shown = Redactor([KEY])(f"before {written} after")

    assert HIDDEN in shown
    assert len(shown.replace(HIDDEN, "")) < len(f"before  after{written}") - len(KEY) // 2
    assert "0815" not in shown


def test_a_short_value_is_hidden_only_as_it_is_written() -> None:
    assert Redactor(["Hello"])("hello Hello") == f"hello {HIDDEN}"
