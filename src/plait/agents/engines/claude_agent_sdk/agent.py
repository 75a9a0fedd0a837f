"""The engine `claude_agent_sdk`: Claude's command line, through the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from claude_agent_sdk import ClaudeSDKClient, ClaudeSDKError, CLINotFoundError, ResultMessage
from typing_extensions import override

from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun
from plait.agents.anthropic_api import advice_for, anthropic_url
from plait.agents.config import ModelConfig
from plait.agents.engines.claude_agent_sdk.bridge import Bridge
from plait.agents.engines.claude_agent_sdk.messages import query_from_messages
from plait.agents.engines.claude_agent_sdk.options import options_for, secrets_in
from plait.agents.engines.claude_agent_sdk.tools import cli_tools
from plait.agents.engines.claude_agent_sdk.turns import Turns
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_retry import RetryPlan, is_transient
from plait.client.toolbox import Toolbox
from plait.errors import AgentExecutionError, ConfigError
from plait.models.endpoints import origin_of
from plait.traces.messages.message import UsageMetadata

_INTERRUPT_SECONDS: Final = 3.0
"""How long the command line may take to stop before it is killed."""

_STDERR_LINES: Final = 20


class ClaudeSDKAgent(LiveAgent):
    """Runs agents on Claude's command line, with only the tools of the run."""

    engine: ClassVar[str] = "claude_agent_sdk"

    @property
    @override
    def sent_temperature(self) -> None:
        """Nothing: the command line has no setting for it."""
        return

    @override
    async def drive(self, run: AgentRun) -> Ending:
        """Run sessions until one ends; one whose answer broke off is followed by another.

        The command line itself repeats requests that fail before an answer begins.
        """
        plan = RetryPlan.of(run.model_config)
        attempt = 1
        while True:
            turns, ending = await self._session(run)
            if not isinstance(ending, AgentExecutionError):
                return ending
            pause = plan.pause(ending, attempt, run.seconds_left())
            if pause is None or not turns.broke_off or run.turns_left < 1:
                raise ending
            attempt += 1
            run.model_retry(attempt, str(ending), pause, ending.status)
            await asyncio.sleep(pause)

    async def _session(self, run: AgentRun) -> tuple[Turns, Ending | AgentExecutionError]:
        """Run one session, which begins after the turns so far."""
        bridged = not run.settings.extra.get("pass_through_servers")
        if not bridged and run.toolbox is not None:
            _check_passed_through(run.toolbox)
        servers = () if run.toolbox is None else run.toolbox.server_names
        tools = cli_tools(run.tools.values(), servers, bridged=bridged)
        turns = Turns(run, tools)
        bridge = Bridge(run, tools, turns)
        lines: deque[str] = deque(maxlen=_STDERR_LINES)
        async with _folder() as folder:
            options = await asyncio.to_thread(
                options_for, run, folder, tools, bridge, bridged=bridged, stderr=lines.append
            )
            redact = run.redact.also(secrets_in())
            client = ClaudeSDKClient(options)
            try:
                return turns, await _Session(run, client, turns, bridge, lines, redact).run()
            except AgentExecutionError as error:
                return turns, error


def _check_passed_through(toolbox: Toolbox) -> None:
    """Refuse what cannot hold where the command line lists and calls tools in its own sessions."""
    refused = {
        "a lockfile": toolbox.lock_report().mode == "block",
        "a rule about annotations": toolbox.calls.policy.uses_hints,
    }
    for what, is_set in refused.items():
        if is_set:
            text = f"{what} cannot hold with pass_through_servers: remove one of them"
            raise ConfigError(text)


@dataclass(slots=True)
class _Session:
    _run: AgentRun
    _client: ClaudeSDKClient
    _turns: Turns
    _bridge: Bridge
    _lines: deque[str]
    _redact: Redactor

    async def run(self) -> Ending:
        """Run until there is an answer, or the turn limit; afterwards nothing is left running."""
        try:
            await self._client.connect()
            so_far = self._run.recorder.trace.messages
            await self._client.query(query_from_messages([*self._run.messages, *so_far]))
            return await self._follow()
        except BaseException as error:
            # Otherwise it would continue for seconds with what it has begun.
            await self._interrupt()
            if self._turns.is_over and isinstance(error, Exception):
                return (
                    "limit" if self._turns.is_spent else "completed"
                )  # there is an answer; its usage is the sum of the turns
            if isinstance(error, ClaudeSDKError):
                raise execution_error(error, self._redact, self._stderr) from error
            raise
        finally:
            self._turns.close()
            await self._client.disconnect()

    async def _follow(self) -> Ending:
        messages = cast("AsyncGenerator[object]", self._client.receive_messages())
        async with contextlib.aclosing(messages), asyncio.timeout(None) as limit:
            async for message in messages:
                self._turns.handle(message)
                if self._bridge.failure is not None:
                    raise self._bridge.failure
                if isinstance(message, ResultMessage):
                    return self._ended(message)
                if self._turns.is_over and limit.when() is None:
                    # Otherwise it would continue; now it reports the usage.
                    limit.reschedule(asyncio.get_running_loop().time() + _INTERRUPT_SECONDS)
                    await self._client.interrupt()
        raise AgentExecutionError(
            "claude_agent_sdk: the command line ended without a result", stderr=self._stderr
        )

    def _ended(self, result: ResultMessage) -> Ending:
        if self._turns.is_first:  # else the usage is the sum of the turns
            self._run.usage = usage_from_result(result)
            if self._run.usage is not None and not self._has_prices(result):
                # The command line counts models that it does not know at the price of another.
                self._run.usage = replace(self._run.usage, cost_usd=None)
        if self._turns.is_over:
            return "limit" if self._turns.is_spent else "completed"
        try:
            return ending_of(result, self._run.model_config, self._redact, self._stderr)
        except AgentExecutionError as error:
            error.retry_after = error.retry_after or self._turns.retry_after
            raise

    def _has_prices(self, result: ResultMessage) -> bool:
        one = UsageMetadata(1, 1, 2)
        return all(self._run.cost_of(name, one) is not None for name in result.model_usage or ())

    async def _interrupt(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self._client.interrupt()

    @property
    def _stderr(self) -> str | None:
        return self._redact("\n".join(self._lines)) or None


@contextlib.asynccontextmanager
async def _folder() -> AsyncGenerator[Path]:
    path = await asyncio.to_thread(tempfile.mkdtemp, prefix="plait-claude-")
    try:
        yield Path(path)
    finally:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

_EXCERPT_CHARACTERS = 400

_PASSING = re.compile(r"temporar|connection|timed out|overloaded", re.IGNORECASE)
"""Words in a failure of the API that may pass, if it has no HTTP status."""


def usage_from_result(result: ResultMessage) -> UsageMetadata | None:
    """Add up the usage of all models of a run; `None` if none is reported."""
    models = cast("Mapping[str, Mapping[str, Any]]", result.model_usage or {})
    if not models:
        return None
    inputs, outputs, cache_read, cache_written = (
        sum(usage.get(name) or 0 for usage in models.values()) for name in _COUNTS
    )
    return UsageMetadata(
        input_tokens=inputs,
        output_tokens=outputs,
        total_tokens=inputs + outputs,
        cost_usd=result.total_cost_usd,
        cache_read_tokens=cache_read,
        cache_creation_tokens=cache_written,
    )


def ending_of(
    result: ResultMessage, config: ModelConfig, redact: Redactor, stderr: str | None
) -> Ending:
    """Return how the run ended."""
    if result.subtype in ("error_max_turns", "error_max_budget_usd"):
        return "limit"
    if result.subtype == "success" and not result.is_error:
        return "completed"
    reason = result.result or "; ".join(result.errors or ()) or result.subtype
    text = f"claude_agent_sdk: {redact.excerpt(reason, _EXCERPT_CHARACTERS)}"
    status = result.api_error_status
    retryable = False
    if result.subtype == "success":  # the API failed, not the command line
        advice = _advice(reason) if status is None else advice_for(status, config)
        where = f" (at {origin_of(url)})" if (url := anthropic_url(config)) else ""
        text = f"{text}{where}; {advice}"
        retryable = bool(_PASSING.search(reason)) if status is None else is_transient(status)
    retry = "always" if retryable else "never"
    raise AgentExecutionError(text, stderr=stderr, status=status, retryable=retryable, retry=retry)


def execution_error(error: Exception, redact: Redactor, stderr: str | None) -> AgentExecutionError:
    """Translate a failure of the command line itself."""
    last_line = (stderr or "").rpartition("\n")[2]
    reason = redact.excerpt(str(error).partition("\nError output:")[0], _EXCERPT_CHARACTERS)
    if isinstance(error, CLINotFoundError):
        reason = "Claude's command line is not installed: pip install 'plait[claude]'"
    elif last_line and last_line not in reason:
        reason = f"{reason}: {redact.excerpt(last_line)}"
    return AgentExecutionError(f"claude_agent_sdk: {reason}", stderr=stderr)


def _advice(reason: str) -> str:
    if re.search(r"log(ged)? ?in\b", reason, re.IGNORECASE):
        return "set ANTHROPIC_API_KEY, or anthropic_api_key of the ModelConfig"
    if "timed out" in reason.lower():
        return "raise request_timeout, or look at the endpoint"
    return "check anthropic_base_url and the network, or raise max_retries"
