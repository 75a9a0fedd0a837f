"""The engine `manual`: answers with recordings."""

from __future__ import annotations

from collections.abc import Sequence

from plait._support.redact import Redactor
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.engines.manual.traces import ManualTraces
from plait.agents.port import AgentCapabilities, AgentResult, BaseAgent, StaticTool
from plait.agents.recording import recorder_for
from plait.agents.servers import AgentServers
from plait.errors import ManualEngineError
from plait.traces.messages.message import Message, Role
from plait.traces.recorder import Recorder


class ManualAgent(BaseAgent):
    """Returns recorded answers, by the hash of the question or the name of the task."""

    def __init__(self, model_config: ModelConfig) -> None:
        """Read the recordings of the configuration."""
        self._traces = ManualTraces.of(model_config.manual_traces)

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the engine supports."""
        return AgentCapabilities(supports_system_prompt=False)

    async def arun(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: AgentServers | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Return the recording of `config.question_hash`, or of `config.extra["task_id"]`.

        Raises:
            ManualEngineError: There are tools or servers, or neither hash nor name.
            ManualTraceNotFoundError: There is no such recording.
        """
        if mcp_servers or tools:
            raise ManualEngineError(
                "MCP tools are not supported with manual interface: recordings call no tools",
                "tools" if tools else "mcp_servers",
            )
        settings = config or AgentConfig()
        if settings.question_hash is None and settings.task_id is None:
            raise ManualEngineError(
                "the manual engine needs AgentConfig.question_hash (the MD5 of the question), "
                'or extra["task_id"]',
                "arun",
            )
        result = self._traces.find(settings.question_hash, settings.task_id)
        if settings.trace is not None or settings.on_event is not None:
            with recorder_for(settings, Redactor()) as recorder:
                _record(recorder, messages, settings, result)
        return result


def _record(
    recorder: Recorder, messages: Sequence[Message], settings: AgentConfig, result: AgentResult
) -> None:
    """Write the trace of a replay, with the times of the replay."""
    recorder.run_started(
        messages,
        interface="manual",
        model=result.actual_model,
        question_hash=settings.question_hash,
        task_id=settings.task_id,
    )
    for message in result.trace_messages:
        if message.role is Role.ASSISTANT:
            recorder.turn(message)
            for call in message.tool_calls:
                recorder.tool_called(call.id, call.name, call.input)
        for answer in message.tool_results:
            recorder.tool_returned(answer.tool_use_id, answer.content, is_error=answer.is_error)
    stopped = "timeout" if result.timeout_reached else "completed"
    recorder.ended(
        "limit" if result.limit_reached else stopped,
        final_response=result.final_response,
        usage=result.usage,
        turns=result.turns,
        session_id=result.session_id,
        actual_model=result.actual_model,
    )
