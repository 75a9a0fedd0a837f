"""Reads agent, user and channel from a turn, and makes the headers of requests."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plait.gateway.credentials import claim
from plait.gateway.port import TurnContext
from plait.gateway.settings import NO_APPLICATION, GatewaySettings

SDK_VERSION = "2.0.0"
"""The version of the platform's own library that these headers follow."""

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
"""Characters allowed in headers; other ones, as in ids of channels, are percent-encoded."""

_SALT = secrets.token_bytes(16)
"""Makes keys differ between processes, so that a leaked one is useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRequestOptions:
    """Options of a request to the gateway."""

    orchestrator_name: str | None = None
    """The agent framework, for the `User-Agent` header."""


def user_agent(options: GatewayRequestOptions) -> str:
    """Return the `User-Agent` header."""
    parts = [platform.system(), f"Python {platform.python_version()}"]
    if options.orchestrator_name:
        parts.append(options.orchestrator_name)
    return f"Agent365SDK/{SDK_VERSION} ({'; '.join(parts)})"


def tool_headers(
    settings: GatewaySettings,
    options: GatewayRequestOptions,
    *,
    token: str = "",
    turn: TurnContext | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers for tool servers, without those that have no value."""
    authorization = {"Authorization": f"Bearer {token}" if token else ""}
    headers = {**authorization, **_common_headers(options, turn)}
    if settings.api_version != 1:
        headers["x-ms-agentid"] = caller_of(turn, token, application_name(environ))
    return _sendable(headers)


def discovery_headers(
    settings: GatewaySettings,
    options: GatewayRequestOptions,
    *,
    token: str,
    turn: TurnContext | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers for listing servers; version 1 of the API has only two of them."""
    if settings.api_version == 1:
        return tool_headers(settings, options, token=token)
    headers = tool_headers(settings, options, token=token, turn=turn, environ=environ)
    activity = None if turn is None else turn.activity.id
    return _sendable({**headers, "x-ms-correlation-id": activity or str(uuid.uuid4())})


def history_headers(
    options: GatewayRequestOptions, turn: TurnContext | None = None
) -> dict[str, str]:
    """Return the headers for chat history, which is sent without a token."""
    return _sendable({**_common_headers(options, turn), "Content-Type": "application/json"})


def _common_headers(options: GatewayRequestOptions, turn: TurnContext | None) -> dict[str, str]:
    channel, sub_channel = ("", "") if turn is None else channels_of(turn)
    return {
        "x-ms-channel-id": channel,
        "x-ms-subchannel-id": sub_channel,
        "User-Agent": user_agent(options),
    }


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """Drop headers without a value, and percent-encode characters that are not allowed."""
    return {name: quote(value, safe=_PRINTABLE) for name, value in headers.items() if value}


def application_name(environ: Mapping[str, str] | None = None) -> str:
    """Return the name of the application, from the environment or its `pyproject.toml`."""
    variables = os.environ if environ is None else environ
    return variables.get("AGENT365_APPLICATION_NAME") or _project_name(Path.cwd())


@lru_cache(maxsize=8)
def _project_name(folder: Path) -> str:
    try:
        project: Any = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        return str(project["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def agent_of(turn: TurnContext, token: str) -> str:
    """Return the id of the agent that is addressed.

    An agent without an identity of its own is identified by the application of its token.
    """
    if turn.activity.is_agentic_request():
        return turn.activity.get_agentic_instance_id() or ""
    return application_of(token)


def application_of(token: str) -> str:
    """Return the application of a token; the zero id if there is no token."""
    return claim(token, "appid", "azp") if token.strip() else NO_APPLICATION


def caller_of(turn: TurnContext | None, token: str, application_name: str) -> str:
    """Return the id that an agent sends to servers (`x-ms-agentid`)."""
    sender: Any = None if turn is None else getattr(turn.activity, "from_property", None)
    for name in ("agentic_app_blueprint_id", "agenticAppBlueprintId"):
        if blueprint := getattr(sender, name, None):
            return str(blueprint)
    return claim(token, "xms_par_app_azp", "appid", "azp") or application_name


def channels_of(turn: TurnContext) -> tuple[str, str]:
    """Return channel and sub-channel of a turn; a missing one is empty."""
    whole = turn.activity.channel_id or ""
    outer, _, inner = whole.partition(":")
    channel = getattr(whole, "channel", None) or outer
    sub_channel = getattr(whole, "sub_channel", None) or inner
    return str(channel).strip(), str(sub_channel).strip()


def owner_key(token: str) -> str:
    """Return a hash that identifies the owner of a token.

    It stays the same when the token is renewed; a token that names no owner is hashed itself.
    """
    owner = [claim(token, name) for name in ("tid", "oid", "sub", "appid", "azp")]
    return _fingerprint(*(owner if any(owner[1:3]) else [token]))


def token_key(token: str) -> str:
    """Return a hash that identifies a token."""
    return _fingerprint(token)


def user_key(turn: TurnContext, token: str, *, accepted: bool = True) -> str:
    """Return a hash that identifies the user of a turn on its channel.

    It differs between users: the owner of the token and the sender of the message are part of it.
    A token that no gateway has `accepted` speaks for itself only: its claims may be forged.
    """
    owner = owner_key(token) if accepted else token_key(token)
    sender: Any = getattr(turn.activity, "from_property", None)
    ids = (str(getattr(sender, name, None) or "") for name in ("id", "aad_object_id"))
    return _fingerprint(owner, *ids, agent_of(turn, token), *channels_of(turn))


def _fingerprint(*parts: str) -> str:
    # With lengths, so that no part can pretend to be two.
    text = "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=_SALT, digest_size=16).hexdigest()
