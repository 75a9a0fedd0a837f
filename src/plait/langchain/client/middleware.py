"""Middleware that gives an agent the tools its servers offer now, turn by turn."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRequest,
    ModelResponse,
    ProviderToolSearchMiddleware,
)
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from plait._support.sanitize import harmless
from plait.client.catalog.schemas import Profile
from plait.errors import PlaitError
from plait.langchain.client.client import MultiServerMCPClient
from plait.langchain.client.native_search import has_tool_search, marked_for_search
from plait.langchain.tools.blocks import text_block
from plait.langchain.tools.model_support import profile_of, readable_by

logger = logging.getLogger("plait.langchain")

_END_OF_MARK = re.compile(r"<\s*/\s*server_instructions", re.IGNORECASE)

_NATIVE: ProviderToolSearchMiddleware[Any, Any] = ProviderToolSearchMiddleware()
"""Adds the search of a provider to requests with tools that are marked for it."""

ToolAnswer = ToolMessage | Command[Any]


class MCPToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Offers the tools of a client's servers to the model, as they are at each turn.

    Tools that appear are offered from the next turn on; one that went away answers with an error
    that the model can read. Schemas are shaped for the model that is asked, and content which
    that model cannot take is described to it instead. With `report_unavailable`, the model is
    told which servers cannot be reached or need somebody to sign in, and the run goes on even
    when there are none left; servers that are `required` end it. With `instructions`, what
    servers say about their use stands behind the instructions of the agent, marked as theirs:
    only that of servers whose configuration says `trust_instructions`.

    Where the client defers tools, the model gets `search_tools`, and from the next turn on the
    tools it has found or called in this conversation.
    """

    def __init__(
        self,
        client: MultiServerMCPClient,
        *,
        servers: Sequence[str] = (),
        include: Any = None,
        exclude: Any = None,
        profile: Profile | None = None,
        report_unavailable: bool = True,
        instructions: bool = True,
    ) -> None:
        super().__init__()
        self.client = client
        self._servers = tuple(servers)
        self._include = include
        self._exclude = exclude
        self._profile: Profile | None = profile
        self._report_unavailable = report_unavailable
        self._instructions = instructions

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | AIMessage:
        """Add the tools, and ask the model."""
        prepared = await self._prepared(request, run_of(request))
        if self._searches_natively(request.model):
            return await _NATIVE.awrap_model_call(prepared, handler)
        return await handler(prepared)

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | AIMessage:
        """Do what `awrap_model_call` does, in blocking code."""
        prepared = self.client.run_blocking(self._prepared, request, run_of(request))
        if self._searches_natively(request.model):
            return _NATIVE.wrap_model_call(prepared, handler)
        return handler(prepared)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]],
    ) -> ToolAnswer:
        """Run a tool that was added, or say that it is gone."""
        if request.tool is not None:
            return await handler(request)
        try:
            tool = await self._find(request.tool_call, run_of(request))
        except PlaitError as error:
            return self._failed(request, error)
        return self._gone(request) if tool is None else await handler(request.override(tool=tool))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]
    ) -> ToolAnswer:
        """Do what `awrap_tool_call` does, in blocking code."""
        if request.tool is not None:
            return handler(request)
        try:
            tool = self.client.run_blocking(self._find, request.tool_call, run_of(request))
        except PlaitError as error:
            return self._failed(request, error)
        return self._gone(request) if tool is None else handler(request.override(tool=tool))

    async def _prepared(
        self, request: ModelRequest[Any], run: Mapping[str, Any]
    ) -> ModelRequest[Any]:
        tools = await self._tools(request, run)
        told = await self._told() if self._instructions else ()
        return self._equipped(request, tools, told)

    async def _told(self) -> list[str]:
        """Collect the instructions of the servers that are trusted and can be reached."""
        configured = self.client.config.servers
        told: list[str] = []
        for name in self._servers or configured:
            if not configured[name].trust_instructions or name in self.client.status().failures:
                continue
            if self.client.toolbox.is_waiting(name):
                continue  # it is started when it is called, not to hear what it has to say
            try:
                facts = await self.client.toolbox.server_info(name)
            except PlaitError as error:
                logger.warning("going on without the instructions of %s: %s", name, error)
                continue
            if facts.instructions and facts.instructions.strip():
                told.append(instructions_note(name, facts.instructions))
        return told

    async def _tools(self, request: ModelRequest[Any], run: Mapping[str, Any]) -> list[BaseTool]:
        profile: Profile | None = self._profile or self.client.profile
        if profile is None:
            profile = profile_of(request.model)
        native = self._searches_natively(request.model)
        try:
            tools = await self.client.get_tools(
                *self._servers,
                include=self._include,
                exclude=self._exclude,
                profile=profile,
                config=run,
                defer=not native,
                messages=_messages_of(request),
            )
        except PlaitError as error:
            if not self._is_outage(error):
                raise
            logger.warning("going on without tools: %s", error)
            return []
        return marked_for_search(tools, self.client.toolbox.deferring) if native else tools

    def _searches_natively(self, model: object) -> bool:
        """Say whether the model's provider searches the tools that are deferred."""
        deferring = self.client.toolbox.deferring
        return deferring.is_set and deferring.is_native and has_tool_search(model)

    def _is_outage(self, error: PlaitError) -> bool:
        """Say whether the model can be told of it, because no one insists on these servers."""
        kinds = {"transport"} if self.client.raises_auth_errors else {"transport", "auth"}
        if error.kind not in kinds or not self._report_unavailable:
            return False
        status = self.client.status()
        return not any(status[name].required for name in status.failures)

    async def _find(self, call: ToolCall, run: Mapping[str, Any]) -> BaseTool | None:
        """Return the tool that is called; one that is deferred need not have been found."""
        tools = await self.client.get_tools(
            *self._servers,
            include=self._include,
            exclude=self._exclude,
            config=run,
            messages=[AIMessage("", tool_calls=[call])],
        )
        return next((tool for tool in tools if tool.name == call["name"]), None)

    def _equipped(
        self, request: ModelRequest[Any], tools: Sequence[BaseTool], told: Sequence[str]
    ) -> ModelRequest[Any]:
        own = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
        added = [tool for tool in tools if tool.name not in own]
        messages = readable_by(request.model, request.messages)
        changed = request.override(tools=[*request.tools, *added], messages=messages)
        note = self._note()
        system = request.system_message
        for text in (*told, *([note] if note is not None else [])):
            system = with_note(system, text)
        if system is request.system_message:
            return changed
        return changed.override(system_message=system)

    def _note(self) -> str | None:
        """Name the servers that cannot be used now."""
        if not self._report_unavailable:
            return None
        status = self.client.status()
        names = [name for name in status.failures if not self._servers or name in self._servers]
        unsigned = [name for name in names if status[name].needs_auth]
        groups = {
            "are unavailable at the moment": [name for name in names if name not in unsigned],
            "need the user to sign in first": unsigned,
        }
        said = [
            f"These tool servers {what}: {', '.join(sorted(some))}."
            for what, some in groups.items()
            if some
        ]
        return " ".join(said) or None

    def _failed(self, request: ToolCallRequest, error: PlaitError) -> ToolMessage:
        """Answer a call whose tool cannot be looked up; every call needs an answer."""
        if error.kind == "config" or not self.client.handle_tool_errors:
            raise error
        return error_message(request, error.message)

    def _gone(self, request: ToolCallRequest) -> ToolMessage:
        name = request.tool_call["name"]
        text = f"There is no tool {name!r} (any more). Use one of those that are offered"
        text += ", or search for others." if self.client.toolbox.deferring.is_set else "."
        return error_message(request, text)


def _messages_of(request: ModelRequest[Any]) -> Sequence[BaseMessage]:
    """Return the whole conversation; others may have shortened what is sent of it."""
    state = cast("Mapping[str, Any]", request.state)
    return state.get("messages") or request.messages


def run_of(request: object) -> Mapping[str, Any]:
    """Return the run that an agent is in, with the context of its graph."""
    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        config = {}
    runtime = getattr(request, "runtime", None)
    return {**config, "context": getattr(runtime, "context", None)}


def instructions_note(server: str, instructions: str) -> str:
    """Mark instructions as those of a server; they cannot end the mark by themselves."""
    said = _END_OF_MARK.sub("<\\\\/server_instructions", harmless(instructions).strip())
    name = html.escape(server)
    return f'<server_instructions server="{name}">\n{said}\n</server_instructions>'


def error_message(request: ToolCallRequest, text: str) -> ToolMessage:
    """Answer a call with a failure."""
    call = request.tool_call
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")


def with_note(system: SystemMessage | None, note: str) -> SystemMessage:
    """Add a note to the instructions; blocks stay as they are, with their marks for caching."""
    if system is None:
        return SystemMessage(note)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{note}"})
    return system.model_copy(update={"content": [*system.content, text_block(note)]})
