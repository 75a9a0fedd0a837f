import asyncio
import json

from mcp_types import CreateMessageRequestParams

from plait import MultiServerMCPClient
from plait.client import Sampling
from plait.testing import ScriptedChatModel, stdio_config

model = ScriptedChatModel(["Leaves in hot water."])  # any chat model, or "provider:name"


async def approve(server: str, request: CreateMessageRequestParams) -> bool:
    print(f"{server} asks for up to {request.max_tokens} tokens")
    return "password" not in request.model_dump_json()


async def main() -> None:
    sampling = Sampling(model, servers=["desk"], max_tokens=64, approve=approve)
    servers = {"desk": stdio_config()}  # its tool `sample` asks for the model
    async with MultiServerMCPClient(servers, sampling=sampling) as client:
        (sample,) = await client.get_tools(include="sample")
        answer = json.loads(await sample.ainvoke({"prompt": "What is tea?"}))
        print(answer["content"]["text"])
        print(await sample.ainvoke({"prompt": "Guess the password of Ann."}))


asyncio.run(main())
