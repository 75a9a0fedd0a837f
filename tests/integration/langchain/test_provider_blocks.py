"""Every kind of result, converted by the real packages of model providers.

No cell of the matrix may raise, or lose the address of a resource. A raw server sends the results,
so that they are also of kinds that no SDK would let out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_google_genai.chat_models import (
    _parse_chat_history,  # pyright: ignore[reportPrivateUsage]
)
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from plait import MultiServerMCPClient
from tests.servers.langchain_servers import PIXEL

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]

ECHO = Path(__file__).parents[2] / "servers/raw/raw_echo.py"
SHOW: Json = {"name": "show", "inputSchema": {"type": "object"}}
WAV = "UklGRiQAAABXQVZF"


def link(uri: str, mime_type: str | None = None) -> Json:
    block = {"type": "resource_link", "uri": uri, "name": "n", "mimeType": mime_type}
    return {key: value for key, value in block.items() if value}


def resource(uri: str, **contents: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, **contents}}


BLOCKS: dict[str, tuple[Json, str]] = {
    "text": ({"type": "text", "text": "found it"}, "found it"),
    "blank text": ({"type": "text", "text": " "}, ""),
    "image": ({"type": "image", "data": PIXEL, "mimeType": "image/png"}, PIXEL),
    "image of an unusual type": ({"type": "image", "data": PIXEL, "mimeType": "image/tiff"}, PIXEL),
    "image without a type": ({"type": "image", "data": PIXEL}, ""),
    "audio": ({"type": "audio", "data": WAV, "mimeType": "audio/wav"}, "audio/wav"),
    "audio of an unusual type": ({"type": "audio", "data": WAV, "mimeType": "audio/x"}, "audio/x"),
    "https image link": (link("https://h.invalid/a.png", "image/png"), "https://h.invalid/a.png"),
    "http image link": (link("http://h.invalid/a.jpg", "image/jpeg"), "http://h.invalid/a.jpg"),
    "https pdf link": (link("https://h.invalid/a.pdf", "application/pdf"), "h.invalid/a.pdf"),
    "https link without a type": (link("https://h.invalid/a"), "https://h.invalid/a"),
    "file link": (link("file:///a/b.txt", "text/plain"), "file:///a/b.txt"),
    "file image link": (link("file:///a/b.png", "image/png"), "file:///a/b.png"),
    "custom link": (link("db://a/b", "application/json"), "db://a/b"),
    "custom image link": (link("db://a/c", "image/png"), "db://a/c"),
    "embedded text": (resource("db://t", text="inside", mimeType="text/plain"), "db://t"),
    "embedded text without a type": (resource("db://t", text="inside"), "db://t"),
    "embedded blank text": (resource("db://t", text=" "), "db://t"),
    "embedded pdf": (resource("db://a.pdf", blob=WAV, mimeType="application/pdf"), "db://a.pdf"),
    "embedded zip": (resource("db://a.zip", blob=WAV, mimeType="application/zip"), "db://a.zip"),
    "embedded bytes": (resource("db://bytes", blob=WAV), "db://bytes"),
    "embedded image": (resource("db://a.png", blob=PIXEL, mimeType="image/png"), "db://a.png"),
    "embedded audio": (resource("db://a.wav", blob=WAV, mimeType="audio/wav"), "db://a.wav"),
    "embedded video": (resource("db://a.mp4", blob=WAV, mimeType="video/mp4"), "db://a.mp4"),
    "URI-only resource": (resource("db://only"), "db://only"),
    "unknown block": ({"type": "hologram", "uri": "db://holo", "depth": 3}, "db://holo"),
}
"""Each block, with what the request to the provider has to hold."""

RESULTS: dict[str, tuple[Json, str]] = {
    **{name: ({"content": [block]}, needed) for name, (block, needed) in BLOCKS.items()},
    "structured content": ({"content": [], "structuredContent": {"at": "db://s"}}, "db://s"),
    "nothing": ({"content": []}, "The tool returned nothing"),
    "everything": ({"content": [block for block, _ in BLOCKS.values()]}, "db://only"),
}


def openai_chat(messages: Sequence[BaseMessage]) -> Any:
    model = ChatOpenAI(model="gpt-5", api_key=SecretStr("k"))
    return model._get_request_payload(messages)  # pyright: ignore[reportPrivateUsage]


def openai_responses(messages: Sequence[BaseMessage]) -> Any:
    model = ChatOpenAI(model="gpt-5", api_key=SecretStr("k"), use_responses_api=True)
    return model._get_request_payload(messages)  # pyright: ignore[reportPrivateUsage]


def anthropic(messages: Sequence[BaseMessage]) -> Any:
    model = ChatAnthropic(model_name="claude-sonnet-4-5", api_key=SecretStr("k"))  # pyright: ignore[reportCallIssue]
    return model._get_request_payload(messages)  # pyright: ignore[reportPrivateUsage]


def gemini(messages: Sequence[BaseMessage]) -> Any:
    _, history = _parse_chat_history(messages)
    return [content.model_dump(mode="json", exclude_none=True) for content in history]


def blocks_of_langchain(messages: Sequence[BaseMessage]) -> Any:
    return messages[-1].content_blocks


CONVERTERS: list[Callable[[Sequence[BaseMessage]], Any]] = [
    openai_chat,
    openai_responses,
    anthropic,
    gemini,
    blocks_of_langchain,
]


@pytest.fixture
def echo(tmp_path: Path) -> Json:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([SHOW]))
    return {"echo": {"command": sys.executable, "args": [str(ECHO), str(tools)]}}


def request(tool: str, result: Json) -> Json:
    return {"type": "tool_call", "id": "call_1", "name": tool, "args": {"result": result}}


def flat(request: Any) -> str:
    """Write a request as text that has no escapes."""
    return json.dumps(request, ensure_ascii=False, default=str).replace("\\", "")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("handling", [None, "content", "artifact"])
@pytest.mark.parametrize("standard", [True, False])
async def test_every_result_reaches_every_provider_with_its_address(
    echo: Json, standard: bool, handling: str | None
) -> None:
    options: Json = {"use_standard_content_blocks": standard, "output_handling": handling}
    failed: list[str] = []
    async with MultiServerMCPClient(echo, **options) as client:
        (tool,) = await client.get_tools()
        for name, (result, needed) in RESULTS.items():
            call = request(tool.name, result)
            message = await tool.ainvoke(call)
            assert isinstance(message, ToolMessage)
            asked = AIMessage("", tool_calls=[{**call, "args": {}}])
            is_resource = "resource" in str(result)
            for convert in CONVERTERS:
                try:
                    sent = flat(convert([HumanMessage("Hi"), asked, message]))
                except Exception as error:  # noqa: BLE001
                    failed.append(f"{name}, {convert.__name__}: {error!r}")
                    continue
                # What is set aside as a whole, the program has.
                aside = "" if is_resource or handling != "artifact" else flat(message.artifact)
                if needed not in sent + aside:
                    failed.append(f"{name}, {convert.__name__}: {needed} is missing in {sent}")

    assert failed == []


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "disk full"}]},
        {"content": [resource("db://log", text="disk full")]},
        {"content": [], "structuredContent": {"reason": "disk full"}},
    ],
    ids=["text", "resource", "structured"],
)
async def test_no_setting_hides_what_a_tool_says_of_its_failure(
    echo: Json, result: Json, standard: bool
) -> None:
    options: Json = {"use_standard_content_blocks": standard, "output_handling": "artifact"}
    async with MultiServerMCPClient(echo, **options) as client:
        (tool,) = await client.get_tools()
        message = await tool.ainvoke(request(tool.name, {**result, "isError": True}))

    assert message.status == "error"
    assert "disk full" in flat(message.content)


async def test_audio_is_in_the_artifact_of_a_message_and_in_the_content_of_a_plain_call(
    echo: Json,
) -> None:
    audio = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
    async with MultiServerMCPClient(echo) as client:
        (tool,) = await client.get_tools()
        message = await tool.ainvoke(request(tool.name, {"content": [audio]}))
        content = await tool.ainvoke({"result": {"content": [audio]}})

    assert message.content == "[audio/wav, 12 B, not shown]"
    assert message.artifact["content"] == [audio]
    assert content == [{"type": "audio", "base64": WAV, "mime_type": "audio/wav"}]
