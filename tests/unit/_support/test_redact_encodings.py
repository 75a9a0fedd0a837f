"""A value is recognized however it is written."""

from __future__ import annotations

import base64
import html
import json
import shlex
import string
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait._support.redact import HIDDEN, Redactor, encoded_forms

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
