"""Whatever a server answers, the model reads something, and nothing is lost or said twice."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from plait import MultiServerMCPClient
from tests.integration.agents.helpers import at_once, run, tool_call
from tests.servers import raw_stdio_config

pytestmark = pytest.mark.timeout(60)

PROGRAM = str(Path(__file__).with_name("table_server.py"))
PNG = "iVBORw0KGgo="
STRUCTURE = {"total": 3, "name": "Zoë"}

TEXTS = {"none": [], "words": ["three in all"], "same": [json.dumps(STRUCTURE)]}
MATRIX = {
    f"{text}-{structured}-{error}": (text, structured, error)
    for text, structured, error in itertools.product(TEXTS, (False, True), (False, True))
}


def _result(text: str, structured: bool, error: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": one} for one in TEXTS[text]]}
    if structured:
        result["structuredContent"] = STRUCTURE
    return result | ({"isError": True} if error else {})


BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "words"},
    "image": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    "link": {"type": "resource_link", "uri": "table://link", "name": "a link", "size": 2048},
    "text-resource": {
        "type": "resource",
        "resource": {"uri": "table://text", "mimeType": "text/plain", "text": "inside"},
    },
    "blob-resource": {
        "type": "resource",
        "resource": {"uri": "table://blob", "mimeType": "image/png", "blob": PNG},
    },
    "uri-only": {"type": "resource", "resource": {"uri": "table://only"}},
    "uri-only-missing": {"type": "resource", "resource": {"uri": "table://missing"}},
    "unknown": {"type": "hologram", "depth": 3},
    "nameless-link": {"type": "resource_link", "uri": "table://nameless"},
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, ToolMessage]]:
    """What an agent got of every tool, by the name of the tool."""
    results = {name: _result(*case) for name, case in MATRIX.items()}
    before, after = ({"type": "text", "text": word} for word in ("before", "after"))
    for name, block in BLOCKS.items():
        results[f"block-{name}"] = {"content": [before, block, after]}
        results[f"only-{name}"] = {"content": [block]}
    table = tmp_path_factory.mktemp("table") / "results.json"
    table.write_text(json.dumps(results))
    config = {"table": {"command": sys.executable, "args": [PROGRAM, str(table)]}}
    with MultiServerMCPClient(config) as client:
        tools = client.get_tools_blocking()
        assert len(tools) == len(results)
        found = run(at_once(*(tool_call(name) for name in results)), tools)
        yield {str(answer.name): answer for answer in found}


def said(message: ToolMessage) -> str:
    """Return all that a model reads of a message."""
    return "\n".join(
        str(block.get("text", "")) for block in message.content_blocks if block["type"] == "text"
    )


@pytest.mark.parametrize("case", MATRIX)
def test_every_mixture_of_text_structure_and_error_can_be_read(
    answers: dict[str, ToolMessage], case: str
) -> None:
    text, structured, error = MATRIX[case]
    message = answers[case]

    assert message.status == ("error" if error else "success")
    assert said(message).strip()
    assert message.artifact["structured_content"] == (STRUCTURE if structured else None)
    if TEXTS[text]:
        assert message.content == TEXTS[text][0]
    elif structured:
        assert json.loads(str(message.content)) == STRUCTURE
    else:
        assert "total" not in str(message.content)
    assert str(message.content).count("total") <= 1
    if structured and text == "none":
        assert "Zoë" in str(message.content)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_keeps_its_place_and_loses_nothing(
    answers: dict[str, ToolMessage], block: str
) -> None:
    message, alone = answers[f"block-{block}"], answers[f"only-{block}"]

    assert message.status == alone.status == "success"
    assert alone.content
    blocks = message.content_blocks
    texts = [one.get("text", "") for one in blocks]
    assert (texts[0], texts[-1]) == ("before", "after")
    assert len(blocks) == 3


def test_an_image_is_an_image(answers: dict[str, ToolMessage]) -> None:
    image: Any = answers["block-image"].content_blocks[1]

    assert (image["type"], image["base64"], image["mime_type"]) == ("image", PNG, "image/png")


def test_a_link_is_told_with_what_is_known_of_it(answers: dict[str, ToolMessage]) -> None:
    link = str(answers["block-link"].content_blocks[1])

    assert "table://link" in link
    assert "a link" in link


@pytest.mark.parametrize("name", ["text-resource", "blob-resource"])
def test_an_embedded_resource_is_one_line_and_whole_in_the_artifact(
    answers: dict[str, ToolMessage], name: str
) -> None:
    message = answers[f"block-{name}"]
    sent: dict[str, Any] = BLOCKS[name]["resource"]

    line = str(message.content_blocks[1].get("text"))
    assert line.startswith(f"Resource: {sent['uri']} ({sent['mimeType']}")
    (kept,) = message.artifact["content"]
    assert kept["resource"].items() >= sent.items()


def test_a_resource_without_content_is_read_from_its_server(
    answers: dict[str, ToolMessage],
) -> None:
    message = answers["block-uri-only"]

    assert "table://only" in said(message)
    assert "text of table://only" in json.dumps(message.artifact["content"])


def test_a_resource_that_cannot_be_read_leaves_its_address(
    answers: dict[str, ToolMessage],
) -> None:
    assert "table://missing" in said(answers["block-uri-only-missing"])


def test_a_block_that_nobody_knows_is_kept_as_it_was_sent(
    answers: dict[str, ToolMessage],
) -> None:
    message = answers["block-unknown"]

    assert "hologram" in said(message)
    assert message.artifact["content"] == [BLOCKS["unknown"]]


def test_an_agent_reads_every_answer_of_a_sloppy_server() -> None:
    names = (
        "good",
        "unknown-block",
        "uri-only-resource",
        "image-without-type",
        "link-without-name",
        "no-content",
        "content-string",
        "content-object",
        "breaks-schema",
    )
    with MultiServerMCPClient({"raw": raw_stdio_config("all")}) as client:
        tools = client.get_tools_blocking()
        answers = run(at_once(*(tool_call(name) for name in names)), tools)

    assert [answer.name for answer in answers] == list(names)
    assert [answer.status for answer in answers] == ["success"] * len(names)
    assert all(answer.content for answer in answers)
    by_name = {answer.name: answer for answer in answers}
    assert by_name["good"].content == "good"
    assert json.loads(str(by_name["no-content"].content)) == {"total": 3}
    assert by_name["content-string"].content == "just a string"
    assert by_name["content-object"].content == "one block"
    assert by_name["breaks-schema"].artifact["structured_content"] == {"total": "many"}
