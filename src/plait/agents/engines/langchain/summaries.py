"""Middleware that replaces old messages by a summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from typing_extensions import override

from plait._support.exception_groups import one_line

OnSummary = Callable[[AIMessage], None]
"""Called with each answer of the model that summarises."""

_TOOL_CHARACTERS = 1000
"""How much of a tool result the summariser reads."""

_CHARACTERS = 500

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
        retrying = model.with_retry(
            retry_if_exception_type=cast("Any", _is_transient), stop_after_attempt=attempts
        )

        def text_of(answer: AIMessage) -> str:
            if on_summary is not None:
                on_summary(answer)
            return answer.text

        def summarize(messages: list[AnyMessage]) -> str:
            return text_of(retrying.invoke(prompt_for(messages)))

        async def asummarize(messages: list[AnyMessage]) -> str:
            return text_of(await retrying.ainvoke(prompt_for(messages)))

        super().__init__(
            model,
            trigger=("tokens", trigger_tokens),
            keep=("messages", keep_messages),
            trim_tokens_to_summarize=None,
            summarizer=RunnableLambda(summarize, asummarize),
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
            return f"Tool {message.name}{failed}: {one_line(message.text, _TOOL_CHARACTERS)}"
        case AIMessage():
            calls = "".join(
                f" [calls {call['name']} {_json(call['args'])}]" for call in message.tool_calls
            )
            return f"Assistant: {one_line(message.text, _CHARACTERS)}{calls}"
        case _:
            return f"{message.type.title()}: {one_line(message.text, _CHARACTERS)}"


def _json(value: object) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=str), _CHARACTERS)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, Exception) and getattr(error, "is_retryable", True)
