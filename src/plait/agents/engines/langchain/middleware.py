"""Creates LangChain middleware from an `AgentMiddlewareConfig`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableLambda
from typing_extensions import override

from plait._support.exception_groups import one_line
from plait.agents.config import AgentMiddlewareConfig
from plait.errors import ConfigError

logger = logging.getLogger("plait.agents.engines")

_DEFAULT_CONTEXT = 100_000
"""The context tokens of a model if nothing is configured."""

OnRejected = Callable[[ToolCall, ToolMessage], None]
"""Called with each call over the limit, and the message that answers it."""


def build_agent_middleware(
    config: AgentMiddlewareConfig,
    max_context_tokens: int | None = None,
    interface: str = "langchain",
    base_model: BaseChatModel | None = None,
    provider: str | None = None,
    *,
    max_turns: int | None = None,
    retries_model: bool = True,
    request_timeout: float | None = None,
    make_model: Callable[[str], BaseChatModel] | None = None,
    on_rejected: OnRejected | None = None,
    on_summary: OnSummary | None = None,
) -> list[AgentMiddleware[Any, Any, Any]]:
    """Create the middleware of an agent, outermost first.

    None of it invents an answer: the limit of model calls and a model that fails raise, whatever
    `exit_behavior` and `on_failure` say. `base_model` summarises if the configuration names no
    other model; `make_model` creates that one.
    """
    limits, retry, tools = config.limits, config.model_retry, config.tool_retry
    turns = min(limits.model_call_limit, max_turns or limits.model_call_limit)
    caches = config.prompt_caching.enabled and provider == "anthropic" and interface == "langchain"
    stack: list[AgentMiddleware[Any, Any, Any]] = []
    if caches:
        try:
            from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware  # noqa: PLC0415  # may not be installed

            caching = config.prompt_caching.model_dump(exclude={"enabled"})
            stack.append(AnthropicPromptCachingMiddleware(**caching))
        except ImportError:
            logger.warning(
                "prompts are not cached: langchain-anthropic is not installed; "
                "pip install 'plait[models]'"
            )
    stack += [
        ModelCallLimitMiddleware(run_limit=turns, exit_behavior="error"),
        LimitedTools(
            run_limit=limits.tool_call_limit,
            exit_behavior="continue" if limits.exit_behavior == "end" else "error",
            on_rejected=on_rejected,
        ),
    ]
    if retries_model:
        settings = retry.model_dump(exclude={"on_failure"})
        stack.append(ModelRetryMiddleware(**settings, on_failure="error"))
    if request_timeout is not None:
        stack.append(RequestTimeout(request_timeout))
    stack.append(
        ToolRetryMiddleware(
            **tools.model_dump(exclude={"on_failure"}),
            on_failure="continue" if tools.on_failure == "return_message" else "error",
            retry_on=lambda error: not isinstance(error, ConfigError),
        )
    )
    summaries = config.summarization
    model = base_model
    if summaries.enabled and (name := summaries.model) is not None:
        if make_model is not None:
            model = make_model(name)
        else:
            model = init_chat_model(name, model_provider=None if ":" in name else provider)
    if summaries.enabled and model is not None:
        stack.append(
            Summaries(
                model,
                trigger_tokens=trigger_tokens(config, max_context_tokens),
                keep_messages=summaries.keep_messages,
                attempts=retry.max_retries + 1,
                on_summary=on_summary,
            )
        )
    return stack


def trigger_tokens(config: AgentMiddlewareConfig, max_context_tokens: int | None) -> int:
    """Return the number of tokens from which on a conversation is summarised."""
    summaries = config.summarization
    default = max(1, int(_DEFAULT_CONTEXT * summaries.trigger_fraction))
    return summaries.trigger_tokens or max_context_tokens or default


class LimitedTools(ToolCallLimitMiddleware[Any, Any]):
    """LangChain's limit of tool calls, with a callback for rejected calls."""

    def __init__(self, *, on_rejected: OnRejected | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._on_rejected = on_rejected

    @property
    @override
    def name(self) -> str:
        return ToolCallLimitMiddleware.__name__

    @override
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        update = super().after_model(state, runtime)
        if self._on_rejected is not None and update is not None and update.get("messages"):
            newest_first = reversed(state["messages"])
            last = next(message for message in newest_first if isinstance(message, AIMessage))
            calls = {call["id"]: call for call in last.tool_calls}
            for message in update["messages"]:
                self._on_rejected(calls[message.tool_call_id], message)
        return update


class RequestTimeout(AgentMiddleware[Any, Any, Any]):
    """Limits the time of one request to the model, including its stream."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model; only its client can limit a blocking request."""
        return handler(request)

    @override
    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        async with answer_within(self._seconds):
            return await handler(request)


@asynccontextmanager
async def answer_within(seconds: float | None) -> AsyncGenerator[None]:
    """Bound a request to a model, with an error that says so."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer within {seconds:g} s") from error


OnSummary = Callable[[AIMessage], None]
"""Called with each answer of the model that summarises."""

MAX_TOOL_CHARACTERS = 1000
"""How much of a tool result the summariser reads."""

MAX_CHARACTERS = 500
"""How much of any other message it reads."""

_PROMPT = """\
Summarise this conversation for the assistant, who will go on with the task and read only your \
summary of it. Keep the question as the user asked it, all facts, numbers and names that were \
found, which tools were called and what came of it, and what is still to be done. \
Answer with the summary alone.

{conversation}"""


class Summaries(SummarizationMiddleware[Any, Any]):
    """LangChain's middleware, with our own prompt and message format."""

    def __init__(
        self,
        model: BaseChatModel,
        *,
        trigger_tokens: int,
        keep_messages: int,
        attempts: int,
        on_summary: OnSummary | None = None,
    ) -> None:
        def is_transient(error: BaseException) -> bool:
            return isinstance(error, Exception) and getattr(error, "is_retryable", True)

        retrying = model.with_retry(
            retry_if_exception_type=cast("Any", is_transient), stop_after_attempt=attempts
        )

        def text_of(answer: AIMessage) -> str:
            if on_summary is not None:
                on_summary(answer)
            return answer.text

        super().__init__(
            model,
            trigger=("tokens", trigger_tokens),
            keep=("messages", keep_messages),
            trim_tokens_to_summarize=None,
            summarizer=RunnableLambda(prompt_for) | retrying | RunnableLambda(text_of),
        )

    @staticmethod
    @override
    def _build_new_messages(summary: str) -> list[HumanMessage]:
        text = f"Summary of previous conversation:\n{summary}"
        return [HumanMessage(text, additional_kwargs={"lc_source": "summarization"})]


def prompt_for(messages: Sequence[AnyMessage]) -> str:
    """Write a conversation for the model that summarises; the first message is not shortened."""
    first, *rest = messages
    lines = [f"User: {first.text}" if isinstance(first, HumanMessage) else _line(first)]
    return _PROMPT.format(conversation="\n".join([*lines, *map(_line, rest)]))


def _line(message: AnyMessage) -> str:
    match message:
        case ToolMessage():
            failed = " failed" if message.status == "error" else ""
            return f"Tool {message.name}{failed}: {one_line(message.text, MAX_TOOL_CHARACTERS)}"
        case AIMessage():
            arguments = (
                json.dumps(call["args"], ensure_ascii=False, default=str)
                for call in message.tool_calls
            )
            pairs = zip(message.tool_calls, arguments, strict=True)
            calls = "".join(
                f" [calls {call['name']} {one_line(text, MAX_CHARACTERS)}]" for call, text in pairs
            )
            return f"Assistant: {one_line(message.text, MAX_CHARACTERS)}{calls}"
        case _:
            return f"{message.type.title()}: {one_line(message.text, MAX_CHARACTERS)}"
