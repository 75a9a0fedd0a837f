import asyncio
import json
from typing import Annotated

from mcp.server import MCPServer
from pydantic import BaseModel, Field

from plait import MultiServerMCPClient
from plait.client import schema_for_provider

travel = MCPServer("travel", log_level="ERROR")


class Stop(BaseModel):
    city: str
    nights: Annotated[int, Field(ge=1, le=30)] = 1


@travel.tool()
def plan(stops: list[Stop], budget: float | None = None) -> str:
    """Plan a journey."""
    return f"{len(stops)} stops, {sum(stop.nights for stop in stops)} nights, budget {budget}"


async def main() -> None:
    async with MultiServerMCPClient({"travel": travel}) as client:
        for profile in ("default", "openai_strict", "gemini"):
            (tool,) = await client.get_tools(profile=profile)
            print(f"{profile}: {json.dumps(tool.args['stops']['items'])}")

        (strict,) = await client.get_tools(profile="openai_strict")
        stops = [{"city": "Rome", "nights": None}, {"city": "Pisa", "nights": 2}]
        print(await strict.ainvoke({"stops": stops, "budget": None}))

    tags = {"properties": {"tags": {"type": "array", "uniqueItems": True}}}
    for note in schema_for_provider(tags, "gemini").notes:
        print("lost:", note)


asyncio.run(main())
