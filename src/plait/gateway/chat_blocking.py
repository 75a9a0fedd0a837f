"""Sending chat history from code without a loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from plait.client.connections.loop_bridge import LoopBridge
from plait.gateway.chat import ChatSender
from plait.gateway.configuration import McpToolServerConfigurationService
from plait.gateway.headers import GatewayRequestOptions
from plait.gateway.messages import LimitFrom, Roles
from plait.gateway.port import TurnContext
from plait.gateway.result import OperationResult

P = ParamSpec("P")
T = TypeVar("T")


class BlockingChatSender(ChatSender):
    """Sends chat history, with blocking forms of every method."""

    def __init__(
        self, configuration: McpToolServerConfigurationService, *, roles: Roles = "all"
    ) -> None:
        """Take what sends."""
        super().__init__(configuration, roles=roles)
        self._bridge = LoopBridge()

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an asynchronous method of this service, and block until it is done."""
        return self._bridge.run_blocking(work, *args, **kwargs)

    def send_chat_history_blocking(
        self,
        turn_context: TurnContext,
        graph: Any,
        config: RunnableConfig,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Do what `send_chat_history` does, and block until it is done."""
        return self.run_blocking(
            self.send_chat_history,
            turn_context,
            graph,
            config,
            limit,
            tool_options,
            limit_from=limit_from,
        )

    def send_chat_history_from_state_blocking(
        self,
        turn_context: TurnContext,
        state_snapshot: StateSnapshot,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Do what `send_chat_history_from_state` does, and block until it is done."""
        return self.run_blocking(
            self.send_chat_history_from_state,
            turn_context,
            state_snapshot,
            limit,
            tool_options,
            limit_from=limit_from,
        )

    def send_chat_history_from_chat_history_blocking(
        self,
        turn_context: TurnContext,
        chat_history: BaseChatMessageHistory,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Do what `send_chat_history_from_chat_history` does, and block until it is done."""
        return self.run_blocking(
            self.send_chat_history_from_chat_history,
            turn_context,
            chat_history,
            limit,
            tool_options,
            limit_from=limit_from,
        )

    def send_chat_history_from_messages_blocking(
        self,
        turn_context: TurnContext,
        messages: Sequence[BaseMessage],
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Do what `send_chat_history_from_messages` does, and block until it is done."""
        return self.run_blocking(
            self.send_chat_history_from_messages,
            turn_context,
            messages,
            limit,
            tool_options,
            limit_from=limit_from,
        )
