"""Messages of tools are made without validation, and are what LangChain's constructor makes."""

from __future__ import annotations

import copy
import pickle

import pytest
from langchain_core.load import dumps
from langchain_core.messages import ToolMessage

from plait.langchain.tools.content import ToolOutput, message_from


def _made_by_langchain(output: ToolOutput) -> ToolMessage:
    return ToolMessage(
        content="hello",
        artifact=output.artifact,
        tool_call_id="7",
        name="echo",
        status="error" if output.is_error else "success",
    )


@pytest.mark.parametrize("is_error", [False, True])
def test_a_message_is_equal_to_one_of_the_constructor(is_error: bool) -> None:
    output = ToolOutput("hello", {"server": "s"}, is_error=is_error)
    message, expected = message_from(output, "7", "echo"), _made_by_langchain(output)

    assert message == expected
    assert vars(message) == vars(expected)
    assert list(vars(message)) == list(vars(expected))
    assert message.__pydantic_extra__ == expected.__pydantic_extra__
    assert message.__pydantic_private__ == expected.__pydantic_private__
    assert message.model_fields_set == expected.model_fields_set
    assert message.model_dump() == expected.model_dump()
    assert repr(message) == repr(expected)
    assert dumps(message) == dumps(expected)
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == expected
    assert message.model_copy(update={"id": "1"}).id == "1"


def test_messages_share_nothing_that_can_be_changed() -> None:
    output = ToolOutput("hello", {"server": "s"})
    first, second = message_from(output, "7", "echo"), message_from(output, "8", "echo")
    first.additional_kwargs["a"] = 1
    first.response_metadata["b"] = 2
    first.id = "3"
    first.model_fields_set.add("d")

    assert second == message_from(output, "8", "echo")
    assert second.model_fields_set == message_from(output, "8", "echo").model_fields_set


def test_a_call_id_that_is_no_text_is_converted_by_langchain() -> None:
    call_id: object = 7
    message = message_from(ToolOutput("hello", {}), call_id, "echo")  # pyright: ignore[reportArgumentType]

    assert message.tool_call_id == "7"
