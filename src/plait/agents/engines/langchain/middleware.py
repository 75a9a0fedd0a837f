"""From the configuration of middleware to the middleware of a LangChain agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from typing_extensions import override

from plait.agents.engines.langchain.summaries import Heard, Summaries
from plait.agents.middleware_config import AgentMiddlewareConfig, PromptCachingConfig
from plait.errors import ConfigError

logger = logging.getLogger("plait.agents.engines")

_USUAL_CONTEXT = 100_000
"""The tokens that a model of which nothing is known is taken to read."""

Refused = Callable[[ToolCall, ToolMessage], None]
"""Hears of each call that may not be made any more, and of what the model reads instead."""


def build_agent_middleware(
    config: AgentMiddlewareConfig,
    max_context_tokens: int | None = None,
    interface: str = "langchain",
    base_model: BaseChatModel | None = None,
    provider: str | None = None,
    *,
    max_turns: int | None = None,
    request_timeout: float | None = None,
    make_model: Callable[[str], BaseChatModel] | None = None,
    refused: Refused | None = None,
    heard: Heard | None = None,
) -> list[AgentMiddleware[Any, Any, Any]]:
    """Build what stands around the turns of an agent, outermost first.

    Nothing in it makes up an answer: a used-up limit of model calls and a model that cannot be
    asked raise, whatever `exit_behavior` and `on_failure` say. `base_model` summarises where the
    configuration names no other model; `make_model` makes that one.
    """
    limits, retry, tools = config.limits, config.model_retry, config.tool_retry
    turns = (
        limits.model_call_limit if max_turns is None else min(max_turns, limits.model_call_limit)
    )
    stack: list[AgentMiddleware[Any, Any, Any]] = [
        *_prompt_caching(config.prompt_caching, interface, provider),
        ModelCallLimitMiddleware(run_limit=turns, exit_behavior="error"),
        LimitedTools(
            run_limit=limits.tool_call_limit,
            exit_behavior="continue" if limits.exit_behavior == "end" else "error",
            refused=refused,
        ),
        ModelRetryMiddleware(
            max_retries=retry.max_retries,
            backoff_factor=retry.backoff_factor,
            initial_delay=retry.initial_delay,
            max_delay=retry.max_delay,
            jitter=retry.jitter,
            on_failure="error",
        ),
    ]
    if request_timeout is not None:
        stack.append(RequestTimeout(request_timeout))
    stack.append(
        ToolRetryMiddleware(
            max_retries=tools.max_retries,
            backoff_factor=tools.backoff_factor,
            initial_delay=tools.initial_delay,
            on_failure="continue" if tools.on_failure == "return_message" else "error",
            retry_on=lambda error: not isinstance(error, ConfigError),
        )
    )
    summaries = config.summarization
    model = base_model
    if summaries.enabled and summaries.model is not None:
        model = _made(summaries.model, provider, make_model)
    if summaries.enabled and model is not None:
        stack.append(
            Summaries(
                model,
                trigger_tokens=trigger_tokens(config, max_context_tokens),
                keep_messages=summaries.keep_messages,
                attempts=retry.max_retries + 1,
                heard=heard,
            )
        )
    return stack


def trigger_tokens(config: AgentMiddlewareConfig, max_context_tokens: int | None) -> int:
    """Say at how many tokens a conversation is summarised."""
    summaries = config.summarization
    usual = max(1, int(_USUAL_CONTEXT * summaries.trigger_fraction))
    return summaries.trigger_tokens or max_context_tokens or usual


class LimitedTools(ToolCallLimitMiddleware[Any, Any]):
    """LangChain's limit of tool calls, which also says what it refuses."""

    def __init__(self, *, refused: Refused | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._refused = refused

    @property
    @override
    def name(self) -> str:
        """The name of what it stands for."""
        return ToolCallLimitMiddleware.__name__

    @override
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Count the calls, and refuse those over the limit."""
        update = super().after_model(state, runtime)
        if self._refused is not None and update is not None and update.get("messages"):
            last = next(one for one in reversed(state["messages"]) if isinstance(one, AIMessage))
            calls = {call["id"]: call for call in last.tool_calls}
            for message in update["messages"]:
                self._refused(calls[message.tool_call_id], message)
        return update


class RequestTimeout(AgentMiddleware[Any, Any, Any]):
    """Bounds one request to the model, however slowly its answer trickles in."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    @override
    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Ask the model; a blocking request can only be bounded by its client."""
        return handler(request)

    @override
    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Ask the model, and give up in time."""
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await handler(request)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer within {self._seconds:g} s") from error


def _prompt_caching(
    config: PromptCachingConfig, interface: str, provider: str | None
) -> list[AgentMiddleware[Any, Any, Any]]:
    if not config.enabled or provider != "anthropic" or interface != "langchain":
        return []
    try:
        from langchain_anthropic.middleware import (  # noqa: PLC0415  # may not be installed
            AnthropicPromptCachingMiddleware,
        )
    except ImportError:
        logger.warning(
            "prompts are not cached: langchain-anthropic is not installed; "
            "pip install 'plait[models]'"
        )
        return []
    return [
        AnthropicPromptCachingMiddleware(
            ttl=config.ttl,
            min_messages_to_cache=config.min_messages_to_cache,
            unsupported_model_behavior=config.unsupported_model_behavior,
        )
    ]


def _made(
    name: str, provider: str | None, make: Callable[[str], BaseChatModel] | None
) -> BaseChatModel:
    if make is not None:
        return make(name)
    return init_chat_model(name, model_provider=None if ":" in name else provider)
