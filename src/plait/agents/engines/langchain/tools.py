"""The tools of a run as LangChain tools, and the messages that their results become.

They are the tools of `MultiServerMCPClient`, so that interceptors, hooks, deferred tools and
interrupts work in a run too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import mcp_types as types
from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from typing_extensions import override

from plait.agents.agent_run import AgentRun, RunTool, ToolAnswer
from plait.client.calls import tool_call
from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.limiter import OWN_SERVER, READ_MORE
from plait.client.catalog.schemas import schema_for_provider
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_options
from plait.client.toolbox import Toolbox
from plait.langchain.client.client import Selection
from plait.langchain.client.deferred import deferred_tools, loaded_names
from plait.langchain.client.own_tools import read_more_tools
from plait.langchain.tools.blocks import Block, standard_block, text_block
from plait.langchain.tools.caller import ToolboxCaller
from plait.langchain.tools.model_support import profile_of
from plait.langchain.tools.runner import RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool
from plait.traces.messages.from_mcp import text_from_mcp

HOOKS: Final = frozenset({"tool_interceptors", "before_tool_call", "after_tool_call"})
"""The options of `AgentConfig.tool_options` that wrap tool calls on this engine."""


class ProgramTool(BaseTool):
    """The definition of a tool of the program; `Turns` answers its calls."""

    @override
    def _run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self.name} can be called in its run only")


class LangChainTools:
    """The tools of a run, and those of them that the model sees at each turn."""

    def __init__(self, run: AgentRun, model: object) -> None:
        profile = profile_of(model)
        shown: list[BaseTool] = [
            ProgramTool(
                name=tool.name,
                description=tool.description,
                args_schema=schema_for_provider(tool.input_schema, profile).schema,
            )
            for tool in run.tools.values()
            if tool.listed is None
        ]
        self.deferred: dict[str, BaseTool] = {}
        """The tools for which the model must search, by name."""
        if run.toolbox is not None:
            tools, deferred = _server_tools(run, run.toolbox)
            shown += [tool.with_profile(profile) for tool in tools]
            self.deferred = {tool.name: tool.with_profile(profile) for tool in deferred}
        self._shown = shown

    @property
    def all(self) -> list[BaseTool]:
        """Every tool, including those that are deferred."""
        return [*self._shown, *self.deferred.values()]

    @property
    def listed(self) -> list[Tool]:
        """Those of servers that the model sees from the start, as they are listed."""
        return [tool.tool for tool in self._shown if isinstance(tool, MCPTool)]

    def visible(self, messages: Iterable[BaseMessage]) -> list[BaseTool]:
        """Return the tools that the model sees after these messages.

        The deferred ones that it has found come last, so that the prompt before them stays cached.
        """
        names = [name for name in loaded_names(messages) if name in self.deferred]
        return [*self._shown, *(self.deferred[name] for name in names)]


def _server_tools(run: AgentRun, toolbox: Toolbox) -> tuple[list[MCPTool], list[MCPTool]]:
    """Create the tools of the servers: those shown at once, and those that are deferred."""
    options = run.settings.tool_options
    hooks = read_options({name: options[name] for name in HOOKS & options.keys()})
    own = {"on_approval": options.get("on_approval"), "sanitize": toolbox.sanitizes}
    settings = RunnerSettings.of({**hooks, **own}, servers={})
    listed = {
        tool.name: _described(tool, tool.listed)
        for tool in run.tools.values()
        if tool.listed is not None and tool.listed.server != OWN_SERVER
    }
    names = {tool.name for tool in run.tools.values() if tool.server != OWN_SERVER}
    readers = read_more_tools(toolbox, taken=names, settings=settings)
    caller = _RecordedCaller(toolbox, has_callback="on_elicitation" in options)
    runner = ToolRunner(caller, settings, reader=readers[0].name if readers else READ_MORE)
    split = toolbox.deferral.split(list(listed.values()))
    search = deferred_tools(split, runner, Selection(toolbox=toolbox), names, messages=())
    shown = [MCPTool(tool, runner) for tool in split.shown]
    return [*shown, *readers, *search], [MCPTool(tool, runner) for tool in split.deferred]


def _described(tool: RunTool, listed: Tool) -> Tool:
    has_text = listed.description or listed.title
    return listed if has_text else replace(listed, description=tool.description)


@dataclass(slots=True)
class CallOutcome:
    """The result of the tool call in progress, as the trace needs it."""

    answer: ToolAnswer | None = None
    attempts: int = 1
    notes: tuple[str, ...] = ()


_outcome: ContextVar[CallOutcome | None] = ContextVar("plait_call_outcome", default=None)


@contextmanager
def observed_call() -> Generator[CallOutcome]:
    """Collect the outcome of the tool call that is made in the block."""
    outcome = CallOutcome()
    token = _outcome.set(outcome)
    try:
        yield outcome
    finally:
        _outcome.reset(token)


class _RecordedCaller(ToolboxCaller):
    """Makes calls with a toolbox, and notes each result in the `CallOutcome` of its call.

    It makes no direct calls, which would not be noted.
    """

    def __init__(self, toolbox: Toolbox, *, has_callback: bool) -> None:
        super().__init__(toolbox)
        self._has_callback = has_callback
        self.access_for = toolbox.calls.access_for
        self.apply_overrides = toolbox.calls.apply_overrides

    async def execute(self, call: tool_call.ToolCall) -> ToolResult:
        """Make the call; an elicitation callback of the run is preferred to an interrupt."""
        result = await self._toolbox.calls.execute(
            replace(call, pause=None) if self._has_callback else call
        )
        if (outcome := _outcome.get()) is not None:
            outcome.attempts, outcome.notes = result.attempts, result.notes
        return result

    async def bounded(
        self, result: ToolResult, call: tool_call.ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Keep the result, which is the last one of the call, within its budget."""
        bounded = await self._toolbox.calls.bounded(result, call, reader=reader)
        if (outcome := _outcome.get()) is not None:
            outcome.answer = ToolAnswer.of_result(bounded, sanitize=self._toolbox.sanitizes)
        return bounded


def takes_images(model: object) -> bool:
    """Check whether a chat model accepts images in tool messages.

    OpenAI's chat protocol accepts only text there.
    """
    if any(kind.__name__ == "BaseChatOpenAI" for kind in type(model).__mro__):
        return False
    able: dict[str, Any] = getattr(model, "profile", None) or {}
    return able.get("image_inputs") is not False and able.get("image_tool_message") is not False


def message_from_answer(
    call: ToolCall, answer: ToolAnswer, *, images: bool, artifact: Any = None
) -> ToolMessage:
    """Create the message for the model; without `images`, a line of text describes an image."""
    content: Any = answer.text
    if images and any(isinstance(block, types.ImageContent) for block in answer.content):
        content = [_block(block) for block in answer.content]
    return ToolMessage(
        content=content,
        artifact=artifact,
        tool_call_id=call["id"] or "",
        name=call["name"],
        status="error" if answer.is_error else "success",
    )


def _block(block: types.ContentBlock) -> Block:
    if isinstance(block, types.TextContent | types.ImageContent):
        return standard_block(block)
    return text_block(text_from_mcp([block]))
