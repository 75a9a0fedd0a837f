import asyncio
import logging

from microsoft_agents.activity import Activity
from microsoft_agents.hosting.core import TurnContext

from plait.gateway import McpToolRegistrationService
from plait.langchain import AgentSpec
from plait.testing import MockGateway, ScriptedChatModel, tool_call

logging.disable(logging.WARNING)  # the failure below is printed by the program itself

MODEL = ScriptedChatModel(  # or any chat model of LangChain: "anthropic:…", "openai:…"
    [
        [tool_call("listEvents", day="Monday"), tool_call("sendMail", to="Bo", subject="Review")],
        "The review is at 15:00; Bo knows.",
    ]
)


async def on_message(service: McpToolRegistrationService, turn: TurnContext) -> str:
    agent = await service.add_tool_servers_to_agent(AgentSpec(MODEL), None, None, turn)
    found = service.registration_of(agent)
    print("servers:", *found.servers)
    print("without:", *found.failures)

    question = {"role": "user", "content": turn.activity.text}
    state = await agent.ainvoke({"messages": [question]})

    sent = await service.send_chat_history_from_messages(turn, state["messages"])
    print("history:", sent)
    return state["messages"][-1].text


async def main() -> None:
    message = {  # what a channel such as Teams sends
        "type": "message",
        "id": "message-1",
        "text": "When is the review? Tell Bo.",
        "channelId": "msteams",
        "conversation": {"id": "conversation-1"},
        "from": {"id": "ada"},
    }
    turn = TurnContext(object(), Activity.model_validate(message))

    with MockGateway("mocks") as gateway:  # or a terminal with: plait gateway mock
        async with McpToolRegistrationService(endpoint=gateway.url, use_manifest=True) as service:
            print("answer:", await on_message(service, turn))
        for one in gateway.histories()[0]["chatHistory"]:
            print(" ", one["role"], "wrote:", one["content"])


asyncio.run(main())
