"""OpenAI's chat model, as the engine uses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import openai
import pytest
from typing_extensions import override

from plait import ModelConfig
from plait._support.redact import Redactor
from plait.agents.engines.langchain.openai_model import EndpointChatModel
from plait.agents.model_failures import failure_of_model

pytestmark = pytest.mark.anyio


class Parts(httpx2.AsyncByteStream):
    """A stream whose second part comes at the moment when its reader is cancelled."""

    reader: asyncio.Task[None]

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield part("one")
        self.reader.cancel()
        yield part("two")
        await asyncio.Event().wait()


def part(text: str) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}}
    data = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return f"data: {json.dumps({**data, 'choices': [choice]})}\n\n".encode()


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "overloaded", "param": None},
        {
            "type": "response.failed",
            "response": {"id": "r", "error": {"code": "server_error", "message": "overloaded"}},
        },
    ],
)
async def test_a_response_that_fails_while_it_streams_may_be_requested_again(
    event: dict[str, Any],
) -> None:
    body = f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': 0})}\n\n"
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, text=body))
    async with httpx2.AsyncClient(transport=transport) as client:
        model = EndpointChatModel(
            model="m",
            base_url="http://127.0.0.1/v1",
            api_key="none",
            http_async_client=client,
            use_responses_api=True,
        )
        with pytest.raises(openai.APIError) as failed:
            async for _ in model.astream("Go on."):
                pass

    config = ModelConfig(id="m", model_name="m", model_provider="openai")
    failure = failure_of_model(failed.value, config, Redactor())
    assert (failure.status, failure.retryable) == (500, True)


async def test_a_cancellation_that_comes_with_a_chunk_is_not_lost() -> None:
    parts = Parts()
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=parts))
    async with httpx2.AsyncClient(transport=transport) as client:
        model = EndpointChatModel(
            model="m", base_url="http://127.0.0.1/v1", api_key="none", http_async_client=client
        )

        async def read() -> None:
            async for _ in model.astream("Go on."):
                pass

        parts.reader = asyncio.create_task(read())
        with anyio.fail_after(5):
            await asyncio.wait([parts.reader])

    assert parts.reader.cancelled()
