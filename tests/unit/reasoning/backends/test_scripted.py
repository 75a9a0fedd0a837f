"""The scripted backend follows its script, and the host has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.errors import BackendError, ConfigError, HostHasNoModelError
from plait.reasoning.backends.port import Completion, HostCompleter, Prompt, ScriptedCompleter


def prompt(pipe: str = "a") -> Prompt:
    return Prompt(pipe=pipe, system="s", user="u", temperature=0.5, max_tokens=10)


async def said(completer: ScriptedCompleter, *pipes: str) -> list[str]:
    return [(await completer.complete(prompt(pipe))).text for pipe in pipes]


@pytest.mark.anyio
async def test_a_list_is_used_up_whatever_the_pipe() -> None:
    completer = ScriptedCompleter(["one", {"two": "ü"}, Completion(text="three")])

    assert await said(completer, "a", "b", "a") == ["one", '{"two": "ü"}', "three"]
    with pytest.raises(BackendError, match="no further reply for 'c'") as ended:
        await completer.complete(prompt("c"))

    assert ended.value.backend == "scripted"
    assert [asked.pipe for asked in completer.prompts] == ["a", "b", "a", "c"]


@pytest.mark.anyio
async def test_a_mapping_has_replies_by_pipe() -> None:
    completer = ScriptedCompleter({"a": ["one", "two"], "b": {"always": 1}, "*": "other"})

    assert await said(completer, "b", "a", "x", "b", "a") == [
        '{"always": 1}',
        "one",
        "other",
        '{"always": 1}',
        "two",
    ]
    with pytest.raises(BackendError, match="no further reply for 'a'"):
        await completer.complete(prompt("a"))


@pytest.mark.anyio
async def test_a_pipe_that_a_mapping_leaves_out_has_no_reply() -> None:
    with pytest.raises(BackendError):
        await ScriptedCompleter({"a": "one"}).complete(prompt("b"))


@pytest.mark.anyio
async def test_a_function_sees_the_prompt_and_an_error_is_raised() -> None:
    failing = ScriptedCompleter(lambda asked: ValueError(asked.pipe))

    with pytest.raises(ValueError, match=r"^a$"):
        await failing.complete(prompt("a"))


@pytest.mark.parametrize(
    "script", [["one", {"x": 1}], {"a": ["one", {"x": 1}]}], ids=["list", "object"]
)
@pytest.mark.anyio
async def test_a_script_may_stand_in_a_file(tmp_path: Path, script: object) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))

    assert await said(ScriptedCompleter.from_file(path), "a", "a") == ["one", '{"x": 1}']


@pytest.mark.parametrize(
    "text", ["", "{", '"one"', "[1]", '{"a": 1}', '{"a": [[]]}', "[" * 100_000]
)
def test_a_file_with_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match=r"script\.json"):
        ScriptedCompleter.from_file(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        ScriptedCompleter.from_file(tmp_path / "none.json")


@pytest.mark.anyio
async def test_the_host_completes_nothing() -> None:
    host = HostCompleter()
    await host.open()

    with pytest.raises(HostHasNoModelError, match="'a'"):
        await host.complete(prompt("a"))

    await host.aclose()
    assert host.name == "host"
    assert "calling model" in host.describe()
