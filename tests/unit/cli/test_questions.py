"""Questions of servers, put to a person who types what the test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from plait.cli.questions import Questioner, ReadLine
from plait.client.protocol.session import RequestContext

pytestmark = pytest.mark.anyio

CONTEXT = cast("RequestContext", None)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Who is\nit for?\x1b[2J"},
        "sizes": {"type": "array", "items": {"enum": ["small", "large"]}, "default": ["small"]},
        "note": {"type": "string"},
    },
    "required": ["name"],
}


def person(*lines: str | None) -> ReadLine:
    waiting = list(lines)

    async def read_line() -> str | None:
        return waiting.pop(0)

    return read_line


async def asked(
    *lines: str | None,
    answers: Sequence[str] = (),
    schema: dict[str, Any] | None = None,
    nobody: bool = False,
) -> ElicitResult:
    questioner = Questioner(
        server="desk",
        tool="order",
        answers=answers,
        read_text=lambda path: f"text of {path}",
        read_line=None if nobody else person(*lines),
    )
    params = ElicitRequestFormParams(
        message="Your order?", requested_schema=SCHEMA if schema is None else schema
    )
    return await questioner(CONTEXT, params)


async def visited(url: str, *lines: str | None) -> ElicitResult:
    questioner = Questioner(server="desk", tool="pay", read_text=str, read_line=person(*lines))
    return await questioner(CONTEXT, ElicitRequestURLParams(message="Pay!", url=url))


async def test_an_empty_answer_takes_the_default_or_leaves_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = await asked("", "Ann", "", "", "")

    assert (result.action, result.content) == ("accept", {"name": "Ann", "sizes": ["small"]})
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "name - Who is it for?\\x1b[2J\n" in shown.err
    assert "a value is required" in shown.err
    assert "  1) small\n  2) large\n" in shown.err
    assert "optional; default small)" in shown.err


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["!decline"], "decline"),
        (["!cancel"], "cancel"),
        ([None], "cancel"),
        (["Ann", "1", None], "cancel"),
        (["Ann", "1", "", "n"], "decline"),
    ],
)
async def test_a_person_may_go_at_any_time(lines: Any, action: str) -> None:
    result = await asked(*lines)

    assert (result.action, result.content) == (action, None)


async def test_answers_beforehand_leave_only_what_is_needed() -> None:
    result = await asked("Ann", "y", answers=["sizes=large", "sizes=small", "other=1"])

    assert result.content == {"name": "Ann", "sizes": ["large", "small"]}


async def test_with_all_that_is_needed_beforehand_nobody_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = await asked(answers=["name=@who.txt"])

    assert result.content == {"name": "text of who.txt", "sizes": ["small"]}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("word", ["sizes=huge", "sizes:={}", "name:=7", "note:=["])
async def test_an_answer_that_does_not_fit_cancels_the_question(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = await asked(answers=["name=Ann", word] if not word.startswith("name") else [word])

    assert result.action == "cancel"
    assert capsys.readouterr().err.startswith("error: --answer ")


@pytest.mark.parametrize("answers", [[], ["other=1"], ["note=x"]])
async def test_where_nobody_is_what_is_missing_declines(
    answers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = await asked(answers=answers, nobody=True)

    assert result.action == "decline"
    assert capsys.readouterr().err.endswith("answer it with --answer name=VALUE\n")


async def test_where_nobody_is_an_answer_to_another_question_agrees_to_nothing() -> None:
    optional = {"type": "object", "properties": {"sure": {"type": "boolean", "default": True}}}

    assert (await asked(answers=["name=Ann"], schema=optional, nobody=True)).action == "decline"
    assert (await asked(answers=["sure=true"], schema=optional, nobody=True)).action == "accept"


async def test_a_question_without_fields_is_a_matter_of_yes_or_no() -> None:
    assert (await asked("y", schema={"type": "object", "properties": {}})).action == "accept"
    assert (await asked("n", schema={"type": "object", "properties": {}})).action == "decline"
    assert (await asked(schema={}, nobody=True)).action == "decline"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://bank.example@evil.example/x", "  host: evil.example\n"),
        (
            "https://b\u0430nk.example/",
            "  host: xn--bnk-6cd.example (displayed as b\u0430nk.example)\n",
        ),
    ],
)
async def test_the_host_of_a_page_stands_on_a_line_of_its_own(
    url: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await visited(url, "")).action == "decline"

    err = capsys.readouterr().err
    assert f"  {url}\n" in err
    assert shown in err


@pytest.mark.parametrize(
    "url", ["file:///x", "javascript:alert(1)", "https:///x", "x", "https://[x", "https://x/ y"]
)
async def test_what_is_no_page_is_not_even_offered(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await visited(url)).action == "decline"
    assert "not a web page" in capsys.readouterr().err


async def test_where_no_answers_can_be_given_beforehand_none_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    questioner = Questioner(server="desk", answers=None, read_text=str)
    params = ElicitRequestFormParams(message="Your order?", requested_schema=SCHEMA)

    assert (await questioner(CONTEXT, params)).action == "decline"
    said = capsys.readouterr().err
    assert said == "question: desk asks 'Your order?'; declined: answer it on a terminal\n"
