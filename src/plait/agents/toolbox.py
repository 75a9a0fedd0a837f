"""The toolbox of a run: the same servers, filters and descriptions on every engine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Unpack

from plait._support.redact import Redactor
from plait.agents.model_config import ModelConfig
from plait.agents.recording import RunObserver
from plait.agents.servers import AgentServers, convert_mcp_config, read_servers
from plait.client.config.read import ClientConfig
from plait.client.config.secrets import secret_values
from plait.client.options import ToolboxOptions
from plait.client.toolbox import Toolbox
from plait.models.providers import keys_in

_GUARDS: Final = ("lock", "lockfile", "policy")
"""The options that decide about a tool by its current definition."""


@contextlib.asynccontextmanager
async def toolbox_of_run(
    model_config: ModelConfig,
    mcp_servers: AgentServers | None,
    tool_options: Mapping[str, Any],
    observer: RunObserver,
) -> AsyncGenerator[Toolbox | None]:
    """Open the toolbox of a run; `None` if it has no servers.

    Raises:
        ConfigError: A server or an option is wrong.
    """
    servers = servers_for(model_config, mcp_servers)
    options = dict(tool_options)
    # A run lists its tools once: only a guard needs to follow their changes.
    guards = {**servers.options, **options}
    options.setdefault("follow_tools", any(guards.get(name) for name in _GUARDS))
    observers = (observer, *options.pop("observers", ()))
    if (on_elicitation := options.get("on_elicitation")) is not None:
        options["on_elicitation"] = observer.recording(on_elicitation)
    toolbox = toolbox_for(model_config, servers, observers=observers, **options)
    async with toolbox or contextlib.nullcontext():
        yield toolbox


def toolbox_for(
    model_config: ModelConfig,
    mcp_servers: AgentServers | None = None,
    **options: Unpack[ToolboxOptions],
) -> Toolbox | None:
    """Create the toolbox of a run; `None` if it has no servers.

    Without `mcp_servers` they are those of the model's configuration. `options` win over the
    options of both configurations.

    Raises:
        ConfigError: A server or an option is wrong.
    """
    servers = servers_for(model_config, mcp_servers)
    if not servers.servers:
        return None
    settings: ToolboxOptions = {}
    if model_config.mcp_tool_filter is not None:
        settings["include"] = model_config.mcp_tool_filter
    if model_config.mcp_tool_description_overrides:
        settings["tool_overrides"] = {
            name: {"description": text}
            for name, text in model_config.mcp_tool_description_overrides.items()
        }
    return Toolbox(servers, **{**settings, **options})


def servers_for(model_config: ModelConfig, mcp_servers: AgentServers | None) -> ClientConfig:
    """Return the servers of a run, by default those of the model's configuration.

    Raises:
        ConfigError: A server is described wrongly.
    """
    if mcp_servers is None:
        mcp_servers = convert_mcp_config(model_config.mcp_urls_dict or {})
    timeouts = {
        "timeout": model_config.mcp_http_timeout,
        "sse_read_timeout": model_config.mcp_sse_read_timeout,
    }
    return read_servers(
        mcp_servers, {name: seconds for name, seconds in timeouts.items() if seconds is not None}
    )


def redactor_for(model_config: ModelConfig, toolbox: Toolbox | None) -> Redactor:
    """Create the redactor of a run: it hides the keys of models and the secrets of servers.

    The keys include those in the environment, which provider libraries read themselves.
    """
    servers = () if toolbox is None else toolbox.config.servers.values()
    secrets = (secret for server in servers for secret in secret_values(server))
    return Redactor([*model_config.secrets(), *keys_in(os.environ), *secrets])
