"""How Claude's command line is started for a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from claude_agent_sdk import ClaudeAgentOptions

from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_agent_sdk.bridge import Bridge
from plait.agents.engines.claude_agent_sdk.environment import environment_for
from plait.agents.engines.claude_agent_sdk.pass_through import cli_config
from plait.agents.engines.claude_agent_sdk.tools import CliTool, sdk_servers, server_keys
from plait.errors import ConfigError

logger = logging.getLogger("plait.agents")

_LONGEST_LINE: Final = 256 * 1024 * 1024
"""One message of the command line in bytes; a result with images is one."""

_OWN: Final = frozenset(
    {
        "allowed_tools",
        "can_use_tool",
        "include_partial_messages",
        "max_turns",
        "mcp_servers",
        "permission_mode",
        "permission_prompt_tool_name",
        "setting_sources",
        "stderr",
        "strict_mcp_config",
        "tools",
    }
)
"""The options that the run itself decides on."""

_OWN_FLAGS: Final = frozenset(
    {
        "allow-dangerously-skip-permissions",
        "allowed-tools",
        "allowedTools",
        "dangerously-skip-permissions",
        "max-turns",
        "mcp-config",
        "permission-mode",
        "permission-prompt-tool",
        "setting-sources",
        "tools",
    }
)

_KNOWN: Final = frozenset(one.name for one in fields(ClaudeAgentOptions))


def options_for(
    run: AgentRun,
    folder: Path,
    tools: Mapping[str, CliTool],
    bridge: Bridge,
    *,
    bridged: bool,
    stderr: Callable[[str], None],
) -> ClaudeAgentOptions:
    """Put together the options of a run, and write the files that they name; this blocks.

    Raises:
        ConfigError: `extra_kwargs` holds what is no option, or a server cannot be passed on.
    """
    extra = _extra_options(run.model_config.extra_kwargs or {})
    here = [tool for tool in tools.values() if bridged or not tool.is_of_server]
    asks = run.settings.tool_options.get("policy") is not None
    flags: dict[str, str | None] = {"no-session-persistence": None}
    if not bridged and (servers := _passed_on(run)):
        # Not on the command line, which everybody on the machine can read.
        flags["mcp-config"] = _written(folder / "servers.json", json.dumps(servers))
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
        "max_turns": run.settings.max_turns,
        "tools": [],
        "mcp_servers": sdk_servers(here, bridge.call),
        "strict_mcp_config": True,
        "setting_sources": [],
        "disallowed_tools": ["Skill", *extra.get("disallowed_tools", ())],
        "allowed_tools": [] if asks else list(tools),
        "can_use_tool": bridge.may_use if asks else None,
        "include_partial_messages": True,
        "stderr": stderr,
        "extra_args": {**flags, **extra.get("extra_args", {})},
        "env": {**environment_for(run.model_config, folder), **extra.get("env", {})},
    }
    return ClaudeAgentOptions(**settings)


def _extra_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the run decides on."""
    if unknown := sorted(set(given) - _KNOWN):
        raise ConfigError(
            f"extra_kwargs holds {', '.join(unknown)}, which ClaudeAgentOptions does not know"
        )
    flags: Mapping[str, Any] = given.get("extra_args") or {}
    kept = {name: value for name, value in given.items() if name not in _OWN}
    if flags:
        kept["extra_args"] = {name: one for name, one in flags.items() if name not in _OWN_FLAGS}
    if left_out := sorted((set(given) & _OWN) | (set(flags) & _OWN_FLAGS)):
        logger.warning("extra_kwargs: the run itself decides on %s", ", ".join(left_out))
    return kept


def _passed_on(run: AgentRun) -> dict[str, Any]:
    if run.toolbox is None:
        return {}
    servers = run.toolbox.config.servers
    keys = server_keys(run.toolbox.server_names)
    return {"mcpServers": {keys[name]: cli_config(name, one) for name, one in servers.items()}}


def _system_prompt(prompt: str | None, folder: Path) -> dict[str, str] | None:
    """Write the prompt to a file: the arguments of a program are public, and not long."""
    if prompt is None or not prompt.strip():
        return None
    return {"type": "file", "path": _written(folder / "system.txt", prompt)}


def _written(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")
    return str(path)
