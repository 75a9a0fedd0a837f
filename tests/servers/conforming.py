"""A server with the tools, resources and prompts that the MCP conformance suite calls by name."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from plait.testing.serve_transports import serve_on_port

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg=="
)
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

server = MCPServer("conforming", log_level="WARNING")


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def resource(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(resource=contents)


@server.tool(structured_output=False)
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> list[types.ContentBlock]:
    """Return an image."""
    return [types.ImageContent(data=PIXEL, mime_type="image/png")]


@server.tool(structured_output=False)
def test_audio_content() -> list[types.ContentBlock]:
    """Return a sound."""
    return [types.AudioContent(data=SOUND, mime_type="audio/wav")]


@server.tool(structured_output=False)
def test_embedded_resource() -> list[types.ContentBlock]:
    """Return a resource."""
    words = "This is an embedded resource content."
    return [resource("test://embedded-resource", "text/plain", words)]


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[types.ContentBlock]:
    """Return a text, an image and a resource."""
    words = json.dumps({"test": "data", "value": 123})
    return [
        text("Multiple content types test:"),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
        resource("test://mixed-content-resource", "application/json", words),
    ]


@server.tool(structured_output=False)
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(words)  # pyright: ignore[reportDeprecated]
        await asyncio.sleep(0.05)
    return "logged"


test_logging_tool = server.tool(name="test_logging_tool", structured_output=False)(
    test_tool_with_logging
)


@server.tool(structured_output=False)
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@server.tool(structured_output=False)
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool(structured_output=False)
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Use the client's model."""
    said = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
        [types.SamplingMessage(role="user", content=text(prompt))], max_tokens=100
    )
    content: Any = said.content
    return f"LLM response: {content.text}"


async def elicited(ctx: Context, message: str, schema: dict[str, Any]) -> str:
    answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"


def form(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


@server.tool(structured_output=False)
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answer = await elicited(ctx, message, form(fields, "username", "email"))
    return f"User response: {answer}"


@server.tool(structured_output=False)
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with defaults."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    answer = await elicited(ctx, "Please review", form(fields))
    return f"Elicitation completed: {answer}"


@server.tool(structured_output=False)
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with all kinds of choices."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await elicited(ctx, "Please choose", form(fields))
    return f"Elicitation completed: {answer}"


@server.tool(structured_output=False)
async def test_missing_capability(ctx: Context) -> str:
    """Need a capability that the client may not have."""
    able = ctx.client_capabilities
    if able is None or able.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is needed", needed)
    return "there"


@server.tool(structured_output=False)
async def test_trigger_tool_change(ctx: Context) -> str:
    """Announce other tools."""
    await ctx.notify_tools_changed()
    return "announced"


@server.tool(structured_output=False)
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Announce other prompts."""
    await ctx.notify_prompts_changed()
    return "announced"


# Results that ask, which only clients of the modern era get.


def elicitation(message: str, **fields: str) -> types.ElicitRequest:
    schema = form({name: {"type": kind} for name, kind in fields.items()}, *fields)
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(params=params)


def sampling(words: str, most: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(words))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=most)
    return types.CreateMessageRequest(params=params)


def given(ctx: Context, key: str) -> Any:
    """Return an answer that can be used, or `None`."""
    answer: Any = (ctx.input_responses or {}).get(key)
    if isinstance(answer, types.ElicitResult) and not (answer.content or answer.action != "accept"):
        return None
    return answer


def asking(
    state: str | None = None, /, **requests: types.InputRequest
) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


Asking = types.CallToolResult | types.InputRequiredResult


def done(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[text(words)])


@server.tool(structured_output=False)
async def test_input_required_result_elicitation(ctx: Context) -> Asking:
    """Ask for a name."""
    answer = given(ctx, "user_name")
    if answer is None:
        return asking(user_name=elicitation("What is your name?", name="string"))
    return done(f"Hello, {(answer.content or {}).get('name')}!")


test_streaming_elicitation = server.tool(
    name="test_streaming_elicitation", structured_output=False
)(test_input_required_result_elicitation)


@server.tool(structured_output=False)
async def test_input_required_result_sampling(ctx: Context) -> Asking:
    """Ask the client's model."""
    answer = given(ctx, "capital_question")
    if answer is None:
        return asking(capital_question=sampling("What is the capital of France?", 100))
    return done(answer.content.text)


@server.tool(structured_output=False)
async def test_input_required_result_list_roots(ctx: Context) -> Asking:
    """Ask for the roots."""
    answer = given(ctx, "client_roots")
    if answer is None:
        return asking(client_roots=types.ListRootsRequest())
    return done(", ".join(str(root.uri) for root in answer.roots))


@server.tool(structured_output=False)
async def test_input_required_result_request_state(ctx: Context) -> Asking:
    """Ask, and check the state."""
    if given(ctx, "confirm") is None:
        return asking("state-1", confirm=elicitation("Please confirm", ok="boolean"))
    return done("state-ok" if ctx.request_state == "state-1" else "no state")


test_input_required_result_tampered_state = server.tool(
    name="test_input_required_result_tampered_state", structured_output=False
)(test_input_required_result_request_state)


@server.tool(structured_output=False)
async def test_input_required_result_multiple_inputs(ctx: Context) -> Asking:
    """Ask three things at once."""
    keys = ("user_name", "greeting", "client_roots")
    if any(given(ctx, key) is None for key in keys):
        return asking(
            "all",
            user_name=elicitation("What is your name?", name="string"),
            greeting=sampling("Generate a greeting", 50),
            client_roots=types.ListRootsRequest(),
        )
    return done("thanks for all three")


@server.tool(structured_output=False)
async def test_input_required_result_multi_round(ctx: Context) -> Asking:
    """Ask twice."""
    if ctx.request_state is None:
        return asking("round-1", step1=elicitation("Step 1: What is your name?", name="string"))
    if ctx.request_state == "round-1":
        question = "Step 2: What is your favorite color?"
        return asking("round-2", step2=elicitation(question, color="string"))
    return done("both rounds are over")


@server.tool(structured_output=False)
async def test_input_required_result_capabilities(ctx: Context) -> Asking:
    """Ask only what the client can answer."""
    able, requests = ctx.client_capabilities, dict[str, types.InputRequest]()
    if able is not None and able.elicitation is not None:
        requests["name"] = elicitation("What is your name?", name="string")
    if able is not None and able.sampling is not None:
        requests["greeting"] = sampling("Generate a greeting", 50)
    if not requests or any(given(ctx, key) is not None for key in requests):
        return done("nothing to ask")
    return asking(**requests)


@server.resource("test://static-text", mime_type="text/plain", description="A text")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png", description="An image")
def static_binary() -> bytes:
    import base64

    return base64.b64decode(PIXEL)


@server.resource("test://watched-resource", mime_type="text/plain", description="One to watch")
def watched() -> str:
    return "watched"


@server.resource("test://template/{id}/data", mime_type="application/json", description="Data")
def template(id: str) -> str:  # noqa: A002
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt()
def test_simple_prompt() -> str:
    """Return a text."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Fill in two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803
    """Embed a resource."""
    from mcp.server.mcpserver import UserMessage

    words = "Embedded resource content for testing."
    return [
        UserMessage(resource(resourceUri, "text/plain", words)),
        UserMessage("Please process the embedded resource above."),
    ]


@server.prompt()
def test_prompt_with_image() -> list[Any]:
    """Show an image."""
    from mcp.server.mcpserver import UserMessage

    return [
        UserMessage(types.ImageContent(data=PIXEL, mime_type="image/png")),
        UserMessage("Please analyze the image above."),
    ]


@server.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    del ref, context
    words = ("paris", "park", "party")
    return types.Completion(values=[word for word in words if word.startswith(argument.value)])


async def list_with_raw_schema(ctx: Any, call_next: Any) -> Any:
    """Add the tool whose schema no function has."""
    result = await call_next(ctx)
    if ctx.method == "tools/list":
        tool = types.Tool(
            name="json_schema_2020_12_tool",
            description="Tool with JSON Schema 2020-12 features",
            input_schema=SCHEMA,
        )
        tools: list[Any] = [*result["tools"], tool.model_dump(by_alias=True, exclude_none=True)]
        result = {**result, "tools": tools}
    return result


def main() -> None:
    server.middleware.append(list_with_raw_schema)
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    serve_on_port(server.streamable_http_app())


if __name__ == "__main__":
    main()
