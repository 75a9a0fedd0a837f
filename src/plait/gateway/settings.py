"""Gateway settings from arguments and environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlsplit

from plait.errors import ConfigError

PLATFORM = "https://agent365.svc.cloud.microsoft"
"""The hosted gateway."""

PLATFORM_APPLICATION = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
"""The application, and audience, that all older tool servers share."""

DEFAULT_SCOPE = f"{PLATFORM_APPLICATION}/.default"

NO_APPLICATION = "00000000-0000-0000-0000-000000000000"
"""The id of an unknown agent."""

_ENVIRONMENTS = (
    "PYTHON_ENVIRONMENT",
    "ENVIRONMENT",
    "ASPNETCORE_ENVIRONMENT",
    "DOTNET_ENVIRONMENT",
)

ApiVersion = Literal[1, 2]
"""The version of the gateway's API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """URLs and mode of the gateway."""

    endpoint: str = PLATFORM
    scope: str = DEFAULT_SCOPE
    api_version: ApiVersion = 2
    development: bool = False
    """Whether tokens come from the environment instead of a token exchange."""
    use_manifest: bool = False
    """Whether servers come from a `ToolingManifest.json`."""

    def discovery_url(self, agent: str) -> str:
        """Return the URL that lists the servers of an agent."""
        version = "" if self.api_version == 1 else "v2/"
        return f"{self.endpoint}/agents/{version}{quote(agent, safe='')}/mcpServers"

    def server_url(self, name: str) -> str:
        """Return the URL of a server whose entry has none."""
        return f"{self.endpoint}/agents/servers/{quote(name, safe='')}"

    @property
    def catalogue_url(self) -> str:
        """The URL that lists all servers."""
        return f"{self.endpoint}/agents/discoverToolServers"

    @property
    def history_url(self) -> str:
        """The URL that receives chat history."""
        return f"{self.endpoint}/agents/real-time-threat-protection/chat-message"


def settings_from(
    environ: Mapping[str, str] | None = None,
    *,
    endpoint: str | None = None,
    scope: str | None = None,
    use_manifest: bool | None = None,
    api_version: ApiVersion = 2,
) -> GatewaySettings:
    """Read the settings; arguments win over the environment."""
    variables = os.environ if environ is None else environ
    development = is_development(variables) or use_manifest is True
    address = (endpoint or variables.get("MCP_PLATFORM_ENDPOINT") or PLATFORM).strip().rstrip("/")
    if urlsplit(address).scheme not in {"http", "https"} or not urlsplit(address).netloc:
        raise ConfigError(f"MCP_PLATFORM_ENDPOINT is not the address of a gateway: {address!r}")
    return GatewaySettings(
        endpoint=address,
        scope=scope or variables.get("MCP_PLATFORM_AUTHENTICATION_SCOPE") or DEFAULT_SCOPE,
        api_version=api_version,
        development=development,
        use_manifest=development if use_manifest is None else use_manifest,
    )


def is_development(environ: Mapping[str, str]) -> bool:
    """Say whether a variable names the environment `development`."""
    named = next((environ[name] for name in _ENVIRONMENTS if environ.get(name)), "")
    return named.strip().lower() == "development"
