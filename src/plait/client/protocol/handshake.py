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
from plait.client.protocol.read_results import HANDSHAKE_VERSION, result_of
from plait.client.protocol.repair import is_plain_handshake
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
        try:
            raw = await _discovered(session, mode)
        except RequestError as error:
            if mode not in _named_versions(error)[1]:
                raise
            raw = await _discovered(session, mode)  # it refuses a version that it then lists
        result = types.DiscoverResult.model_validate(raw)
        if not _adopt(session, result):
            theirs, ours = result.supported_versions, list(types.version.MODERN_PROTOCOL_VERSIONS)
            raise RuntimeError(
                f"No mutually supported modern protocol version (server: {theirs}, client: {ours})"
            )


async def _negotiate_era(session: McpSession) -> None:
    version = types.version.LATEST_MODERN_VERSION
    for attempt in range(2):
        try:
            raw = await _discovered(session, version)
        except RequestError as refused:
            named, mutual = _named_versions(refused)
            if mutual and attempt == 0:
                version = mutual[-1]
                continue
            if named is not None and set(named).isdisjoint(
                types.version.HANDSHAKE_PROTOCOL_VERSIONS
            ):
                raise  # it is only modern
            try:
                await _initialize(session)
            except RequestError as second:
                # It names its versions now: a slow server had taken the first request after all.
                _, mutual = _named_versions(second)
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


def _named_versions(error: RequestError) -> tuple[list[str] | None, list[str]]:
    """Return the versions that a refusal names, and those of them that this client prefers."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return None, []
    named = supported_versions(error.data)
    return named, [one for one in types.version.MODERN_PROTOCOL_VERSIONS if one in (named or ())]
