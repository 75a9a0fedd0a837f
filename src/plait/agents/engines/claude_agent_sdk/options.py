"""The options and the environment with which Claude's command line is started for a run."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from claude_agent_sdk import ClaudeAgentOptions

from plait.agents.agent_run import AgentRun
from plait.agents.anthropic_api import NO_KEY, anthropic_url
from plait.agents.config import ModelConfig
from plait.agents.engines.claude_agent_sdk.bridge import Bridge
from plait.agents.engines.claude_agent_sdk.tools import CliTool, sdk_servers, server_keys
from plait.client.config.servers import HttpServer, ServerConfig, SseServer, StdioServer
from plait.errors import ConfigError
from plait.models.endpoints import is_loopback

logger = logging.getLogger("plait.agents")

_LONGEST_LINE: Final = 256 * 1024 * 1024
"""Bytes of one message of the command line, which may contain images."""

_RESERVED: Final = frozenset(
    {"allowed_tools", "can_use_tool", "permission_mode", "permission_prompt_tool_name", "tools"}
    | {"include_partial_messages", "max_turns", "setting_sources", "stderr"}
    | {"mcp_servers", "strict_mcp_config"}
)
"""The options that the run sets itself."""

_RESERVED_FLAGS: Final = frozenset(
    {"allow-dangerously-skip-permissions", "dangerously-skip-permissions", "permission-mode"}
    | {"allowed-tools", "allowedTools", "permission-prompt-tool", "tools"}
    | {"max-turns", "mcp-config", "setting-sources"}
)

_OPTIONS: Final = frozenset(field.name for field in fields(ClaudeAgentOptions))


def options_for(
    run: AgentRun,
    folder: Path,
    tools: Mapping[str, CliTool],
    bridge: Bridge,
    *,
    bridged: bool,
    stderr: Callable[[str], None],
) -> ClaudeAgentOptions:
    """Build the options of a run, and write the files that they name; this blocks."""
    extra = _extra_options(run.model_config.extra_kwargs or {})
    local_tools = [tool for tool in tools.values() if tool.is_local]
    # Calls that the command line makes itself are checked before: it makes them before the answer
    # is complete, and with arguments that are not an object.
    is_checked = not bridged or run.tool_option("policy") is not None
    flags: dict[str, str | None] = {"no-session-persistence": None}
    if not bridged and (servers := _passed_through(run)):
        # Not as an argument, which every user of the machine can read.
        flags["mcp-config"] = _write(folder / "servers.json", json.dumps(servers))
    work = folder / "work"
    work.mkdir(mode=0o700)
    settings: dict[str, Any] = {
        "model": run.model_config.model_name,
        "system_prompt": _system_prompt(run.system_prompt, folder),
        "cwd": run.settings.workspace_path or work,
        "skills": [],
        "verbatim_prompts": True,
        "max_buffer_size": _LONGEST_LINE,
        **extra,
        "max_turns": run.turns_left,
        "tools": [],
        "mcp_servers": sdk_servers(local_tools, bridge.call),
        "strict_mcp_config": True,
        "setting_sources": [],
        "disallowed_tools": ["Skill", *extra.get("disallowed_tools", ())],
        "allowed_tools": [] if is_checked else list(tools),
        "can_use_tool": bridge.may_use if is_checked else None,
        "include_partial_messages": True,
        "stderr": stderr,
        "extra_args": {**flags, **extra.get("extra_args", {})},
        "env": {**environment_for(run.model_config, folder), **extra.get("env", {})},
    }
    return ClaudeAgentOptions(**settings)


def _extra_options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the options that the run sets itself, with a warning."""
    if unknown := sorted(set(extra) - _OPTIONS):
        raise ConfigError(
            f"extra_kwargs holds {', '.join(unknown)}, which ClaudeAgentOptions does not know"
        )
    flags = dict(extra.get("extra_args") or {})
    kept = {name: value for name, value in extra.items() if name not in _RESERVED}
    removed = sorted((set(extra) & _RESERVED) | (set(flags) & _RESERVED_FLAGS))
    if flags:
        kept["extra_args"] = {name: flags[name] for name in flags if name not in removed}
    if removed:
        logger.warning("extra_kwargs: the run itself sets %s", ", ".join(removed))
    return kept


def _passed_through(run: AgentRun) -> dict[str, Any]:
    if run.toolbox is None:
        return {}
    servers = run.toolbox.config.servers.items()
    keys = server_keys(run.toolbox.server_names)
    return {"mcpServers": {keys[name]: cli_config(name, server) for name, server in servers}}


def _system_prompt(prompt: str | None, folder: Path) -> dict[str, str] | None:
    """Write the prompt to a file: arguments of a program are public, and limited in length."""
    if prompt is None or not prompt.strip():
        return None
    return {"type": "file", "path": _write(folder / "system.txt", prompt)}


def _write(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")
    return str(path)


def cli_config(
    name: str, server: ServerConfig, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Convert a server that the command line connects to itself."""
    match server:
        case StdioServer():
            return _program(name, server, environ)
        case HttpServer() | SseServer():
            return _remote(name, server)
        case _:
            raise _unsupported(name, f"its transport is {server.transport}")


def _program(name: str, server: StdioServer, environ: Mapping[str, str]) -> dict[str, Any]:
    if callable(server.env):
        raise _unsupported(name, "its env is a function of the run")
    if server.cwd is not None:
        raise _unsupported(name, "it has a cwd")
    # The command line itself has another home folder.
    names = ["HOME", "USERPROFILE"]
    if server.inherit_env is True:
        names = list(environ)
    elif server.inherit_env is not False:
        names += server.inherit_env
    env = {**{name: environ[name] for name in names if name in environ}, **server.env}
    return {"type": "stdio", "command": server.command, "args": list(server.args), "env": env}


def _remote(name: str, server: HttpServer | SseServer) -> dict[str, Any]:
    if callable(server.headers):
        raise _unsupported(name, "its headers are a function of the run")
    if server.auth is not None:
        raise _unsupported(name, "it has auth; pass the token as a header")
    kind = "http" if isinstance(server, HttpServer) else "sse"
    config: dict[str, Any] = {"type": kind, "url": server.url}
    return {**config, "headers": dict(server.headers)} if server.headers else config


def _unsupported(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name}: Claude's command line cannot connect to this server: {why}. "
        "Remove pass_through_servers, so that plait connects to it",
        server=name,
    )


_LONG_MS: Final = "86400000"
"""A day: the limits of the run and the toolbox apply instead."""

_LARGE: Final = "100000000"

_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")

_CLOUDS: Final = (
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
)
"""Select a cloud, whose tools keep its credentials in the home folder."""

_ALWAYS: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    # All tools are in the first request, without a search.
    "ENABLE_TOOL_SEARCH": "false",
    # Only the configured model answers, as a stream, which shows when an answer is complete.
    "CLAUDE_CODE_NO_MODEL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_MCP_TASK_BACKGROUND": "1",
    "MCP_TIMEOUT": _LONG_MS,
    "MCP_TOOL_TIMEOUT": _LONG_MS,
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": _LONG_MS,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _LONG_MS,
    "MAX_MCP_OUTPUT_TOKENS": _LARGE,
    "CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH": _LARGE,
    # Programs that it starts do not get the key.
    "CLAUDE_CODE_MCP_ALLOWLIST_ENV": "1",
}


def environment_for(
    config: ModelConfig, folder: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of the command line; `folder` belongs to the run."""
    variables = {
        **_ALWAYS,
        "CLAUDE_CODE_MAX_RETRIES": str(config.max_retries),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(config.max_tokens),
        "CLAUDE_CODE_TMPDIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        **_credentials(config, environ),
    }
    if config.request_timeout is not None:
        variables["API_TIMEOUT_MS"] = str(max(1, round(config.request_timeout * 1000)))
    if needs_login(config, environ):
        return variables
    variables["CLAUDE_CONFIG_DIR"] = str(folder / "settings")
    if _is_configured(config) or not any(environ.get(name) for name in _CLOUDS):
        variables["HOME"] = variables["USERPROFILE"] = str(folder)
    return variables


def secrets_in(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys in the environment, for redaction."""
    return [secret for name in _KEYS if (secret := environ.get(name))]


def needs_login(config: ModelConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """Check whether only the user's own login can be used: there is no key and no URL."""
    return not _is_configured(config) and not any(environ.get(name) for name in (*_KEYS, *_CLOUDS))


def _is_configured(config: ModelConfig) -> bool:
    return config.anthropic_api_key is not None or config.anthropic_base_url is not None


def _credentials(config: ModelConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the configured credentials, and clear those of the environment."""
    anthropic_url(config, environ)
    url, key = config.anthropic_base_url, config.anthropic_api_key
    variables: dict[str, str] = {}
    if _is_configured(config):
        variables |= dict.fromkeys(_CLOUDS, "")
    if url is not None:
        variables["ANTHROPIC_BASE_URL"] = url
    if key is not None:
        variables |= dict.fromkeys(_KEYS, "")
        variables["ANTHROPIC_API_KEY"] = key.get_secret_value()
    elif url is not None:
        variables["CLAUDE_CODE_OAUTH_TOKEN"] = ""
        if is_loopback(url) and not any(environ.get(name) for name in _KEYS[:2]):
            variables["ANTHROPIC_API_KEY"] = NO_KEY
    return variables
