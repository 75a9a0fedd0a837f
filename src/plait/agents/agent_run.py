"""One run of an engine: its tools, its calls with their answers, and its trace."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import mcp_types as types

from plait._support.redact import Redactor
from plait._support.sanitize import sanitize_text
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.port import StaticTool
from plait.client.calls.approval import OnApproval
from plait.client.calls.outcome import ToolResult, content_for_model
from plait.client.calls.result_budget.limiter import OWN_SERVER, READ_MORE
from plait.client.catalog.tool import Tool
from plait.client.toolbox import Toolbox
from plait.errors import AgentServerConnectError, AgentServerTimeoutError, ConfigError, PlaitError
from plait.traces.events import Status
from plait.traces.messages.from_mcp import line_from_mcp, text_from_mcp
from plait.traces.messages.message import Message, Role, UsageMetadata, extract_system_prompt
from plait.traces.recorder import Recorder
from plait.traces.trace import Trace

logger = logging.getLogger("plait.agents")


class AgentRun:
    """The state of one run; engines call tools through `call`.

    An engine passes each answer of the model to `recorder.turn` before it calls the tools that the
    answer requests, and sets `session_id`, `usage`, `actual_model` and `final_response` as soon as
    it knows them: a run may be stopped at any time.
    """

    def __init__(
        self,
        model_config: ModelConfig,
        settings: AgentConfig,
        messages: Sequence[Message],
        recorder: Recorder,
        redact: Redactor,
        toolbox: Toolbox | None,
    ) -> None:
        self.model_config = model_config
        self.settings = settings
        self.recorder = recorder
        self.redact = redact
        """Hides the secrets of the run in texts."""
        self.toolbox = toolbox
        self.messages = [message for message in messages if message.role is not Role.SYSTEM]
        """The conversation so far, without system messages: see `system_prompt`."""
        self.system_prompt: str | None = (
            extract_system_prompt(messages) or settings.system_prompt or model_config.system_prompt
        )
        self.tools: dict[str, RunTool] = {}
        """The tools of the run, by their names for the model."""
        self.session_id: str | None = None
        self.usage: UsageMetadata | None = None
        """The usage of the run; if unset, the sum over its turns."""
        self.actual_model: str | None = None
        self.final_response: str | None = None
        """The answer; if unset, the last text of the model."""
        self._reader = READ_MORE
        self._context: dict[str, Any] = {
            "run_id": recorder.run,
            "configurable": dict(settings.extra.get("configurable") or {}),
        }

    async def call(
        self,
        call_id: str,
        name: str,
        arguments: Mapping[str, Any],
        *,
        on_approval: OnApproval | None = None,
    ) -> ToolAnswer:
        """Call a tool for the model, and record the call; failures become answers.

        `on_approval` replaces the run's own callback for this call.

        Raises:
            ConfigError: The configuration must be corrected.
        """
        tool = self.tools.get(name)
        self.record_call(call_id, name, arguments)
        attempts, notes = 1, ()
        if tool is not None and tool.listed is not None:
            answer, attempts, notes = await self._call_server(tool.listed, arguments, on_approval)
        elif tool is not None and tool.static is not None:
            text, failed = await tool.static.call(arguments)
            answer = ToolAnswer.of_text(text, is_error=failed)
        else:
            answer = ToolAnswer.of_text(self.unknown_tool(name), is_error=True)
        self.recorder.tool_returned(
            call_id, answer.text, is_error=answer.is_error, attempts=attempts, notes=notes
        )
        return answer

    async def _call_server(
        self, tool: Tool, arguments: Mapping[str, Any], on_approval: OnApproval | None
    ) -> tuple[ToolAnswer, int, tuple[str, ...]]:
        assert self.toolbox is not None  # noqa: S101  # the tool is one of its tools
        try:
            result = await self.toolbox.call(
                tool.server,
                tool.wire_name,
                arguments,
                on_approval=on_approval,
                run=self._context,
                reader=self._reader,
            )
        except ConfigError:
            raise
        except PlaitError as error:
            return ToolAnswer.of_text(self.text_of(error), is_error=True), 1, ()
        answer = ToolAnswer.of_result(result, sanitize=self.toolbox.sanitizes)
        return answer, result.attempts, result.notes

    def text_of(self, error: PlaitError) -> str:
        """Return the text of an error for the model."""
        sanitizes = self.toolbox is not None and self.toolbox.sanitizes
        return sanitize_text(error.message) if sanitizes else error.message

    def record_call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Record a call that is about to be made, or rejected."""
        tool = self.tools.get(name)
        self.recorder.tool_called(
            call_id, name, arguments, server=tool and tool.server, tool=tool and tool.wire_name
        )

    def tool_option(self, name: str) -> Any:
        """Return an option of the run's tools; those of the run win over the configuration's."""
        if name in self.settings.tool_options or self.toolbox is None:
            return self.settings.tool_options.get(name)
        return self.toolbox.config.options.get(name)

    def unknown_tool(self, name: str) -> str:
        """Return the error text for a tool that does not exist."""
        return f"there is no tool {name!r}; the tools are: {', '.join(self.tools) or 'none'}"

    async def list_tools(self, static: Sequence[StaticTool], *, defers: bool = False) -> None:
        """List the tools of the run; `defers` says whether the engine defers tools.

        Raises:
            ConfigError: Two tools have the same name.
            AgentServerError: A required server cannot be used.
        """
        listed = [] if self.toolbox is None else await _list_tools(self.toolbox, self._context)
        if self.toolbox is not None:
            deferred = () if defers else self.toolbox.deferral.split(listed).deferred
            if deferred:
                text = "this engine offers every tool: `defer` is not used for %d of them"
                logger.warning(text, len(deferred))
            taken = {tool.name for tool in (*listed, *static)}
            own = self.toolbox.own_tools(taken=taken)
            self._reader = own[0].name if own else READ_MORE
            listed += own
        self.tools = tools_of_run(static, listed)

    def begin(self, engine: str) -> None:
        """Record the start of the run."""
        prompt = () if self.system_prompt is None else (Message.system(self.system_prompt),)
        self.recorder.run_started(
            [*prompt, *self.messages],
            interface=engine,
            model=self.model_config.model_name,
            question_hash=self.settings.question_hash,
            task_id=self.settings.task_id,
            servers=() if self.toolbox is None else self.toolbox.server_names,
            tools=[tool.full_name for tool in self.tools.values() if tool.server != OWN_SERVER],
            max_turns=self.settings.max_turns,
            timeout_seconds=self.seconds,
        )

    @property
    def seconds(self) -> float | None:
        """The time limit of the run."""
        return self.settings.timeout or self.model_config.agent_timeout

    def end(self, status: Status) -> Trace:
        """Record the end of the run, and return its trace."""
        return self.recorder.ended(
            status,
            final_response=self.final_response if status == "completed" else None,
            usage=self.usage,
            session_id=self.session_id,
            actual_model=self.actual_model,
        )


async def _list_tools(toolbox: Toolbox, context: Mapping[str, Any]) -> list[Tool]:
    try:
        return await toolbox.tools(run=context)
    except ConfigError:
        raise
    except PlaitError as error:
        if isinstance(error, TimeoutError):
            raise AgentServerTimeoutError(str(error), error.server) from error
        raise AgentServerConnectError(str(error), error.server) from error


_CLAUDE_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """A tool of a run: of a server, of the toolbox itself, or of the program."""

    name: str
    """The name for the model, unique in the run."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    listed: Tool | None = None
    """The tool in the catalogue; `None` for a tool of the program."""
    static: StaticTool | None = None
    """The tool of the program; `None` for a tool of a server."""

    @property
    def server(self) -> str | None:
        """The server that runs it, if one does."""
        return None if self.listed is None else self.listed.server

    @property
    def wire_name(self) -> str | None:
        """The name on the server."""
        return None if self.listed is None else self.listed.wire_name

    @property
    def full_name(self) -> str:
        """The name in traces: `server/tool`, or only the name."""
        return self.name if self.listed is None else self.listed.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of a call for the model."""

    content: tuple[types.ContentBlock, ...]
    """At least one block; structured content is text if there is no other text."""
    text: str
    """The content as one text, for traces."""
    is_error: bool = False
    structured_content: Any | None = None

    @classmethod
    def of_text(cls, text: str, *, is_error: bool = False) -> ToolAnswer:
        """Create an answer from a text."""
        content = content_for_model(
            [types.TextContent(text=text)], is_error=is_error, sanitize=False
        )
        return cls(content=content, text=text_from_mcp(content), is_error=is_error)

    @classmethod
    def of_result(cls, result: ToolResult, *, sanitize: bool = True) -> ToolAnswer:
        """Convert a tool result; `sanitize` removes characters that hide text."""
        content = content_for_model(
            result.content, result.structured_content, is_error=result.is_error, sanitize=sanitize
        )
        return cls(
            content=content,
            text=text_from_mcp(content),
            is_error=result.is_error,
            structured_content=result.structured_content,
        )

    def texts_and_images(self) -> list[types.TextContent | types.ImageContent]:
        """Return the content for Claude; a line of text describes what it does not accept.

        An image is shown if Claude reads its type, and never in an error.
        """
        return [
            block if self._is_read(block) else types.TextContent(text=line_from_mcp(block))
            for block in self.content
        ]

    def _is_read(
        self, block: types.ContentBlock
    ) -> TypeGuard[types.TextContent | types.ImageContent]:
        if isinstance(block, types.ImageContent):
            return not self.is_error and block.mime_type in _CLAUDE_IMAGES
        return isinstance(block, types.TextContent)


def tools_of_run(static: Sequence[StaticTool], listed: Iterable[Tool]) -> dict[str, RunTool]:
    """Collect the tools of a run by name, those of the program first."""
    tools: dict[str, RunTool] = {}
    for own in static:
        if own.name in tools:
            raise ConfigError(f"two tools of the program are called {own.name!r}")
        tools[own.name] = RunTool(
            name=own.name, description=own.description, input_schema=own.input_schema, static=own
        )
    for tool in listed:
        if tool.name in tools:
            raise ConfigError(
                f"{tool.name!r} is a tool of the program and of {tool.server}: "
                "rename one, or leave one out with mcp_tool_filter",
                server=tool.server,
            )
        tools[tool.name] = RunTool(
            name=tool.name,
            description=tool.description or tool.title or f"Tool from {tool.server}",
            input_schema=tool.input_schema,
            listed=tool,
        )
    return tools
