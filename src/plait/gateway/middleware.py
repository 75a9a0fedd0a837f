"""Middleware that adds the tools of the gateway to an agent, for each turn."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from plait.errors import ConfigError, GatewayError
from plait.gateway.history import Authorization, TurnContext
from plait.gateway.registration import McpToolRegistrationService, Registration
from plait.langchain.client.middleware import error_message, run_of, with_note
from plait.langchain.client.spec import name_of
from plait.langchain.tools.model_support import profile_of, readable_by

logger = logging.getLogger("plait.gateway")

ToolAnswer = ToolMessage | Command[Any]

TurnOf = Callable[[Mapping[str, Any]], TurnContext]
"""Returns the turn of a run."""


def turn_of(run: Mapping[str, Any]) -> TurnContext:
    """Return the turn of a run: `turn_context` in its `configurable`, or in its context."""
    context: Any = run.get("context")
    sources: tuple[Any, ...] = (run.get("configurable"), context)
    for source in sources:
        if isinstance(source, Mapping):
            turn: object = cast("Mapping[str, Any]", source).get("turn_context")
        else:
            turn = getattr(source, "turn_context", None)
        if turn is not None:
            return cast("TurnContext", turn)
    if hasattr(context, "activity"):
        return cast("TurnContext", context)
    raise ConfigError(
        "the run has no turn: give the context of the agent a turn_context, or "
        '{"configurable": {"turn_context": ...}}'
    )


class GatewayToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Offers the tools of the gateway to the model, for the user of each turn.

    If the gateway fails, the run continues without its tools; a note tells the model, unless
    `report_unavailable` is false.
    """

    def __init__(
        self,
        service: McpToolRegistrationService,
        authorization: Authorization | None = None,
        auth_handler_name: str | None = None,
        *,
        turn_of: TurnOf = turn_of,
        report_unavailable: bool = True,
    ) -> None:
        super().__init__()
        self._service = service
        self._authorization = authorization
        self._handler = auth_handler_name
        self._turn_of = turn_of
        self._report_unavailable = report_unavailable
        self._turns: weakref.WeakKeyDictionary[
            Any, tuple[weakref.ReferenceType[Any], Registration]
        ] = weakref.WeakKeyDictionary()
        """The turn itself and its registration, of each turn in use: another may be equal to it."""

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Add the tools to a model call."""
        return await handler(await self._with_tools(request, run_of(request)))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Blocking form of `awrap_model_call`."""
        return handler(self._service.run_blocking(self._with_tools, request, run_of(request)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Run a tool of the gateway, or return an error if there is none."""
        if request.tool is not None:
            return await handler(request)
        tool = await self._find(request.tool_call["name"], run_of(request))
        return (
            _unknown_tool(request) if tool is None else await handler(request.override(tool=tool))
        )

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]
    ) -> ToolAnswer:
        """Blocking form of `awrap_tool_call`."""
        if request.tool is not None:
            return handler(request)
        name = request.tool_call["name"]
        tool = self._service.run_blocking(self._find, name, run_of(request))
        return _unknown_tool(request) if tool is None else handler(request.override(tool=tool))

    async def _with_tools(
        self, request: ModelRequest[Any], run: Mapping[str, Any]
    ) -> ModelRequest[Any]:
        taken = [name_of(tool) for tool in request.tools]
        registration = await self._registration(run, taken)
        profile = profile_of(request.model)
        tools = [*request.tools, *(tool.with_profile(profile) for tool in registration.tools)]
        messages = readable_by(request.model, request.messages)
        changed = request.override(tools=tools, messages=messages)
        skipped = (server.name for server in registration.skipped)
        names = sorted({*registration.failures, *skipped})
        if not names or not self._report_unavailable:
            return changed
        note = f"These tool servers are unavailable at the moment: {', '.join(names)}."
        return changed.override(system_message=with_note(request.system_message, note))

    async def _registration(self, run: Mapping[str, Any], taken: list[str]) -> Registration:
        turn = self._turn_of(run)
        with contextlib.suppress(TypeError):  # a turn that cannot be hashed is not cached
            known = self._turns.get(turn)
            if known is not None and known[0]() is turn:
                return known[1]
        try:
            registration = await self._service.register(
                self._authorization, self._handler, turn, taken=taken
            )
        except GatewayError as error:
            logger.warning("going on without the gateway: %s", error)
            return Registration(failures={"the gateway": error})
        with contextlib.suppress(TypeError):
            self._turns[turn] = (weakref.ref(turn), registration)
        return registration

    async def _find(self, name: str, run: Mapping[str, Any]) -> BaseTool | None:
        registration = await self._registration(run, [])
        return next((tool for tool in registration.tools if tool.name == name), None)


def _unknown_tool(request: ToolCallRequest) -> ToolMessage:
    name = request.tool_call["name"]
    return error_message(request, f"There is no tool {name!r}. Use one of those that are offered.")
