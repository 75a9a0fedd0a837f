import asyncio

from mcp.server import MCPServer

from plait import MultiServerMCPClient

library = MCPServer("library", log_level="ERROR", instructions="Ask for a book by its name.")


@library.prompt()
def review(title: str) -> str:
    """Ask for a review."""
    return f"Write a review of {title}."


@library.resource("book://moby-dick", name="moby-dick", mime_type="text/plain")
def moby_dick() -> str:
    """Begin a long story."""
    return "Call me Ishmael."


@library.resource("book://by/{author}", name="by-author", mime_type="text/plain")
def by_author(author: str) -> str:
    """List what an author wrote."""
    return f"{author}: one book"


async def main() -> None:
    client = MultiServerMCPClient({"library": library}, resources_as_tools=True)
    async with client:
        (message,) = await client.get_prompt("library", "review", arguments={"title": "Emma"})
        print(f"{message.type}: {message.content}")

        for blob in await client.get_resources("library"):
            print(blob.metadata["uri"], blob.mimetype, blob.as_string())
        (blob,) = await client.get_resources("library", uris="book://by/austen")
        print(blob.as_string())

        for listed in await client.list_resource_templates():
            print(listed.server, listed.item.uri_template)
        facts = (await client.get_server_info())["library"]
        print(facts.instructions)

        tools = {tool.name: tool for tool in await client.get_tools()}
        print("tools:", *tools)
        found = await tools["read_resource"].ainvoke(
            {"server": "library", "uri": "book://moby-dick"}
        )
        print(found)


asyncio.run(main())
