"""The arguments of Anthropic's tool runner, without the messages."""

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

_UNSTREAMED_TOKENS: Final = 8192
"""Longer answers are streamed: proxies often close a connection that is idle for minutes, and the
SDK rejects such requests."""

_RESERVED: Final = ("messages", "max_iterations", "run_tools_eagerly")
"""Arguments that the run sets itself."""

_PARAMETERS: Final = frozenset(inspect.signature(AsyncMessages.tool_runner).parameters) - {"self"}

_FIXED_TEMPERATURE: Final = ("claude-fable-5", "claude-sonnet-5-5")
"""The models that accept only their default temperature."""


def request_for(run: AgentRun, results: Results, *, threads: bool) -> dict[str, Any]:
    """Build the arguments of the tool runner; `extra_kwargs` of the model win.

    `threads` says whether the endpoint can store the messages. Unknown names in `extra_kwargs` go
    into the body of requests.

    Raises:
        ConfigError: `extra_kwargs` sets what the run sets itself.
    """
    config = run.model_config
    extra = dict(config.extra_kwargs or {})
    _check(extra)
    caching = config.agent_middleware.prompt_caching if config.agent_middleware else None
    cache_control = _cache_control(caching or PromptCachingConfig())
    body = {name: extra.pop(name) for name in list(extra) if name not in _PARAMETERS}
    body |= extra.pop("extra_body", None) or {}
    if config.temperature is not None and _sends_temperature(config, extra):
        body.setdefault("temperature", config.temperature)
    tools = [*_tools(run, results, cache_control), *(extra.pop("tools", None) or ())]
    request: dict[str, Any] = {
        "model": config.model_name,
        "max_tokens": config.max_tokens,
        "tools": tools,
        **_system(run.system_prompt, cache_control),
        **({} if threads else {"thread": False}),
        **extra,
    }
    request.setdefault("stream", request["max_tokens"] > _UNSTREAMED_TOKENS)
    return {**request, "extra_body": body} if body else request


def _check(extra: Mapping[str, Any]) -> None:
    taken = [name for name in _RESERVED if name in extra]
    if taken:
        raise ConfigError(
            f"extra_kwargs must not set {', '.join(taken)}: the run sets them; the number of "
            "turns is AgentConfig.max_turns"
        )


def _tools(
    run: AgentRun, results: Results, cache_control: BetaCacheControlEphemeralParam | None
) -> list[FetchingTool]:
    if run.settings.extra.get("cache_tools") is False:
        cache_control = None
    last = len(run.tools) - 1
    return [
        # All tools up to the marked one are cached.
        FetchingTool(definition_of(tool, cache_control if index == last else None), results)
        for index, tool in enumerate(run.tools.values())
    ]


def _system(
    prompt: str | None, cache_control: BetaCacheControlEphemeralParam | None
) -> dict[str, Any]:
    if prompt is None or not prompt.strip():
        return {}
    cached = {} if cache_control is None else {"cache_control": cache_control}
    return {"system": [{"type": "text", "text": prompt, **cached}]}


def _cache_control(caching: PromptCachingConfig) -> BetaCacheControlEphemeralParam | None:
    if not caching.enabled:
        return None
    # Five minutes is the default of the API.
    return {"type": "ephemeral"} if caching.ttl == "5m" else {"type": "ephemeral", "ttl": "1h"}


def _sends_temperature(config: ModelConfig, extra: Mapping[str, Any]) -> bool:
    """Check whether to send the temperature: a default must not make the request fail."""
    if "temperature" in config.model_fields_set:
        return True
    fixed = (config.model_name or "").startswith(_FIXED_TEMPERATURE)
    return not fixed and extra.get("thinking") is None
