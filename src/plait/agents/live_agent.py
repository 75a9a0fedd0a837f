"""The base of engines that ask a model: the frame around a run, the same in all of them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

from plait._support.causes import without_secrets
from plait.agents.agent_run import AgentRun, check_messages, toolbox_of_run
from plait.agents.base_agent import BaseAgent
from plait.agents.config import AgentConfig
from plait.agents.model_config import ModelConfig
from plait.agents.recording import RunObserver, recorder_for
from plait.agents.result import AgentResult, result_from_trace
from plait.agents.servers import MCPServerConfig
from plait.agents.static_tool import StaticTool
from plait.agents.toolbox import redactor_for
from plait.errors import AgentExecutionError, EngineUnavailableError, PlaitError
from plait.traces.messages.message import Message
from plait.traces.trace import Trace

Ending = Literal["completed", "limit"]
"""How an engine ends a run by itself: with an answer, or because the turns are used up."""

_LOCAL: Final = ("local", "scripted")
"""Providers whose models run in this process."""


class LiveAgent(BaseAgent):
    """An engine that asks a model; subclasses write `drive`.

    Servers, tools, the trace, the time limit and failures are looked after here.
    """

    interface: ClassVar[str]

    runs_local_models: ClassVar[bool] = False
    """Whether a model that runs in this process can be asked."""

    def __init__(self, model_config: ModelConfig) -> None:
        """Take a model.

        Raises:
            EngineUnavailableError: It is one that this engine cannot ask.
        """
        if model_config.model_provider in _LOCAL and not self.runs_local_models:
            text = (
                f"a model of the provider {model_config.model_provider!r} runs on the langchain "
                "engine: set interface='langchain'"
            )
            raise EngineUnavailableError(text, "local_model", "langchain")
        self.model_config = model_config

    @abstractmethod
    async def drive(self, run: AgentRun) -> Ending:
        """Ask the model, and call tools with `run.call`, until there is an answer.

        What the model says is told to `run.recorder`. When the time is over this is cancelled.
        """

    async def arun(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Run an agent to its answer, or until turns or time are used up.

        Without `mcp_servers`, the servers are those of the model's configuration.

        Raises:
            AgentExecutionError: The model cannot be asked, or there is nothing to ask.
            AgentServerError: A server that the run needs cannot be used.
            ConfigError: A setting is wrong.
            OSError: The file of the trace cannot be written.
        """
        settings = config or AgentConfig()
        check_messages(messages)
        observer = RunObserver()
        async with toolbox_of_run(self.model_config, mcp_servers, settings, observer) as toolbox:
            redact = redactor_for(self.model_config, toolbox)
            with recorder_for(settings, redact) as recorder:
                if toolbox is not None:
                    observer.watch(toolbox, recorder)
                run = AgentRun(self.model_config, settings, messages, recorder, redact, toolbox)
                trace = await self._within_time(run, tools or ())
        return result_from_trace(trace)

    def seconds_for(self, config: AgentConfig) -> float | None:
        """Say how long a run may take; `None` if that is not limited."""
        return config.timeout or self.model_config.agent_timeout

    async def _within_time(self, run: AgentRun, tools: Sequence[StaticTool]) -> Trace:
        limit = asyncio.timeout(run.seconds)
        try:
            async with limit:
                try:
                    await run.list_tools(tools)
                finally:
                    run.begin(self.interface)
                return run.end(await self.drive(run))
        except Exception as error:  # noqa: BLE001  # boundary: of engines there are many
            if limit.expired():  # whatever the engine made of being cancelled
                return run.end("timeout")
            failure = self._failure(run, error)
        # Outside of the handler, or what was handled would stand behind it, secrets and all.
        raise failure

    def _failure(self, run: AgentRun, error: Exception) -> BaseException:
        """Make one error of ours of what ended a run, without secrets in what led to it."""
        if isinstance(error, PlaitError):
            return without_secrets(error, run.redact)
        said = run.redact.excerpt(str(error))
        failure = AgentExecutionError(f"{self.interface}: {type(error).__name__}: {said}")
        failure.__cause__ = error
        return without_secrets(failure, run.redact)
