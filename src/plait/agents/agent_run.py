"""One run of an engine: its tools and calls, and the trace that comes of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from plait._support.redact import Redactor
from plait._support.sanitize import harmless
from plait.agents.config import AgentConfig
from plait.agents.model_config import ModelConfig
from plait.agents.recording import RunObserver
from plait.agents.run_tools import RunTool, ToolAnswer, tools_of_run
from plait.agents.servers import MCPServerConfig
from plait.agents.static_tool import StaticTool
from plait.agents.toolbox import toolbox_for
from plait.client.calls.approval import OnApproval
from plait.client.calls.result_budget.limiter import OWN_SERVER, READ_MORE
from plait.client.catalog.tool import Tool
from plait.client.toolbox import Toolbox
from plait.errors import (
    AgentExecutionError,
    AgentServerConnectError,
    AgentServerTimeoutError,
    ConfigError,
    PlaitError,
)
from plait.traces.events import Status
from plait.traces.messages.lists import extract_system_prompt
from plait.traces.messages.message import Message, Role
from plait.traces.messages.usage import UsageMetadata
from plait.traces.recorder import Recorder
from plait.traces.trace import Trace

logger = logging.getLogger("plait.agents")

_GUARDS: Final = ("lock", "lockfile", "policy")
"""The options that decide about a tool by what its server says of it."""


class AgentRun:
    """What an engine needs to make one run; every engine makes its calls through `call`.

    An engine tells `recorder.turn` of each answer of the model before it calls the tools that the
    answer asks for, and sets `session_id`, `usage`, `actual_model` and `final_response` as soon as
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
        """Hides the secrets of the run in a text."""
        self.toolbox = toolbox
        self.messages: list[Message] = [one for one in messages if one.role is not Role.SYSTEM]
        """What was said before; what the system says is in `system_prompt`."""
        self.system_prompt: str | None = (
            extract_system_prompt(messages) or settings.system_prompt or model_config.system_prompt
        )
        self.tools: dict[str, RunTool] = {}
        """The tools of the run, by the name that the model knows."""
        self.session_id: str | None = None
        self.usage: UsageMetadata | None = None
        """What the run needed; without it, the sum over its turns."""
        self.actual_model: str | None = None
        self.final_response: str | None = None
        """The answer; without it, the last that the model said."""
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
        """Call a tool as the model asks for it, and record that; what goes wrong is an answer.

        `on_approval` is asked about this call, where the policy says so, in place of the run's own.

        Raises:
            ConfigError: A developer must act.
        """
        tool = self.tools.get(name)
        server = None if tool is None else tool.server
        wire_name = None if tool is None else tool.wire_name
        self.recorder.tool_called(call_id, name, arguments, server=server, tool=wire_name)
        attempts, notes = 1, ()
        if tool is None:
            answer = ToolAnswer.of_text(self._unknown(name), is_error=True)
        elif tool.static is not None:
            text, failed = await tool.static.call(arguments)
            answer = ToolAnswer.of_text(text, is_error=failed)
        else:
            answer, attempts, notes = await self._call_server(tool, arguments, on_approval)
        self.recorder.tool_returned(
            call_id, answer.text, is_error=answer.is_error, attempts=attempts, notes=notes
        )
        return answer

    async def _call_server(
        self, tool: RunTool, arguments: Mapping[str, Any], on_approval: OnApproval | None
    ) -> tuple[ToolAnswer, int, tuple[str, ...]]:
        assert self.toolbox is not None  # noqa: S101  # the tool is one of its tools
        assert tool.server is not None  # noqa: S101
        assert tool.wire_name is not None  # noqa: S101
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
            text = harmless(error.message) if self.toolbox.sanitizes else error.message
            return ToolAnswer.of_text(text, is_error=True), 1, ()
        answer = ToolAnswer.of_result(result, sanitize=self.toolbox.sanitizes)
        return answer, result.attempts, result.notes

    def _unknown(self, name: str) -> str:
        known = ", ".join(self.tools) or "none"
        return f"there is no tool {name!r}; the tools are: {known}"

    async def list_tools(self, static: Sequence[StaticTool]) -> None:
        """Find the tools of the run.

        Raises:
            ConfigError: Two have the same name.
            AgentServerError: A server that the run needs cannot be used.
        """
        listed = [] if self.toolbox is None else await _listed(self.toolbox, self._context)
        if self.toolbox is not None:
            if deferred := self.toolbox.deferring.split(listed).deferred:
                logger.warning(
                    "engines offer every tool: `defer` is not used for %d of them", len(deferred)
                )
            taken = {tool.name for tool in (*listed, *static)}
            own = self.toolbox.own_tools(taken=taken)
            self._reader = own[0].name if own else READ_MORE
            listed += own
        self.tools = tools_of_run(static, listed)

    def begin(self, interface: str) -> None:
        """Record how the run begins."""
        self.recorder.run_started(
            [*_system(self.system_prompt), *self.messages],
            interface=interface,
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
        """How long the run may take."""
        return self.settings.timeout or self.model_config.agent_timeout

    def end(self, status: Status) -> Trace:
        """Record how the run ends."""
        return self.recorder.ended(
            status,
            final_response=self.final_response if status == "completed" else None,
            usage=self.usage,
            session_id=self.session_id,
            actual_model=self.actual_model,
        )


@contextlib.asynccontextmanager
async def toolbox_of_run(
    model_config: ModelConfig,
    mcp_servers: Mapping[str, MCPServerConfig] | None,
    settings: AgentConfig,
    observer: RunObserver,
) -> AsyncGenerator[Toolbox | None]:
    """Open the toolbox of a run; `None` if it has no servers.

    Raises:
        ConfigError: A server is described wrongly, or an option makes no sense.
    """
    options: dict[str, Any] = dict(settings.tool_options)
    # A run lists its tools once, so the model does not learn of a change; those who guard it do.
    options.setdefault("follow_tools", any(options.get(name) for name in _GUARDS))
    observers = (observer, *options.pop("observers", ()))
    if (ask := options.get("on_elicitation")) is not None:
        options["on_elicitation"] = observer.hearing(ask)
    toolbox = toolbox_for(model_config, mcp_servers, observers=observers, **options)
    if toolbox is None:
        yield None
        return
    async with toolbox:
        yield toolbox


def check_messages(messages: Sequence[Message]) -> None:
    """Refuse a run without a question.

    Raises:
        AgentExecutionError: There is none.
    """
    if not any(message.role is not Role.SYSTEM for message in messages):
        raise AgentExecutionError("there is no message to answer: give at least one of the user")


async def _listed(toolbox: Toolbox, context: Mapping[str, Any]) -> list[Tool]:
    try:
        return await toolbox.tools(run=context)
    except ConfigError:
        raise
    except PlaitError as error:
        if isinstance(error, TimeoutError):
            raise AgentServerTimeoutError(str(error), error.server) from error
        raise AgentServerConnectError(str(error), error.server) from error


def _system(prompt: str | None) -> list[Message]:
    return [] if prompt is None else [Message.system(prompt)]
