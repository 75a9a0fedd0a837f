"""Opens a session: finds out which era a server is of, and what it declares.

A modern server is asked by `server/discover`. Whatever does not prove that it is modern leads to
`initialize`, the handshake of the era before.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from plait._support import mcp_types as types
from plait.client.protocol.peer import RequestError
from plait.client.protocol.repair import is_plain_handshake
from plait.client.protocol.results import HANDSHAKE_VERSION, result_of
from plait.client.protocol.session import McpSession

DISCOVER_SECONDS = 10.0
"""How long a server may take to answer whether it is modern."""


async def negotiate(session: McpSession, mode: str) -> None:
    """Make the handshake: `legacy`, `auto`, or that of one modern version.

    Raises:
        RequestError: The server refused it, or did not answer.
        RuntimeError: It answered with a version that this client does not know.
    """
    if mode == "legacy":
        await _initialize(session)
    elif mode == "auto":
        await _negotiate_era(session)
    else:
        await _discover_version(session, mode)


async def _negotiate_era(session: McpSession) -> None:
    version = types.version.LATEST_MODERN_VERSION
    for attempt in range(2):
        try:
            raw = await _discovered(session, version)
        except RequestError as refused:
            mutual = _mutual_versions(refused)
            if mutual and attempt == 0:
                version = mutual[-1]
                continue
            if _is_modern_only(refused):
                raise
            try:
                await _initialize(session)
            except RequestError as second:
                # It names its versions now: a slow server had taken the first request after all.
                mutual = _mutual_versions(second)
                if not mutual or attempt > 0:
                    raise
                version = mutual[-1]
                continue
            return
        ttl = raw.get("ttlMs")
        if isinstance(ttl, int | float) and ttl < 0:
            raw = {**raw, "ttlMs": 0}
        try:
            is_modern = _adopt(session, types.DiscoverResult.model_validate(raw))
        except ValidationError:
            is_modern = False
        if not is_modern:
            await _initialize(session)
        return


async def _discover_version(session: McpSession, version: str) -> None:
    """Discover a modern server; ask again if it refuses a version that it then lists."""
    try:
        raw = await _discovered(session, version)
    except RequestError as error:
        if version not in _mutual_versions(error):
            raise
        raw = await _discovered(session, version)
    result = types.DiscoverResult.model_validate(raw)
    if not _adopt(session, result):
        text = f"No mutually supported modern protocol version (server: {result.supported_versions}"
        raise RuntimeError(f"{text}, client: {list(types.version.MODERN_PROTOCOL_VERSIONS)})")


async def _discovered(session: McpSession, version: str) -> dict[str, Any]:
    params = {"_meta": session.meta_for(version)}
    ended = await session.request(
        "server/discover", params, timeout_seconds=DISCOVER_SECONDS, version=version
    )
    return result_of(ended)


def _adopt(session: McpSession, result: types.DiscoverResult) -> bool:
    """Adopt what a server declares, and return whether it and this client know a modern version."""
    known = types.version.MODERN_PROTOCOL_VERSIONS
    mutual = [version for version in known if version in result.supported_versions]
    if not mutual:
        return False
    session.begin(result.model_dump(by_alias=True, mode="json", exclude_none=True), mutual[-1])
    with suppress(ValidationError):  # it is only for display
        identity = (result.meta or {}).get(types.SERVER_INFO_META_KEY)
        if identity:
            types.Implementation.model_validate(identity)
            session.identity = identity
    return True


async def _initialize(session: McpSession) -> None:
    params = {
        "protocolVersion": types.version.LATEST_HANDSHAKE_VERSION,
        "capabilities": session.callbacks.capabilities(),
        "clientInfo": session.callbacks.client_info,
    }
    ended = await session.request("initialize", params, version=HANDSHAKE_VERSION)
    raw = result_of(ended)
    session.peer.note_repairs(ended)
    if not is_plain_handshake(raw):
        types.InitializeResult.model_validate(raw, by_name=False)
    version: str = raw["protocolVersion"]
    if version not in types.version.HANDSHAKE_PROTOCOL_VERSIONS:
        raise RuntimeError(f"Unsupported protocol version from the server: {version}")
    session.begin(raw, version)
    session.identity = raw["serverInfo"]
    await session.notify("notifications/initialized")


def supported_versions(data: object) -> list[str] | None:
    """Return the protocol versions in the data of an error; `None` if it names none."""
    try:
        return types.UnsupportedProtocolVersionErrorData.model_validate(data).supported
    except ValidationError:
        return None


def _mutual_versions(error: RequestError) -> list[str]:
    """Return the modern versions that a refusal names and this client knows."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return []
    named = supported_versions(error.data) or ()
    return [version for version in types.version.MODERN_PROTOCOL_VERSIONS if version in named]


def _is_modern_only(error: RequestError) -> bool:
    """Return whether a server names its versions, and none is of the era before."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return False
    named = supported_versions(error.data)
    return named is not None and not any(
        version in types.version.HANDSHAKE_PROTOCOL_VERSIONS for version in named
    )
