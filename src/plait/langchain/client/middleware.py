"""Middleware that offers an agent the current tools of its servers in every turn."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRequest,
    ModelResponse,
    ProviderToolSearchMiddleware,
)
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.types import Command

from plait._support.sanitize import sanitize_text
from plait.errors import PlaitError
from plait.langchain.tools.blocks import text_block
from plait.langchain.tools.model_support import profile_of, provider_of, readable_by
from plait.langchain.tools.tool import MCPTool
from plait.langchain.tools.written_calls import CallTexts
from plait.models.call_arguments import fault_of

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from plait.client.options import ToolPatterns
    from plait.langchain.client.client import MultiServerMCPClient
    from plait.models.schemas.for_provider import Profile

logger = logging.getLogger("plait.langchain")

_END_TAG = re.compile(r"<\s*/\s*server_instructions", re.IGNORECASE)

_NATIVE: ProviderToolSearchMiddleware[Any, Any] = ProviderToolSearchMiddleware()
"""Adds the tool search of a provider to requests whose tools are marked for it."""

_NATIVE_PROVIDERS: Final = frozenset({"anthropic", "openai"})
"""The providers whose tool search LangChain supports."""

AsyncModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ToolCallResult = ToolMessage | Command[Any]


class MCPToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Offers the model the tools of a client's servers, listed anew in every turn.

    New tools are offered from the next turn on; a call of a removed tool returns an error that
    the model can read. Schemas are shaped for the model, and a line of text replaces content
    that it does not support.

    With `report_unavailable`, a note names the servers that cannot be reached or need a sign-in,
    and the run continues without their tools, unless a server is `required`. With `instructions`,
    the system prompt has the instructions of servers whose configuration has
    `trust_instructions`, marked with the server's name.

    If the client defers tools, the model gets `search_tools`, and from the next turn on the tools
    that it has found or called in this conversation.

    A call whose arguments are not complete JSON is not made, of any tool of the agent: it returns
    an error that the model can read.
    """

    def __init__(
        self,
        client: MultiServerMCPClient,
        *,
        servers: Sequence[str] = (),
        include: ToolPatterns | None = None,
        exclude: ToolPatterns | None = None,
        profile: Profile | None = None,
        report_unavailable: bool = True,
        instructions: bool = True,
    ) -> None:
        super().__init__()
        self.client = client
        self._servers = tuple(servers)
        self._list_tools = partial(
            client.get_tools, *self._servers, include=include, exclude=exclude
        )
        self._profile: Profile | None = profile
        self._report_unavailable = report_unavailable
        self._instructions = instructions

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Add the tools to the request, and call the model."""
        prepared = await self._prepared_request(request, run_of(request))
        texts = CallTexts()
        native = self._searches_natively(request.model)
        with texts.reading():
            reply = await (
                _NATIVE.awrap_model_call(prepared, handler) if native else handler(prepared)
            )
        return _as_written(reply, texts)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | AIMessage:
        """Do what `awrap_model_call` does, and block until it is done."""
        prepared = self.client.run_blocking(self._prepared_request, request, run_of(request))
        texts = CallTexts()
        native = self._searches_natively(request.model)
        with texts.reading():
            reply = _NATIVE.wrap_model_call(prepared, handler) if native else handler(prepared)
        return _as_written(reply, texts)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolCallResult]],
    ) -> ToolCallResult:
        """Run a tool of the servers, or return an error if it does not exist any more."""
        found = _known_call(request) or await self._with_tool(request, run_of(request))
        return found if isinstance(found, ToolMessage) else await handler(found)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolCallResult]
    ) -> ToolCallResult:
        """Do what `awrap_tool_call` does, and block until it is done."""
        found = _known_call(request) or self.client.run_blocking(
            self._with_tool, request, run_of(request)
        )
        return found if isinstance(found, ToolMessage) else handler(found)

    async def _prepared_request(
        self, request: ModelRequest[Any], run: Mapping[str, Any]
    ) -> ModelRequest[Any]:
        """Add tools and notes to a request, and replace what its model cannot read."""
        tools = await self._tools(request, run)
        notes = await self._server_instructions() if self._instructions else []
        if self._report_unavailable:
            # A note names the servers that cannot be used now.
            status = self.client.status()
            names = [name for name in status.failures if not self._servers or name in self._servers]
            unsigned = [name for name in names if status[name].needs_auth]
            groups = {
                "are unavailable at the moment": [name for name in names if name not in unsigned],
                "need the user to sign in first": unsigned,
            }
            sentences = [
                f"These tool servers {state}: {', '.join(sorted(group))}."
                for state, group in groups.items()
                if group
            ]
            notes += [" ".join(sentences)] if sentences else []
        own = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
        system = request.system_message
        for note in notes:
            system = with_note(system, note)
        return request.override(
            tools=[*request.tools, *(tool for tool in tools if tool.name not in own)],
            messages=readable_by(request.model, request.messages),
            system_message=system,
        )

    async def _server_instructions(self) -> list[str]:
        """Return the instructions of servers that are trusted and reachable."""
        configured = self.client.config.servers
        notes: list[str] = []
        for name in self._servers or configured:
            if not configured[name].trust_instructions or name in self.client.status().failures:
                continue
            if self.client.toolbox.is_waiting(name):
                continue  # a server is not started for its instructions alone
            try:
                facts = await self.client.toolbox.server_info(name)
            except PlaitError as error:
                logger.warning("continuing without the instructions of %s: %s", name, error)
                continue
            if facts.instructions and facts.instructions.strip():
                notes.append(instructions_note(name, facts.instructions))
        return notes

    async def _tools(self, request: ModelRequest[Any], run: Mapping[str, Any]) -> list[BaseTool]:
        profile: Profile | None = self._profile or self.client.profile
        if profile is None:
            profile = profile_of(request.model)
        native = self._searches_natively(request.model)
        try:
            tools = await self._list_tools(
                profile=profile,
                config=run,
                defer=not native,
                # The whole conversation, of which other middleware may send only a part.
                messages=cast("Any", request.state).get("messages") or request.messages,
            )
        except PlaitError as error:
            # An outage does not end the run, unless a server is required.
            kinds = {"transport"} if self.client.raises_auth_errors else {"transport", "auth"}
            status = self.client.status()
            is_required = any(status[name].required for name in status.failures)
            if error.kind not in kinds or not self._report_unavailable or is_required:
                raise
            logger.warning("continuing without tools: %s", error)
            return []
        if not native:
            return tools
        # The provider hides tools with this mark from the model until it finds them.
        listed = [tool.tool for tool in tools if isinstance(tool, MCPTool)]
        deferred = {tool.name for tool in self.client.toolbox.deferral.split(listed).deferred}
        return [
            tool.model_copy(update={"extras": {**(tool.extras or {}), "defer_loading": True}})
            if tool.name in deferred
            else tool
            for tool in tools
        ]

    def _searches_natively(self, model: object) -> bool:
        """Return whether the model's provider searches the deferred tools."""
        deferring = self.client.toolbox.deferral
        if not deferring.is_set or not deferring.is_native:
            return False
        return provider_of(model) in _NATIVE_PROVIDERS

    async def _with_tool(
        self, request: ToolCallRequest, run: Mapping[str, Any]
    ) -> ToolCallRequest | ToolMessage:
        """Add its tool to a call, or return an error: every call needs a result.

        A deferred tool need not have been found before.
        """
        name = request.tool_call["name"]
        try:
            called = AIMessage("", tool_calls=[request.tool_call])
            tools = await self._list_tools(config=run, messages=[called])
        except PlaitError as error:
            if error.kind == "config" or not self.client.handle_tool_errors:
                raise
            return error_message(request, error.message)
        for tool in tools:
            if tool.name == name:
                return request.override(tool=tool)
        text = f"There is no tool {name!r} (any more). Use one of those that are offered"
        text += ", or search for others." if self.client.toolbox.deferral.is_set else "."
        return error_message(request, text)


def _known_call(request: ToolCallRequest) -> ToolCallRequest | ToolMessage | None:
    """Return a call that has its tool, and an error for one that is not complete JSON."""
    if (fault := fault_of(request.tool_call["args"])) is not None:
        return error_message(request, fault)
    return None if request.tool is None else request


def _as_written(
    reply: ModelResponse[Any] | AIMessage, texts: CallTexts
) -> ModelResponse[Any] | AIMessage:
    """Return the reply of a model with the calls that it wrote, where they are not JSON."""
    if isinstance(reply, AIMessage):
        return texts.as_written(reply)
    result = [
        texts.as_written(message) if isinstance(message, AIMessage) else message
        for message in reply.result
    ]
    return replace(reply, result=result)


def run_of(request: object) -> Mapping[str, Any]:
    """Return the config of the agent's run, with the context of its graph."""
    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        config = {}
    runtime = getattr(request, "runtime", None)
    return {**config, "context": getattr(runtime, "context", None)}


def instructions_note(server: str, instructions: str) -> str:
    """Wrap the instructions of a server in a tag, which they cannot close themselves."""
    text = _END_TAG.sub("<\\\\/server_instructions", sanitize_text(instructions).strip())
    name = html.escape(server)
    return f'<server_instructions server="{name}">\n{text}\n</server_instructions>'


def error_message(request: ToolCallRequest, text: str) -> ToolMessage:
    """Return an error as the result of a call."""
    call = request.tool_call
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")


def with_note(system: SystemMessage | None, note: str) -> SystemMessage:
    """Add a note to the system prompt; existing blocks keep their cache marks."""
    if system is None:
        return SystemMessage(note)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{note}"})
    return system.model_copy(update={"content": [*system.content, text_block(note)]})
