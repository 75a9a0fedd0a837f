"""What the raw server answers: JSON that the SDK's own servers would never let out.

| mode                  | what is wrong                                                        |
| --------------------- | -------------------------------------------------------------------- |
| unknown-block         | a content block of a type nobody knows                               |
| uri-only-resource     | an embedded resource with a URI, but neither text nor blob           |
| image-without-type    | an image without `mimeType`                                          |
| link-without-name     | a resource link without `name`                                       |
| no-content            | a result without `content`                                           |
| content-string        | `content` is a plain string                                          |
| content-object        | `content` is one block instead of a list                             |
| null-result           | the result is `null`                                                 |
| breaks-schema         | structured content that breaks the tool's output schema              |
| tool-without-schema   | `tools/list` has a tool without `inputSchema`                        |
| tool-with-bad-schema  | `tools/list` has a tool whose `inputSchema` is a string              |
| tool-without-name     | `tools/list` has a tool without `name`                               |
| two-pages             | `tools/list` comes in two pages                                      |
| duplicate-names       | `tools/list` has the same name twice                                 |
| negative-ttl          | `tools/list` has a negative `ttlMs`                                  |
| noise                 | lines that are no JSON around every answer (stdio only)              |
| all                   | all of these together                                                |

The tool `good` is always there and answers well. A mode that spoils a result has a tool of the
same name, which answers with the good text block "before" beside the spoiled part where it can.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

MODERN_VERSION = "2026-07-28"
LEGACY_VERSION = "2025-11-25"
SERVER_INFO = {"name": "raw server", "version": "1.0.0"}
CAPABILITIES = {"tools": {}, "resources": {}}

BEFORE: Json = {"type": "text", "text": "before"}
AFTER: Json = {"type": "text", "text": "after"}
SCHEMA: Json = {"type": "object", "properties": {}}


def _between(broken: Json) -> Json:
    return {"content": [BEFORE, broken, AFTER]}


RESULTS: dict[str, Json | None] = {
    "good": {"content": [{"type": "text", "text": "good"}]},
    "unknown-block": _between({"type": "hologram", "depth": 3, "data": "AAAA"}),
    "uri-only-resource": _between({"type": "resource", "resource": {"uri": "raw://only/uri"}}),
    "image-without-type": _between({"type": "image", "data": "iVBORw0KGgo="}),
    "link-without-name": _between({"type": "resource_link", "uri": "raw://a/link"}),
    "no-content": {"structuredContent": {"total": 3}},
    "content-string": {"content": "just a string"},
    "content-object": {"content": {"type": "text", "text": "one block"}},
    "null-result": None,
    "breaks-schema": {"content": [BEFORE], "structuredContent": {"total": "many"}},
}
"""The result of each tool."""

BAD_TOOLS: dict[str, Json] = {
    "tool-without-schema": {"name": "schemaless", "description": "No inputSchema"},
    "tool-with-bad-schema": {"name": "bad_schema", "description": "?", "inputSchema": "object"},
    "tool-without-name": {"description": "Nameless", "inputSchema": SCHEMA},
}
"""The entries of `tools/list` that are no tools."""

LIST_MODES = ("two-pages", "duplicate-names", "negative-ttl")

MODES = (*(name for name in RESULTS if name != "good"), *BAD_TOOLS, *LIST_MODES, "noise", "all")


def answer(mode: str, message: Json, *, era: str) -> Json | None:
    """Return the JSON-RPC answer to a message; `None` to a notification."""
    if "id" not in message:
        return None
    reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        result = _result(mode, message["method"], message.get("params") or {}, era)
    except LookupError as error:
        return {**reply, "error": {"code": -32601, "message": f"Method not found: {error}"}}
    return {**reply, "result": result}


def _result(mode: str, method: str, params: Json, era: str) -> Json | None:
    modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
    match method:
        case "initialize" if era != "modern":
            return {
                "protocolVersion": LEGACY_VERSION,
                "capabilities": CAPABILITIES,
                "serverInfo": SERVER_INFO,
            }
        case "server/discover" if era != "legacy":
            result = {"supportedVersions": [MODERN_VERSION], "capabilities": CAPABILITIES}
            return _modern(result)
        case "ping":
            return {}
        case "tools/list":
            result = list_tools(mode, params.get("cursor"))
        case "tools/call":
            result = RESULTS.get(params["name"], RESULTS["good"])
        case "resources/list":
            result = {"resources": [{"uri": "raw://only/uri", "name": "only"}]}
        case "resources/read":
            result = {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}"}]}
        case _:
            raise LookupError(method)
    return _modern(result) if modern and result is not None else result


def list_tools(mode: str, cursor: str | None = None) -> Json:
    """Return one page of `tools/list`."""
    tools = [_tool(name) for name in RESULTS if name == "good" or mode in {name, "all"}]
    if mode in {"duplicate-names", "all"}:
        tools.append(_tool("good"))
    page: Json = {"tools": tools}
    for name, entry in BAD_TOOLS.items():
        if mode in {name, "all"}:
            # In the middle, so that a reader that stops at it loses good tools.
            tools.insert(len(tools) // 2, entry)
    if mode in {"negative-ttl", "all"}:
        page |= {"ttlMs": -1, "cacheScope": "private"}
    if mode in {"two-pages", "all"}:
        if cursor == "page-2":
            return {"tools": [_tool("second-page")]}
        page["nextCursor"] = "page-2"
    return page


def _tool(name: str) -> Json:
    tool: Json = {"name": name, "description": f"Answers as the mode {name}", "inputSchema": SCHEMA}
    if name == "breaks-schema":
        properties = {"total": {"type": "integer"}}
        tool["outputSchema"] = {"type": "object", "properties": properties, "required": ["total"]}
    return tool


def _modern(result: Json) -> Json:
    meta = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
    return {"ttlMs": 0, "cacheScope": "private", "resultType": "complete", "_meta": meta, **result}
