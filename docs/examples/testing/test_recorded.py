"""A test that needs its server only once."""

from langchain.agents import create_agent

from plait import MultiServerMCPClient
from plait.client import Tape
from plait.testing import ScriptedChatModel, server_stdio_config, tool_call


def test_the_agent_adds(plait_tape: Tape) -> None:
    model = ScriptedChatModel([[tool_call("add_numbers", a=20, b=22)], "It is 42."])

    with MultiServerMCPClient({"sums": server_stdio_config()}, record=plait_tape) as client:
        agent = create_agent(model, client.get_tools_blocking())
        state = agent.invoke({"messages": [{"role": "user", "content": "What is 20 + 22?"}]})

    assert [message.text for message in state["messages"]][-2:] == ["42", "It is 42."]
