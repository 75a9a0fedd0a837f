"""Request headers for the gateway and its tool servers."""

from __future__ import annotations

import os
import platform
import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plait.gateway.port import TurnContext
from plait.gateway.settings import GatewaySettings
from plait.gateway.turns import caller_of, channels_of

SDK_VERSION = "2.0.0"
"""The version of the platform's own library that these headers follow."""

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
"""Characters allowed in headers; other ones, as in ids of channels, are percent-encoded."""


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
