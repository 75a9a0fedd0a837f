"""The parser port: a model fills a schema, and is shown what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, StrictInt

from plait import Message, ModelConfig
from plait.agents import AgentParser, LangChainAgent, ParserPort, get_parser
from plait.errors import EngineUnavailableError, ParseError
from plait.testing import ScriptedChatModel

pytestmark = pytest.mark.anyio

MODEL = ModelConfig(id="m", model_name="script", model_provider="scripted", interface="langchain")
ASK = [Message.user("How many apples are in the text? There are four apples.")]


class Apples(BaseModel):
    count: StrictInt


def parser(*replies: Any, **options: Any) -> tuple[AgentParser, ScriptedChatModel]:
    model = ScriptedChatModel(list(replies))
    return AgentParser(LangChainAgent(MODEL, model), **options), model


async def test_the_model_sees_the_schema_and_its_reply_is_parsed() -> None:
    port, model = parser('Sure: {"count": 4}')
    result = await port.aparse_to_pydantic(ASK, Apples)
    assert result.parsed == Apples(count=4)
    assert result.usage.total_tokens > 0
    assert isinstance(port, ParserPort)
    rule, question = (message.text for message in model.seen[0])
    assert question.endswith("four apples.")
    assert '"count"' in rule


async def test_a_reply_that_does_not_fit_is_requested_again_with_the_reason() -> None:
    port, model = parser('{"count": "four"}', "four", '{"count": 4}')
    result = await port.aparse_to_pydantic(ASK, Apples)
    assert result.parsed.count == 4
    texts = [message.text for message in model.seen[2]]
    assert "count: Input should be a valid integer" in texts[3]
    assert "there is no JSON object" in texts[5]
    first = parser('{"count": 4}')[0]
    assert (
        result.usage.total_tokens > (await first.aparse_to_pydantic(ASK, Apples)).usage.total_tokens
    )


async def test_after_its_retries_the_last_reply_is_in_the_error() -> None:
    port, model = parser("four", "five", "six", max_retries=1)
    with pytest.raises(ParseError) as caught:
        await port.aparse_to_pydantic(ASK, Apples)
    assert caught.value.raw_response == "five"
    assert caught.value.usage is not None
    assert caught.value.usage.total_tokens > 0
    assert len(model.seen) == 2


def test_a_program_without_a_loop_may_wait_for_it(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(['{"count": 4}']))
    config = MODEL.model_copy(update={"model_name": str(script)})
    assert get_parser(config).parse_to_pydantic(ASK, Apples).parsed.count == 4


def test_recordings_cannot_parse() -> None:
    config = ModelConfig(interface="manual", manual_traces={})
    with pytest.raises(EngineUnavailableError):
        get_parser(config)
