"""The engine `claude_agent_sdk`: Claude's command line, through the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLINotFoundError,
    ResultMessage,
)
from typing_extensions import override

from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun, retry_pause
from plait.agents.anthropic_api import NO_KEY, anthropic_url
from plait.agents.config import ModelConfig
from plait.agents.engines.claude_agent_sdk.messages import query_from_messages
from plait.agents.engines.claude_agent_sdk.tools import CliTool, cli_tools, sdk_servers, server_keys
from plait.agents.engines.claude_agent_sdk.turns import Bridge, Turns
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_failures import advice_for, endpoint_of, key_names
from plait.client.config.servers import HttpServer, ServerConfig, SseServer, StdioServer
from plait.errors import AgentExecutionError, ConfigError
from plait.models.endpoints import is_loopback, is_transient, origin_of
from plait.traces.messages.message import UsageMetadata

_INTERRUPT_SECONDS: Final = 3.0
"""How long the command line may take to stop before it is killed."""

MAX_STDERR_LINES: Final = 20
"""The last lines of the command line say why it failed."""


class ClaudeSDKAgent(LiveAgent):
    """Runs agents on Claude's command line, with only the tools of the run."""

    engine: ClassVar[str] = "claude_agent_sdk"

    @property
    @override
    def sent_temperature(self) -> None:
        """Nothing: the command line has no setting for it."""
        return

    @override
    async def drive(self, run: AgentRun) -> Ending:
        """Run sessions until one ends; one whose answer broke off is followed by another.

        The command line itself repeats requests that fail before an answer begins.
        """
        attempt = 1
        while True:
            turns, ending = await self._session(run)
            if not isinstance(ending, AgentExecutionError):
                return ending
            pause = retry_pause(run.model_config, ending, attempt, run.seconds_left())
            if pause is None or not turns.broke_off or run.turns_left < 1:
                raise ending
            attempt += 1
            run.model_retry(attempt, str(ending), pause, ending.status)
            await asyncio.sleep(pause)

    async def _session(self, run: AgentRun) -> tuple[Turns, Ending | AgentExecutionError]:
        """Run one session, which begins after the turns so far."""
        bridged = not run.settings.extra.get("pass_through_servers")
        if not bridged and run.toolbox is not None:
            # The command line lists and calls tools in its own sessions, so that some rules cannot
            # be kept.
            refused = {
                "a lockfile": run.toolbox.lock_report().mode == "block",
                "a rule about annotations": run.toolbox.calls.policy.uses_hints,
            }
            for what in (what for what, is_set in refused.items() if is_set):
                text = f"{what} cannot hold with pass_through_servers: remove one of them"
                raise ConfigError(text)
        servers = () if run.toolbox is None else run.toolbox.server_names
        tools = cli_tools(run.tools.values(), servers, bridged=bridged)
        turns = Turns(run, tools)
        bridge = Bridge(run, tools, turns)
        lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="plait-claude-"))
        try:
            options = await asyncio.to_thread(
                options_for, run, folder, tools, bridge, bridged=bridged, stderr=lines.append
            )
            try:
                return turns, await _Session(run, ClaudeSDKClient(options), bridge, lines).run()
            except AgentExecutionError as error:
                return turns, error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


ClaudeSDKAgentAdapter = ClaudeSDKAgent
"""The same class, under the name of its original."""


@dataclass(slots=True)
class _Session:
    _run: AgentRun
    _client: ClaudeSDKClient
    _bridge: Bridge
    _lines: deque[str]

    async def run(self) -> Ending:
        """Run until there is an answer, or the turn limit; afterwards nothing is left running."""
        try:
            await self._client.connect()
            await self._client.query(query_from_messages(self._run.conversation))
            messages = cast("AsyncGenerator[object]", self._client.receive_messages())
            async with contextlib.aclosing(messages), asyncio.timeout(None) as limit:
                async for message in messages:
                    self._bridge.turns.handle(message)
                    if self._bridge.failure is not None:
                        raise self._bridge.failure
                    if isinstance(message, ResultMessage):
                        return self._ended(message)
                    if self._bridge.turns.is_over and limit.when() is None:
                        # Otherwise it would continue; now it reports the usage.
                        limit.reschedule(asyncio.get_running_loop().time() + _INTERRUPT_SECONDS)
                        await self._client.interrupt()
            raise AgentExecutionError(
                "claude_agent_sdk: the command line ended without a result", stderr=self._stderr
            )
        except BaseException as error:
            # Otherwise it would continue for seconds with what it has begun.
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_INTERRUPT_SECONDS):
                    await self._client.interrupt()
            if self._bridge.turns.is_over and isinstance(error, Exception):
                # There is an answer; its usage is the sum of the turns.
                return "limit" if self._bridge.turns.is_spent else "completed"
            if isinstance(error, ClaudeSDKError):
                raise execution_error(error, self._run.redact, self._stderr) from error
            raise
        finally:
            self._bridge.turns.close()
            await self._client.disconnect()

    def _ended(self, result: ResultMessage) -> Ending:
        if self._bridge.turns.is_first:  # else the usage is the sum of the turns
            usage, one = usage_from_result(result), UsageMetadata(1, 1, 2)
            models = result.model_usage or ()
            if usage is not None and any(self._run.cost_of(name, one) is None for name in models):
                # The command line counts models that it does not know at the price of another.
                usage = replace(usage, cost_usd=None)
            self._run.usage = usage
        if self._bridge.turns.is_over:
            return "limit" if self._bridge.turns.is_spent else "completed"
        try:
            return ending_of(result, self._run.model_config, self._run.redact, self._stderr)
        except AgentExecutionError as error:
            error.retry_after = error.retry_after or self._bridge.turns.retry_after
            raise

    @property
    def _stderr(self) -> str | None:
        return self._run.redact("\n".join(self._lines)) or None


_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

MAX_EXCERPT_CHARACTERS = 400
"""Errors of the command line are long; its first lines say what failed."""

_PASSING = re.compile(r"temporar|connection|timed out|overloaded", re.IGNORECASE)
"""Words in a failure of the API that may pass, if it has no HTTP status."""


def usage_from_result(result: ResultMessage) -> UsageMetadata | None:
    """Add up the usage of all models of a run; `None` if none is reported."""
    models = cast("Mapping[str, Mapping[str, Any]]", result.model_usage or {})
    if not models:
        return None
    inputs, outputs, cache_read, cache_written = (
        sum(usage.get(name) or 0 for usage in models.values()) for name in _COUNTS
    )
    return UsageMetadata(
        input_tokens=inputs,
        output_tokens=outputs,
        total_tokens=inputs + outputs,
        cost_usd=result.total_cost_usd,
        cache_read_tokens=cache_read,
        cache_creation_tokens=cache_written,
    )


def ending_of(
    result: ResultMessage, config: ModelConfig, redact: Redactor, stderr: str | None
) -> Ending:
    """Return how the run ended."""
    if result.subtype in ("error_max_turns", "error_max_budget_usd"):
        return "limit"
    if result.subtype == "success" and not result.is_error:
        return "completed"
    reason = result.result or "; ".join(result.errors or ()) or result.subtype
    text = f"claude_agent_sdk: {redact.excerpt(reason, MAX_EXCERPT_CHARACTERS)}"
    status = result.api_error_status
    retryable = False
    if result.subtype == "success":  # the API failed, not the command line
        if status is not None:
            advice = advice_for(status, config)
        elif re.search(r"log(ged)? ?in\b", reason, re.IGNORECASE):
            advice = f"set {key_names(config)}"
        elif "timed out" in reason.lower():
            advice = "raise request_timeout, or look at the endpoint"
        else:
            advice = "check anthropic_base_url and the network, or raise max_retries"
        text = f"{text} (at {origin_of(endpoint_of(config) or '')}); {advice}"
        retryable = bool(_PASSING.search(reason)) if status is None else is_transient(status)
    retry = "always" if retryable else "never"
    raise AgentExecutionError(text, stderr=stderr, status=status, retryable=retryable, retry=retry)


def execution_error(error: Exception, redact: Redactor, stderr: str | None) -> AgentExecutionError:
    """Translate a failure of the command line itself."""
    last_line = (stderr or "").rpartition("\n")[2]
    reason = redact.excerpt(str(error).partition("\nError output:")[0], MAX_EXCERPT_CHARACTERS)
    if isinstance(error, CLINotFoundError):
        reason = "Claude's command line is not installed: pip install 'plait[claude]'"
    elif last_line and last_line not in reason:
        reason = f"{reason}: {redact.excerpt(last_line)}"
    return AgentExecutionError(f"claude_agent_sdk: {reason}", stderr=stderr)


logger = logging.getLogger("plait.agents")

MAX_LINE_BYTES: Final = 256 * 1024 * 1024
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
    flags: dict[str, str | None] = {"no-session-persistence": None}
    # Not as arguments, which every user of the machine can read, and which are limited in length.
    if not bridged and run.toolbox is not None:
        keys = server_keys(run.toolbox.server_names)
        servers = run.toolbox.config.servers.items()
        configs = {"mcpServers": {keys[name]: cli_config(name, server) for name, server in servers}}
        flags["mcp-config"] = _write(folder / "servers.json", json.dumps(configs))
    prompt = None
    if run.system_prompt is not None and run.system_prompt.strip():
        prompt = {"type": "file", "path": _write(folder / "system.txt", run.system_prompt)}
    work = folder / "work"
    work.mkdir(mode=0o700)
    settings: dict[str, Any] = {
        "model": run.model_config.model_name,
        "system_prompt": prompt,
        "cwd": run.settings.workspace_path or work,
        "skills": [],
        "verbatim_prompts": True,
        "max_buffer_size": MAX_LINE_BYTES,
        **extra,
        "max_turns": run.turns_left,
        "tools": [],
        "mcp_servers": sdk_servers(local_tools, bridge.call),
        "strict_mcp_config": True,
        "setting_sources": [],
        "disallowed_tools": ["Skill", *extra.get("disallowed_tools", ())],
        # Calls that the command line makes itself are checked before: it makes them before the
        # answer is complete, and with arguments that are not an object.
        "allowed_tools": list(tools) if bridged else [],
        "can_use_tool": None if bridged else bridge.may_use,
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


def _write(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")
    return str(path)


def cli_config(
    name: str, server: ServerConfig, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Convert a server that the command line connects to itself."""

    def unsupported(why: str) -> ConfigError:
        return ConfigError(
            f"{name}: Claude's command line cannot connect to this server: {why}. "
            "Remove pass_through_servers, so that plait connects to it",
            server=name,
        )

    match server:
        case StdioServer():
            if callable(server.env):
                raise unsupported("its env is a function of the run")
            if server.cwd is not None:
                raise unsupported("it has a cwd")
            # The command line itself has another home folder.
            names = ["HOME", "USERPROFILE"]
            if server.inherit_env is True:
                names = list(environ)
            elif server.inherit_env is not False:
                names += server.inherit_env
            inherited = {name: environ[name] for name in names if name in environ}
            return {
                "type": "stdio",
                "command": server.command,
                "args": list(server.args),
                "env": {**inherited, **server.env},
            }
        case HttpServer() | SseServer():
            if callable(server.headers):
                raise unsupported("its headers are a function of the run")
            if server.auth is not None:
                raise unsupported("it has auth; pass the token as a header")
            kind = "http" if isinstance(server, HttpServer) else "sse"
            headers = {"headers": dict(server.headers)} if server.headers else {}
            return {"type": kind, "url": server.url, **headers}
        case _:
            raise unsupported(f"its transport is {server.transport}")


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
    }
    anthropic_url(config, environ)  # checks it, though the command line reads it by itself
    url, key = config.anthropic_base_url, config.anthropic_api_key
    is_configured = url is not None or key is not None
    if is_configured:
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
    if config.request_timeout is not None:
        variables["API_TIMEOUT_MS"] = str(max(1, round(config.request_timeout * 1000)))
    if needs_login(config, environ):
        return variables
    variables["CLAUDE_CONFIG_DIR"] = str(folder / "settings")
    if is_configured or not any(environ.get(name) for name in _CLOUDS):
        variables["HOME"] = variables["USERPROFILE"] = str(folder)
    return variables


def needs_login(config: ModelConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """Check whether only the user's own login can be used: there is no key and no URL."""
    is_configured = config.anthropic_base_url is not None or config.anthropic_api_key is not None
    return not is_configured and not any(environ.get(name) for name in (*_KEYS, *_CLOUDS))
