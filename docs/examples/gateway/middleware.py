import asyncio
from dataclasses import dataclass

from langchain.agents import create_agent
from microsoft_agents.activity import Activity
from microsoft_agents.hosting.core import TurnContext

from plait.gateway import GatewayToolsMiddleware, McpToolRegistrationService, Outbox
from plait.testing import MockGateway, ScriptedChatModel, tool_call


@dataclass
class Context:
    turn_context: TurnContext


async def main() -> None:
    message = {
        "type": "message",
        "id": "message-1",
        "text": "What is on Monday?",
        "conversation": {"id": "conversation-1"},
    }
    turn = TurnContext(object(), Activity.model_validate(message))
    model = ScriptedChatModel([[tool_call("listEvents", day="Monday")], "Two meetings."])
    outbox = Outbox("outbox.db")

    with MockGateway("mocks") as gateway:
        async with McpToolRegistrationService(
            endpoint=gateway.url,
            environ={"ENVIRONMENT": "Development"},
            use_manifest=False,  # ask the gateway itself
            outbox=outbox,
            redact=True,
        ) as service:
            agent = create_agent(
                model, middleware=[GatewayToolsMiddleware(service)], context_schema=Context
            )
            question = {"role": "user", "content": "What is on Monday? My password=hunter22"}
            state = await agent.ainvoke({"messages": [question]}, context=Context(turn))
            print("tool:", state["messages"][2].text)

            sent = await service.send_chat_history_from_messages(turn, state["messages"], limit=10)
            print("stored:", sent)
            print("delivered:", await asyncio.to_thread(outbox.flush, 10))
        print("arrived:", gateway.histories()[0]["chatHistory"][0]["content"])


asyncio.run(main())
