"""The toolbox of a run: the same servers, filters and descriptions in every engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

from plait._support.redact import Redactor
from plait.agents.model_config import ModelConfig
from plait.agents.servers import MCPServerConfig, convert_mcp_config
from plait.client.config.secrets import secret_values
from plait.client.options import ClientOptions
from plait.client.toolbox import Toolbox
from plait.models.providers import keys_in
from plait.traces.observer import Observer


def toolbox_for(
    model_config: ModelConfig,
    mcp_servers: Mapping[str, MCPServerConfig] | None = None,
    *,
    observers: Sequence[Observer] = (),
    **options: Unpack[ClientOptions],
) -> Toolbox | None:
    """Make the toolbox of a run; `None` if it has no servers.

    Without `mcp_servers` they are those of the configuration. A run needs each of its servers,
    unless that one says `required: false`. `options` win over what the configuration says.

    Raises:
        ConfigError: A server is described wrongly.
    """
    servers = servers_for(model_config, mcp_servers)
    if not servers:
        return None
    settings: ClientOptions = {}
    if model_config.mcp_tool_filter is not None:
        settings["include"] = model_config.mcp_tool_filter
    if model_config.mcp_tool_description_overrides:
        settings["tool_overrides"] = {
            name: {"description": text}
            for name, text in model_config.mcp_tool_description_overrides.items()
        }
    return Toolbox({"servers": servers}, observers=observers, **{**settings, **options})


def servers_for(
    model_config: ModelConfig, mcp_servers: Mapping[str, MCPServerConfig] | None
) -> dict[str, Any]:
    """Write the servers of a run as a configuration of plait has them."""
    given: Mapping[str, object] = (
        convert_mcp_config(model_config.mcp_urls_dict or {}) if mcp_servers is None else mcp_servers
    )
    return {name: _server(server, model_config) for name, server in given.items()}


def redactor_for(model_config: ModelConfig, toolbox: Toolbox | None) -> Redactor:
    """Make what hides the secrets of a run: keys of models, and those of the servers.

    Among them are the keys in the environment, which libraries find by themselves.
    """
    servers = () if toolbox is None else toolbox.config.servers.values()
    hidden = (secret for server in servers for secret in secret_values(server))
    return Redactor([*model_config.secrets(), *keys_in(os.environ), *hidden])


def _server(server: object, model_config: ModelConfig) -> object:
    if isinstance(server, str):
        server = convert_mcp_config({"": server})[""]
    if not isinstance(server, Mapping):
        return server
    config = dict(cast("Mapping[str, Any]", server))
    if config.get("type") == "sdk":
        return config.get("instance")
    if "url" in config and not str(config["url"]).startswith("ws"):
        if model_config.mcp_http_timeout is not None:
            config.setdefault("timeout", model_config.mcp_http_timeout)
        if model_config.mcp_sse_read_timeout is not None:
            config.setdefault("sse_read_timeout", model_config.mcp_sse_read_timeout)
    return {"required": True, **config}
