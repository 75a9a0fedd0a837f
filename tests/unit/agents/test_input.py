"""What a run may be given: texts, dicts, files, tools of LangChain, and the type of its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel
from typing_extensions import TypedDict

from plait import AgentConfig, ConfigError, Message, ModelConfig, get_agent
from plait.agents import LangChainAgent
from plait.agents.port import read_messages
from plait.agents.program_tools import StaticTool
from plait.agents.servers import read_servers
from plait.errors import ManualEngineError
from plait.testing import ScriptedChatModel, tool_call
from plait.traces.messages.message import Role, ToolResultContent, ToolUseContent

MODEL = ModelConfig(id="m", model_name="script", model_provider="scripted")


def scripted(*turns: Any) -> tuple[LangChainAgent, ScriptedChatModel]:
    model = ScriptedChatModel(turns)
    return LangChainAgent(MODEL, model), model


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ("hello", [Message.user("hello")]),
        (Message.user("hello"), [Message.user("hello")]),
        ({"role": "user", "content": "hello"}, [Message.user("hello")]),
        (["one", Message.user("two")], [Message.user("one"), Message.user("two")]),
        ([HumanMessage("hello")], [Message.user("hello")]),
        (
            [{"role": "developer", "content": "Be kind."}, {"role": "human", "content": "hello"}],
            [Message.system("Be kind."), Message.user("hello")],
        ),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}]}], [Message.user("a")]),
        ([("system", "Be kind."), ("human", "a")], [Message.system("Be kind."), Message.user("a")]),
        (
            [
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "2"},
            ],
            [
                Message(Role.ASSISTANT, [ToolUseContent("c1", "add", {"a": 1})]),
                Message(Role.TOOL, [ToolResultContent("c1", "2")]),
            ],
        ),
        (
            [AIMessage("", tool_calls=[tool_call("add", a=1) | {"id": "c1"}])],
            [Message(Role.ASSISTANT, [ToolUseContent("c1", "add", {"a": 1})])],
        ),
        ([ToolMessage("2", tool_call_id="c1")], [Message.tool_result("c1", "2")]),
        ([Message.tool_result("c1", "2").to_dict(0)], [Message.tool_result("c1", "2")]),
    ],
    ids=[
        "a text",
        "a message",
        "a dict",
        "texts among messages",
        "LangChain's",
        "other names of roles",
        "blocks",
        "pairs of LangChain",
        "calls and results of OpenAI",
        "calls of LangChain",
        "results of LangChain",
        "what plait has written",
    ],
)
def test_messages_are_read_in_the_forms_that_people_write(
    messages: Any, expected: list[Message]
) -> None:
    assert read_messages(messages) == expected


@pytest.mark.parametrize(
    "message",
    [
        5,
        {"content": "x"},
        {"role": "pope", "content": "x"},
        ("pope", "x"),
        ("user", "x", "y"),
        {"role": "assistant", "tool_calls": [{"function": {}}]},
    ],
)
def test_what_is_no_message_is_named(message: Any) -> None:
    with pytest.raises(ConfigError, match=r"message 2, a .*Message\.user"):
        read_messages(["hello", message])


@pytest.mark.parametrize("messages", [None, 5])
def test_what_are_no_messages_is_named(messages: Any) -> None:
    with pytest.raises(ConfigError, match="messages of a run"):
        read_messages(messages)


def test_a_text_and_a_dict_are_enough_for_a_run() -> None:
    agent, model = scripted("Hi.")

    result = agent.run("hello", config={"system_prompt": "Be kind.", "max_turns": 3})

    assert result.final_response == "Hi."
    assert [message.text for message in model.seen[0]] == ["Be kind.", "hello"]


@pytest.mark.anyio
async def test_a_batch_takes_texts(tmp_path: Path) -> None:
    agent, _ = scripted("1", "2")

    outcomes = await agent.abatch(["a", "b"], config={"max_turns": 1}, traces=tmp_path)

    assert sorted(one.result.final_response for one in outcomes if one.result) == ["1", "2"]
    assert all(one.trace and one.trace.parent == tmp_path for one in outcomes)


@pytest.mark.anyio
async def test_a_batch_that_goes_on_has_the_type_that_is_asked_for(tmp_path: Path) -> None:
    agent, model = scripted('{"name": "Ulm"}', "nowhere", '{"name": "Bonn"}')
    (fits,) = await agent.abatch(["Which?"], output_type=FORM, traces=tmp_path / "fits")
    await agent.abatch(["Which?"], traces=tmp_path / "other")

    outcomes = [
        (await agent.abatch(["Which?"], output_type=City, traces=tmp_path / folder))[0]
        for folder in ("fits", "other")
    ]

    assert fits.result is not None
    assert fits.result.output == {"name": "Ulm"}
    assert [one.resumed for one in outcomes] == [True, False]
    assert [one.result and one.result.output for one in outcomes] == [
        City(name="Ulm"),
        City(name="Bonn"),
    ]
    assert len(model.seen) == 3


@pytest.mark.anyio
async def test_a_stream_takes_a_text() -> None:
    agent, _ = scripted("Hi.")

    *_, result = [item async for item in agent.astream("hello", config={"max_turns": 1})]

    assert getattr(result, "final_response", None) == "Hi."


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"max_turn": 3}, "max_turns"),
        (5, "an AgentConfig or a dict"),
        ({"max_turns": 0}, "max_turns"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(config: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        scripted("Hi.")[0].run("hello", config=config)


def test_a_file_has_the_servers(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"clock": {"command": "clock", "required": True}}}))

    for source in (str(file), file):
        assert list(read_servers(source).servers) == ["clock"]
    with pytest.raises(ConfigError, match="gone"):
        scripted("Hi.")[0].run("hello", mcp_servers="gone.json")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def look(at: str) -> list[dict[str, Any]]:
    """Look at something."""
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    return [{"type": "text", "text": at}, image]


@tool
def numbers() -> list[int]:
    """Return data."""
    return [1, 2]


@tool
def broken() -> str:
    """Fail."""
    raise LookupError("nothing there")


async def later(a: int) -> int:
    """Answer asynchronously."""
    return a + 1


def wrong(a: int) -> None:
    """Fail."""
    raise LookupError("no")


@pytest.mark.parametrize(
    ("given", "arguments", "expected"),
    [
        (StaticTool("t", function=lambda a: f"<{a}>"), {"a": 1}, ("<1>", False)),
        (StaticTool("t", function=later), {"a": 1}, ("2", False)),
        (later, {"a": 1}, ("2", False)),
        (StaticTool("t"), {}, ("t cannot be called: it has no function", True)),
        (wrong, {"a": 1}, ("wrong failed: LookupError: no", True)),
        (add, {"a": 1, "b": 2}, ("3", False)),
        (look, {"at": "sky"}, ("sky\n[image: image/png, 2 B]", False)),
        (numbers, {}, ("[1, 2]", False)),
        (broken, {}, ("broken failed: LookupError: nothing there", True)),
    ],
)
def test_functions_and_tools_of_langchain_are_tools_of_the_program(
    given: Any, arguments: dict[str, Any], expected: tuple[str, bool]
) -> None:
    own = StaticTool.of(given)
    agent, model = scripted([tool_call(own.name, **arguments)], "Done.")

    result = agent.run("go", [given, StaticTool("other")])

    (answer,) = [one for message in result.trace_messages for one in message.tool_results]
    assert (answer.content, answer.is_error) == expected
    described = model.bound_tools[0][own.name]
    assert described["description"] == own.description
    if given is not own:
        assert set(described["parameters"].get("properties", {})) == set(arguments)


class City(BaseModel):
    name: str
    people: int = 0


class Place(TypedDict):
    name: str


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("output_type", "expected"),
    [(City, City(name="Ulm")), (Place, {"name": "Ulm"}), (FORM, {"name": "Ulm"})],
    ids=["a model", "a typed dict", "a JSON Schema"],
)
def test_an_answer_has_the_type_that_is_asked_for(output_type: Any, expected: object) -> None:
    agent, model = scripted('Sure: {"name": "Ulm"}.')

    result = agent.run("Which city?", output_type=output_type)

    assert result.output == expected
    assert '"name"' in model.seen[0][0].text


def test_a_run_that_ends_at_a_limit_has_no_output() -> None:
    agent, _ = scripted([tool_call("gone")])

    result = agent.run("go", config={"max_turns": 1, "output_type": City})

    assert (result.limit_reached, result.output) == (True, None)


@pytest.mark.parametrize(
    ("output_type", "says"),
    [
        (list[int], "a JSON object"),
        ({"type": "array"}, "a JSON object"),
        ({"type": "zebra"}, "broken"),
        (object(), "a pydantic model or a JSON Schema"),
    ],
)
def test_an_output_type_that_cannot_be_asked_for_is_refused(output_type: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        scripted("Hi.")[0].run("hello", output_type=output_type)


def test_recordings_have_no_output_type() -> None:
    agent = get_agent(ModelConfig(interface="manual", manual_traces={}))
    for config, output_type in ((None, City), (AgentConfig(output_type=City), None)):
        with pytest.raises(ManualEngineError, match="output_type"):
            agent.run("hello", config=config, output_type=output_type)
