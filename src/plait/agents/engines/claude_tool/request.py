"""What is asked of the Messages API in each turn of a run, but for the messages."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from anthropic.resources.beta.messages import AsyncMessages
from anthropic.types.beta import BetaCacheControlEphemeralParam

from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_tool.tools import FetchingTool, Results, definition_of
from plait.agents.middleware_config import PromptCachingConfig
from plait.agents.model_config import ModelConfig
from plait.errors import ConfigError

_LONGEST_IN_ONE: Final = 8192
"""Answers that may be longer are streamed: a connection on which nothing comes for minutes is often
cut on the way, and the SDK refuses to wait on one."""

_OWN: Final = ("messages", "max_iterations", "run_tools_eagerly")
"""What the run itself decides on."""

_KNOWN: Final = frozenset(inspect.signature(AsyncMessages.tool_runner).parameters) - {"self"}

_FIXED_TEMPERATURE: Final = ("claude-fable-5", "claude-sonnet-5-5")
"""The models that refuse any temperature but their own."""


def request_for(run: AgentRun, results: Results, *, threads: bool) -> dict[str, Any]:
    """Put together the arguments of the tool runner; `extra_kwargs` of the model win.

    `threads` says whether the endpoint can keep the messages. What the runner does not know of
    `extra_kwargs` goes into the body of requests as it is.

    Raises:
        ConfigError: `extra_kwargs` holds what the run itself decides on.
    """
    config = run.model_config
    extra = dict(config.extra_kwargs or {})
    _check(extra)
    caching = config.agent_middleware.prompt_caching if config.agent_middleware else None
    mark = _cache_control(caching or PromptCachingConfig())
    body = {name: extra.pop(name) for name in list(extra) if name not in _KNOWN}
    body |= extra.pop("extra_body", None) or {}
    if config.temperature is not None and _takes_temperature(config, extra):
        body.setdefault("temperature", config.temperature)
    tools = [*_tools(run, results, mark), *(extra.pop("tools", None) or ())]
    request: dict[str, Any] = {
        "model": config.model_name,
        "max_tokens": config.max_tokens,
        "tools": tools,
        **_system(run.system_prompt, mark),
        **({} if threads else {"thread": False}),
        **extra,
    }
    request.setdefault("stream", request["max_tokens"] > _LONGEST_IN_ONE)
    return {**request, "extra_body": body} if body else request


def _check(extra: Mapping[str, Any]) -> None:
    taken = [name for name in _OWN if name in extra]
    if taken:
        raise ConfigError(
            f"extra_kwargs must not set {', '.join(taken)}: the run decides on that; the number of "
            "turns is AgentConfig.max_turns"
        )


def _tools(
    run: AgentRun, results: Results, mark: BetaCacheControlEphemeralParam | None
) -> list[FetchingTool]:
    if run.settings.extra.get("cache_tools") is False:
        mark = None
    last = len(run.tools) - 1
    return [
        # All tools up to the one with the mark are kept.
        FetchingTool(definition_of(tool, mark if place == last else None), results)
        for place, tool in enumerate(run.tools.values())
    ]


def _system(prompt: str | None, mark: BetaCacheControlEphemeralParam | None) -> dict[str, Any]:
    if prompt is None or not prompt.strip():
        return {}
    cached = {} if mark is None else {"cache_control": mark}
    return {"system": [{"type": "text", "text": prompt, **cached}]}


def _cache_control(caching: PromptCachingConfig) -> BetaCacheControlEphemeralParam | None:
    if not caching.enabled:
        return None
    # Five minutes is what everybody means who says nothing.
    return {"type": "ephemeral"} if caching.ttl == "5m" else {"type": "ephemeral", "ttl": "1h"}


def _takes_temperature(config: ModelConfig, extra: Mapping[str, Any]) -> bool:
    """Say whether to send the temperature: one that nobody asked for must not be what fails."""
    if "temperature" in config.model_fields_set:
        return True
    fixed = (config.model_name or "").startswith(_FIXED_TEMPERATURE)
    return not fixed and extra.get("thinking") is None
