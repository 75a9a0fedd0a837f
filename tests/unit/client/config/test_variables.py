"""Variables in strings are replaced once, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plait.client.config.raw_value import (
    Location,
    Problems,
    TemplateError,
    Variables,
    parse_template,
)
from plait.client.config.read import InputRequest, read_config
from plait.client.config.servers import StdioServer
from plait.errors import ConfigError

names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)
texts = st.text(st.sampled_from("x$ {}:-/é"), max_size=12) | st.text(max_size=12)


def expand(text: str, **environ: str) -> str | None:
    return expand_in(environ, text)


def expand_in(environ: dict[str, str], text: str) -> str | None:
    variables = Variables(environ=environ, folder=Path("/work/site"), home=Path("/home/ann"))
    return variables.expand(text, Location(Problems()))


@given(texts)
def test_text_without_a_variable_is_unchanged(text: str) -> None:
    assume("${" not in text)

    assert expand(text) == text


@given(texts)
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert expand(_escaped(text)) == text


@given(names, texts, texts, texts)
def test_a_value_is_put_in_place_and_never_looked_into(
    name: str, before: str, value: str, after: str
) -> None:
    # A `$` before the variable would make it an escape.
    assume(not before.endswith("$"))
    template = f"{_escaped(before)}${{{name}}}{_escaped(after)}"

    assert expand_in({name: value, "x": "!"}, template) == before + value + after


@given(names, texts)
def test_a_value_that_looks_like_a_variable_stays(name: str, value: str) -> None:
    assert expand_in({name: "${x}" + value, "x": "!"}, f"${{{name}}}") == "${x}" + value


@given(names, names, texts)
def test_a_default_is_used_for_what_is_unset_or_empty(name: str, other: str, value: str) -> None:
    assume(name != other and "}" not in value)
    default = _escaped(value)
    assume(not default.endswith("$"))

    assert expand_in({}, f"${{{name}:-{default}}}") == value
    assert expand_in({name: ""}, f"${{{name}:-{default}}}") == value
    assert expand_in({name: "set"}, f"${{{name}:-{default}}}") == "set"
    assert expand_in({other: "other"}, f"${{{name}:-<${{{other}}}>}}") == "<other>"


@given(st.text(st.sampled_from("${}:-aB /"), max_size=30))
def test_any_text_is_either_read_or_refused_with_a_reason(text: str) -> None:
    problems = Problems()
    variables = Variables(environ={}, folder=Path("/"), home=Path("/"))

    expanded = variables.expand(text, Location(problems))

    assert (expanded is None) == bool(problems.errors)


def test_folders_separator_and_environment_are_known() -> None:
    assert expand("${workspaceFolder}") == str(Path("/work/site"))
    assert expand("${workspaceFolderBasename}") == "site"
    assert expand("${userHome}") == str(Path("/home/ann"))
    assert expand("a${/}b${pathSeparator}c") == f"a{os.sep}b{os.sep}c"
    assert expand("${env:X}/${X}", X="x") == "x/x"
    assert expand("${env:ProgramFiles(x86)}") is None
    assert expand("$HOME $ $$ {x} }") == "$HOME $ $$ {x} }"
    assert expand("$${X}", X="x") == "${X}"


def test_defaults_may_hold_variables_but_not_without_end() -> None:
    assert expand("${A:-${B:-${C}}}", C="c") == "c"
    with pytest.raises(TemplateError):
        parse_template("${A:-" * 1000 + "}" * 1000)


def test_every_unset_variable_of_a_string_is_named() -> None:
    problems = Problems()
    variables = Variables(environ={}, folder=Path("/"), home=Path("/"))

    variables.expand("${A}-${env:B}-${input:c d}-${D:-x}", Location(problems))

    assert [(found.code, found.message, found.suggestion) for found in problems.errors] == [
        ("unset_variable", "the variable A is not set", "set it, or add a default: ${A:-…}"),
        ("unset_variable", "the variable B is not set", "set it, or add a default: ${env:B:-…}"),
        (
            "unset_variable",
            'the input "c d" has no value',
            "set PLAIT_INPUT_C_D, or run it on a terminal",
        ),
    ]


def test_a_broken_variable_is_refused_without_quoting_the_string() -> None:
    for text in ("CANARY${", "${CANARY KEY}", "${CANARY:x}", "${A:-${CANARY KEY}}"):
        with pytest.raises(ConfigError) as caught:
            read_config({"a": {"command": text}}, environ={})
        assert [problem.code for problem in caught.value.problems] == ["bad_variable"]
        assert "CANARY" not in str(caught.value)


def test_variables_stand_in_every_kind_of_string() -> None:
    config = read_config(
        {
            "servers": {
                "a": {
                    "command": "${V}",
                    "args": ["${V}"],
                    "env": {"${V}": "${V}"},
                    "cwd": "${V}",
                    "include": ["${V}"],
                    "session_kwargs": {"deep": [{"er": "${V}"}], "n": 1},
                    "protocol": "${ERA}",
                }
            },
            "additional_tool_name_prefix": "${V}",
        },
        environ={"V": "v", "ERA": "legacy"},
    )

    assert config.options == {"additional_tool_name_prefix": "v"}
    assert config.servers["a"] == StdioServer(
        command="v",
        args=("v",),
        env={"${V}": "v"},
        cwd="v",
        include=("v",),
        client_options={"deep": [{"er": "v"}], "n": 1},
        protocol="legacy",
    )


def test_nobody_is_asked_twice_nor_for_what_the_environment_answers() -> None:
    asked: list[str] = []

    def ask(request: InputRequest) -> str:
        asked.append(request.id)
        return f"answer to {request.id}"

    config = read_config(
        {
            "a": {"command": "a", "args": ["${input:x}", "${input:y}"]},
            "b": {"command": "b", "args": ["${input:x}"]},
        },
        environ={"PLAIT_INPUT_Y": "known"},
        ask=ask,
    )

    assert asked == ["x"]
    assert [server.args for server in config.servers.values() if isinstance(server, StdioServer)]
    assert config.servers["b"] == StdioServer(command="b", args=("answer to x",))


def test_values_of_variables_that_look_secret_are_remembered_per_server() -> None:
    config = read_config(
        {
            "a": {"command": "a", "args": ["${API_KEY}", "${MODE}", "${input:token}"]},
            "b": {"url": "https://example.com/${API_KEY}/mcp"},
            "c": {"command": "c"},
        },
        environ={"API_KEY": "k1", "MODE": "fast", "PLAIT_INPUT_TOKEN": "t1"},
    )

    secrets = {name: server.secrets for name, server in config.servers.items()}
    assert secrets == {"a": {"k1", "t1"}, "b": {"k1"}, "c": set()}


def _escaped(text: str) -> str:
    return text.replace("${", "$${")
