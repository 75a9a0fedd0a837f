"""What a LangChain agent had said when it was stopped, and its messages as one text."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage

from plait.traces.messages.from_langchain import message_from_any
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

logger = logging.getLogger("plait.agents.engines")


def extract_partial_agent_state(
    error: BaseException,
    agent: Any,
    config: Mapping[str, Any] | None,
    input_messages: Sequence[BaseMessage],
) -> dict[str, Any]:
    """Find the state that a stopped agent left, with its `messages`.

    It is looked for in the error, in the checkpointer of the agent, and again in the error; if it
    is nowhere, it is what the agent was asked.
    """
    held = _state(getattr(error, "state", None))
    if held is None and agent is not None and config is not None:
        held = _state(_saved(agent, config))
    if held is None:
        held = _state({"messages": getattr(error, "messages", None)})
    if held is None:
        logger.warning("nothing is known of what the agent said before: %s", type(error).__name__)
        held = {"messages": list(input_messages)}
    return held


def harmonize_agent_response(response: object, config: TraceFormatConfig = DEFAULT_FORMAT) -> str:
    """Write what an agent returned as a raw trace: a state with `messages`, messages, or one."""
    given = response
    if isinstance(response, Mapping):
        state = cast("Mapping[str, object]", response)
        given = state.get("messages", state)
    messages = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    return messages_to_raw_trace(map(message_from_any, messages), config)


def _saved(agent: Any, config: Mapping[str, Any]) -> object:
    try:
        return agent.get_state(config).values
    except Exception as error:  # noqa: BLE001  # boundary: it has no checkpointer, or a broken one
        logger.debug("the agent has no state: %r", error)
        return None


def _state(held: object) -> dict[str, Any] | None:
    if isinstance(held, list):
        held = {"messages": cast("list[object]", held)}
    if not isinstance(held, Mapping):
        return None
    state = dict(cast("Mapping[str, Any]", held))
    return state if state.get("messages") else None
