"""Files of environment variables are read as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait._support.dotenv import DotenvError, parse_dotenv
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer


def test_every_usual_way_of_writing_is_understood() -> None:
    text = (
        "\ufeff# comment\r\n"
        "\n"
        "PLAIN=value with blanks   \n"
        "export EXPORTED = x # comment\n"
        "HASH=a#b\n"
        "EMPTY=\n"
        "SINGLE='literal $X \\n # no comment'  # comment\n"
        'DOUBLE="line\\nbreak \\"quoted\\" # no comment"\n'
        'KEY="-----BEGIN\nabc\n-----END"\n'
        "URL=https://example.com/?a=b&c=d\n"
        "LAST=1"
    )

    assert parse_dotenv(text) == {
        "PLAIN": "value with blanks",
        "EXPORTED": "x",
        "HASH": "a#b",
        "EMPTY": "",
        "SINGLE": "literal $X \\n # no comment",
        "DOUBLE": 'line\nbreak "quoted" # no comment',
        "KEY": "-----BEGIN\nabc\n-----END",
        "URL": "https://example.com/?a=b&c=d",
        "LAST": "1",
    }


@pytest.mark.parametrize("line", ["no assignment", "=x", '"A"=1', 'A="unclosed', "A='x' y"])
def test_a_line_that_is_none_is_named_by_its_number_only(line: str) -> None:
    with pytest.raises(DotenvError) as caught:
        parse_dotenv(f"A=1\n{line}")

    assert str(caught.value) == "line 2 is not NAME=value"


@given(st.dictionaries(st.from_regex(r"[A-Z_]\w{0,5}", fullmatch=True), st.text()))
def test_quoted_values_come_back(values: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        plain = value.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r")
        return f'"{plain}"'

    text = "".join(f"{name}={quoted(value)}\n" for name, value in values.items())

    assert parse_dotenv(text) == values


def test_explicit_variables_win_over_the_file_and_its_values_stay_literal(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB=${HOME}\n")
    entry = {"command": "a", "env": {"A": "own"}, "envFile": "${workspaceFolder}/.env"}

    server = read_config({"a": entry}, base=tmp_path, environ={}).servers["a"]

    assert isinstance(server, StdioServer)
    assert server.env == {"A": "own", "B": "${HOME}"}
