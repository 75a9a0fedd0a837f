"""A session that the user manages, of MCP SDK 1.x or 2.x, as what lists and calls tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import mcp
from mcp import types as sdk_types
from mcp.client.session import ClientSession
from pydantic import RootModel, TypeAdapter

from plait._support import mcp_types as types
from plait._support.own_types import own_type
from plait.client.connections.status import ServerInfo
from plait.client.protocol.peer import RequestError
from plait.client.protocol.repair import repair_result
from plait.client.protocol.tool_rows import row_of
from plait.client.transports.sdk_messages import IS_SDK_1
from plait.langchain.client.sessions import row_of_any
from plait.langchain.library_internals import dispatcher_of, with_dispatcher

if TYPE_CHECKING:
    from mcp import Client

    from plait.client.protocol.exchange import OnProgress

AnySession: TypeAlias = "Client | ClientSession"
"""A session of the MCP SDK: the high-level client of SDK 2.x, or the session in it."""

_STOCK: tuple[type, ...] = (ClientSession,) if IS_SDK_1 else (ClientSession, mcp.Client)


def _info_of_types(
    capabilities: types.ServerCapabilities,
    info: types.Implementation | None = None,
    version: str | None = None,
    instructions: str | None = None,
) -> ServerInfo:
    plain = (
        value and value.model_dump(by_alias=True, mode="json", exclude_none=True)
        for value in (info, capabilities)
    )
    sent_info, declared = plain
    return ServerInfo(sent_info, version, declared, instructions)


async def info_of(session: AnySession) -> ServerInfo:
    """Return what a server has declared; a session that is not initialized is initialized."""
    opened: Any = session
    declared: Any = opened.get_server_capabilities() if IS_SDK_1 else opened.server_capabilities
    if not isinstance(declared, sdk_types.ServerCapabilities):  # but None, or of a mock
        result = own_type(types.InitializeResult, await opened.initialize())
        return _info_of_types(
            result.capabilities, result.server_info, result.protocol_version, result.instructions
        )
    if IS_SDK_1:  # it keeps nothing else of the handshake
        return _info_of_types(own_type(types.ServerCapabilities, declared))
    return _info_of_types(
        declared, opened.server_info, opened.protocol_version, opened.instructions
    )


def user_session(session: AnySession) -> UserSession:
    """Return the part of the SDK's client that lists and calls tools, over any session."""
    return OldUserSession(session) if IS_SDK_1 else UserSession(session)


class UserSession:
    """A session of SDK 2.x whose results are repaired before the SDK validates them."""

    def __init__(self, session: AnySession) -> None:
        self._session: Any = session
        self.notes: list[str] = []
        """What was repaired in lists of tools."""

    def overrides(self, method: str) -> bool:
        """Return whether a method is not that of the SDK, but a mock or of a subclass."""
        function = getattr(getattr(self._session, method), "__func__", None)
        return function not in {getattr(stock, method) for stock in _STOCK}

    @property
    def session(self) -> Any:
        """The session, which sends requests with this object where that can be arranged."""
        opened = getattr(self._session, "session", self._session)  # of a client, or one itself
        self._dispatcher = dispatcher_of(opened)
        return opened if self._dispatcher is None else with_dispatcher(opened, self)

    async def send_raw_request(self, method: str, *args: Any) -> Any:
        """Send a request as the dispatcher of the session."""
        result = await self._dispatcher.send_raw_request(method, *args)
        return self._repaired_result(method, result)

    def _repaired_result(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        version = self.protocol_version or types.LATEST_PROTOCOL_VERSION
        repaired = repair_result(method, result, version)
        self.notes += repaired.notes if method == "tools/list" else ()
        return repaired.result

    @property
    def protocol_version(self) -> str | None:
        """What the session has agreed on with the server, if it says so."""
        return getattr(self._session, "protocol_version", None)

    async def tool_page(self, cursor: str | None = None) -> dict[str, Any]:
        """Return one page of the tools as JSON."""
        if not self.overrides("list_tools"):
            page = await self._list_tools(types.PaginatedRequestParams(cursor=cursor))
            return {
                "tools": [row_of(tool) for tool in page.tools],
                "nextCursor": page.next_cursor,
                "ttlMs": page.ttl_ms,
                "cacheScope": page.cache_scope,
            }
        is_session = isinstance(self._session, ClientSession)
        params = sdk_types.PaginatedRequestParams(cursor=cursor)
        more = {"params": params} if is_session else {"cursor": cursor}
        listed = await self._session.list_tools(**more if cursor else {})
        after = getattr(listed, "nextCursor" if IS_SDK_1 else "next_cursor", None)
        return {
            "tools": list(map(row_of_any, listed.tools)),
            "nextCursor": after if isinstance(after, str) else None,  # a mock has any attribute
        }

    async def _list_tools(self, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        return await self.session.list_tools(params=params if params.cursor else None)


class OldUserSession(UserSession):
    """A session of SDK 1.x, whose results become types of this package once they are repaired."""

    @property
    def session(self) -> OldUserSession:
        """The object itself, which sends requests."""
        return self

    async def send_request(
        self,
        request: types.Request[Any, Any],
        result_type: TypeAdapter[Any],
        *,
        progress_callback: OnProgress | None = None,
    ) -> Any:
        """Send a request and return its result, or raise `RequestError`."""
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        known: Any = TypeAdapter(sdk_types.ClientRequest).validate_python(data)
        try:
            answer = await self._session.send_request(
                known, RootModel[dict[str, Any]], progress_callback=progress_callback
            )
        except Exception as error:
            if isinstance(detail := getattr(error, "error", None), sdk_types.ErrorData):
                raise RequestError(detail.code, detail.message, detail.data) from None
            raise
        raw = self._repaired_result(data["method"], answer.root)
        return result_type.validate_python(raw, by_name=False)

    async def _list_tools(self, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        request = types.ListToolsRequest(params=params)
        return await self.send_request(request, TypeAdapter(types.ListToolsResult))
