"""Chat history from wherever LangChain keeps it: a graph, its state, a store, or a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from plait._support.threads import in_thread
from plait.errors import ConfigError
from plait.gateway.configuration import McpToolServerConfigurationService
from plait.gateway.headers import GatewayRequestOptions
from plait.gateway.messages import LimitFrom, Roles, history_from_messages, limited
from plait.gateway.port import TurnContext
from plait.gateway.result import OperationError, OperationResult

ORCHESTRATOR = "LangChain"


class ChatSender:
    """Sends chat history; what goes wrong on the way is returned, what is missing is raised.

    `limit` keeps so many messages, the newest unless `limit_from` is `"start"`.
    """

    orchestrator_name = ORCHESTRATOR

    def __init__(
        self, configuration: McpToolServerConfigurationService, *, roles: Roles = "all"
    ) -> None:
        """Take what sends; with `roles="strict"` tools and functions speak as the assistant."""
        self._sender = configuration
        self._roles: Roles = roles

    async def send_chat_history(
        self,
        turn_context: TurnContext,
        graph: Any,
        config: RunnableConfig,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send the messages in the state of a graph.

        Raises:
            ConfigError: Something is missing.
        """
        _require(turn_context=turn_context, graph=graph, config=config)
        try:
            if hasattr(graph, "aget_state"):
                state = cast("StateSnapshot", await graph.aget_state(config))
            else:
                state = cast("StateSnapshot", await in_thread(graph.get_state, config))
        except Exception as error:  # noqa: BLE001  # boundary: checkpointers raise what they like
            return OperationResult.failed(OperationError(error))
        return await self.send_chat_history_from_state(
            turn_context, state, limit, tool_options, limit_from=limit_from
        )

    async def send_chat_history_from_state(
        self,
        turn_context: TurnContext,
        state_snapshot: StateSnapshot,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send the messages of a state.

        Raises:
            ConfigError: Something is missing.
        """
        _require(turn_context=turn_context, state_snapshot=state_snapshot)
        values: object = state_snapshot.values
        messages = (
            cast("Mapping[str, Any]", values).get("messages")
            if isinstance(values, Mapping)
            else getattr(values, "messages", None)
        )
        if not isinstance(messages, list | tuple):
            raise ConfigError("state_snapshot must contain messages")
        return await self.send_chat_history_from_messages(
            turn_context,
            cast("Sequence[BaseMessage]", messages),
            limit,
            tool_options,
            limit_from=limit_from,
        )

    async def send_chat_history_from_chat_history(
        self,
        turn_context: TurnContext,
        chat_history: BaseChatMessageHistory,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send the messages of a store.

        Raises:
            ConfigError: Something is missing.
        """
        _require(turn_context=turn_context, chat_history=chat_history)
        try:
            messages = await chat_history.aget_messages()
        except Exception as error:  # noqa: BLE001  # boundary: stores raise what they like
            return OperationResult.failed(OperationError(error))
        return await self.send_chat_history_from_messages(
            turn_context, messages, limit, tool_options, limit_from=limit_from
        )

    async def send_chat_history_from_messages(
        self,
        turn_context: TurnContext,
        messages: Sequence[BaseMessage],
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send messages; those without a text are left out, and an empty list is sent too.

        Raises:
            ConfigError: Something is missing.
        """
        _require(turn_context=turn_context, messages=messages)
        kept = limited(messages, limit, limit_from)
        history = history_from_messages(kept, datetime.now(UTC), roles=self._roles)
        name = None if tool_options is None else tool_options.orchestrator_name
        options = GatewayRequestOptions(orchestrator_name=name or self.orchestrator_name)
        return await self._sender.send_chat_history(turn_context, history, options)


def _require(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is None:
            raise ConfigError(f"{name} is required")
