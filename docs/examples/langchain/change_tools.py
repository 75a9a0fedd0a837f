import asyncio
from contextvars import ContextVar

from mcp.server import MCPServer

from plait import MultiServerMCPClient

mail = MCPServer("mail", log_level="ERROR")


@mail.tool()
def send(to: str, body: str, account: str, footer: str = "", retries: int = 3) -> str:
    """Send mail."""
    return f"{account} to {to}: {body} {footer} ({retries} retries)"


user = ContextVar("user", default="nobody")

OVERRIDES = {
    "mail/send": {
        "name": "send_mail",
        "description": "{description} Only to colleagues.",
        "arguments": {
            "to": {"name": "recipient", "description": "A mail address."},
            "account": {"value": user.get},
            "footer": {"default": "Regards"},
            "retries": {"value": 0},
        },
    },
}


async def main() -> None:
    async with MultiServerMCPClient({"mail": mail}, tool_overrides=OVERRIDES) as client:
        (tool,) = await client.get_tools()
        print(f"{tool.name}: {tool.description}")
        print("the model sees:", *tool.args)

        user.set("ada")
        print(await tool.ainvoke({"recipient": "bob@example.com", "body": "Hello."}))
        forged = {"recipient": "bob@example.com", "body": "Hello.", "account": "root"}
        print(await tool.ainvoke(forged))


asyncio.run(main())
