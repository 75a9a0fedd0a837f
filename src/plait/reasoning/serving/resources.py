"""Sessions as MCP resources that clients can read and subscribe to."""

from __future__ import annotations

import re
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait.reasoning.export.document import read_document
from plait.reasoning.export.formats import EXPORTERS
from plait.reasoning.serving.changes import session_uri
from plait.reasoning.serving.service import Service

_PAGE = 100
_URI = re.compile(r"reasoning://sessions/(?P<key>[^/]+)(?:/(?P<format>[a-z]+))?")
_OLD_NOT_FOUND = -32002
"""The error code of the older protocol era."""

TEMPLATES = (
    types.ResourceTemplate(
        name="session",
        title="A reasoning session",
        uri_template="reasoning://sessions/{session_id}",
        description="A session with its thoughts, branches, checkpoints and graphs.",
        mime_type="application/json",
    ),
    types.ResourceTemplate(
        name="session-document",
        title="A reasoning session as a document",
        uri_template="reasoning://sessions/{session_id}/{format}",
        description="A session as json, markdown, mermaid, dot or svg.",
    ),
)


async def list_templates(
    _ctx: object, _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """List the resource templates."""
    return types.ListResourceTemplatesResult(resource_templates=[*TEMPLATES])


async def list_resources(
    service: Service, _ctx: object, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """List sessions, the most recently changed first."""
    cursor = params.cursor if params else None
    if cursor is not None and not cursor.isdecimal():
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor")
    offset = int(cursor or 0)
    lines = await service.store.list_sessions(limit=_PAGE + 1, offset=offset)
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=session_uri(line.session.id),
                name=line.session.id,
                title=line.title or line.session.id,
                description=f"{line.session.mode}, {line.session.status}, {line.thoughts} thoughts",
                mime_type="application/json",
            )
            for line in lines[:_PAGE]
        ],
        next_cursor=str(offset + _PAGE) if len(lines) > _PAGE else None,
    )


async def read_resource(
    service: Service, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read a session as a document; without a format, as JSON."""
    match = _URI.fullmatch(params.uri)
    session = await service.store.get_session(match["key"]) if match else None
    exporter = EXPORTERS.get(match["format"] or "json") if match else None
    if session is None or exporter is None:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        code = types.INVALID_PARAMS if modern else _OLD_NOT_FOUND
        raise MCPError(code, f"Resource not found: {params.uri}", {"uri": params.uri})
    exported = exporter(await read_document(service.store, session))
    return types.ReadResourceResult(
        contents=[
            types.TextResourceContents(
                uri=params.uri, mime_type=exported.mime_type, text=exported.content
            )
        ]
    )
