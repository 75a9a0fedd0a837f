"""The program under test: what each conformance scenario asks of a client, done with plait.

The suite appends the address of its server to the command line and names the scenario in
`MCP_CONFORMANCE_SCENARIO`; what else a scenario has to say is JSON in `MCP_CONFORMANCE_CONTEXT`.
Newer suites say in `MCP_CONFORMANCE_PROTOCOL_VERSION` what their server speaks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from conformance_auth import REFUSED, auth_for
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from plait import AuthRequiredError, ForbiddenError, PlaitError, Toolbox, ToolResult

SERVER = "server"

Context = Mapping[str, Any]
Program = Callable[[Toolbox, Context], Awaitable[None]]


class UnexpectedError(Exception):
    """The server did not do its part of the scenario."""


async def connect(toolbox: Toolbox, context: Context) -> None:
    """Connect, and list what there is."""
    del context
    await toolbox.server_info(SERVER)
    await toolbox.tools(SERVER)


async def call_every_tool(toolbox: Toolbox, context: Context) -> None:
    """Call every tool the client offers, with arguments made up from its schema."""
    del context
    tools = await toolbox.tools(SERVER)
    if not tools:
        raise UnexpectedError("there are no tools")
    for tool in tools:
        await call(toolbox, tool.wire_name, example_of(tool.input_schema, tool.input_schema))


async def call_as_told(toolbox: Toolbox, context: Context) -> None:
    """Make the calls that the scenario lists, without listing the tools first."""
    for wanted in context["toolCalls"]:
        await call(toolbox, wanted["name"], wanted["arguments"])


async def use_everything(toolbox: Toolbox, context: Context) -> None:
    """Call every tool, read every resource, fill in every prompt."""
    await call_every_tool(toolbox, context)
    for resource in await toolbox.list_resources(SERVER):
        await toolbox.read_resource(SERVER, str(resource.item.uri))
    for prompt in await toolbox.list_prompts(SERVER):
        wanted = (one.name for one in prompt.item.arguments or () if one.required)
        await toolbox.get_prompt(SERVER, prompt.item.name, dict.fromkeys(wanted, "text"))


async def handle_foreign_schema(toolbox: Toolbox, context: Context) -> None:
    """Do everything with a tool that could make a client follow the addresses in its schema."""
    try:
        await call_every_tool(toolbox, context)
    except PlaitError as error:
        # The server lists the tool but has no answer to a call.
        print(f"not called: {error}", file=sys.stderr)


async def echo_schema(toolbox: Toolbox, context: Context) -> None:
    """Hand the first tool's schema, as it arrived, to the second."""
    del context
    tools = {tool.wire_name: tool for tool in await toolbox.tools(SERVER)}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await call(toolbox, "json_schema_echo", {"schema": schema})


async def sign_in(toolbox: Toolbox, context: Context) -> None:
    """Use every tool as far as the login allows."""
    try:
        await call_every_tool(toolbox, context)
    except ForbiddenError as error:
        # Some servers want scopes that they never grant; what counts is when a client gives up.
        print(f"not allowed: {error}", file=sys.stderr)


PROGRAMS: Mapping[str, Program] = {
    "initialize": connect,
    "tools_call": call_every_tool,
    "sse-retry": call_every_tool,
    "request-metadata": connect,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": handle_foreign_schema,
    "json-schema-2020-12-preservation": echo_schema,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sep-2322-client-request-state": call_every_tool,
}
"""What to do in each scenario."""

ASKING = frozenset({"elicitation-sep1034-client-defaults", "sep-2322-client-request-state"})
"""The scenarios whose servers ask the user."""

EXAMPLES: Mapping[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
}
"""A value of each JSON type."""


async def call(toolbox: Toolbox, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Call a tool that has to succeed."""
    result = await toolbox.call(SERVER, tool, arguments)
    if result.is_error:
        raise UnexpectedError(f"{tool} failed: {result.text}")
    return result


def example_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Make up a value that a simple schema allows; of an object, only what is required."""
    reference = schema.get("$ref", "")
    if reference.startswith("#/"):
        target: Any = root
        for key in reference.removeprefix("#/").split("/"):
            target = target[key]
        return example_of(target, root)
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: example_of(properties[name], root) for name in schema.get("required", ())}
    return EXAMPLES.get(schema.get("type", ""))


async def accept(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Accept every question, and leave it to the defaults to say more."""
    del context
    if not isinstance(params, ElicitRequestFormParams):
        return ElicitResult(action="accept")
    wanted = params.requested_schema
    required = {**wanted, "required": wanted.get("required", ())}
    made_up = example_of(required, required)
    fields = wanted.get("properties", {})
    return ElicitResult(
        action="accept",
        content={name: made_up[name] for name in made_up if "default" not in fields[name]},
    )


async def run(scenario: str, server: Mapping[str, Any], context: Context) -> str | None:
    """Go through one scenario, and return the protocol version that was spoken."""
    # With a callback, `auto` prefers the handshake era on servers that speak both.
    asks = scenario in ASKING
    callback = {"on_elicitation": lambda _: accept} if asks else {}
    async with Toolbox({SERVER: server}, roots=[Path.cwd()], **callback) as toolbox:
        try:
            await PROGRAMS.get(scenario, sign_in)(toolbox, context)
        except AuthRequiredError as error:
            if scenario not in REFUSED:
                raise
            print(f"not signed in, as it should be: {error}", file=sys.stderr)
            return os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
        if scenario in REFUSED:
            raise UnexpectedError("signed in where it must not")
        return (await toolbox.server_info(SERVER)).protocol_version


def main() -> None:
    """Run the scenario the environment names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocol", default="auto", help="plait's setting of the same name")
    parser.add_argument("url")
    options = parser.parse_args()
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    server: dict[str, Any] = {"url": options.url, "protocol": options.protocol}
    if scenario.startswith("auth/"):
        server["auth"] = auth_for(scenario, options.url, context)
    spoken = asyncio.run(run(scenario, server, context))
    expected = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", spoken)
    if spoken != expected:
        raise UnexpectedError(f"spoke {spoken} with a server of {expected}")


if __name__ == "__main__":
    main()
