"""The engine `claude_agent_sdk`: Claude's command line, through the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import ClassVar, Final, cast

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError, ResultMessage
from typing_extensions import override

from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_agent_sdk.bridge import Bridge
from plait.agents.engines.claude_agent_sdk.environment import secrets_in
from plait.agents.engines.claude_agent_sdk.messages import prompt_from_messages
from plait.agents.engines.claude_agent_sdk.options import options_for
from plait.agents.engines.claude_agent_sdk.results import (
    ending_of,
    execution_error,
    usage_from_result,
)
from plait.agents.engines.claude_agent_sdk.tools import cli_tools
from plait.agents.engines.claude_agent_sdk.turns import Turns
from plait.agents.live_agent import Ending, LiveAgent
from plait.errors import AgentExecutionError

_INTERRUPT_SECONDS: Final = 3.0
"""How long the command line may take to stop before it is killed."""

_STDERR_LINES: Final = 20


class ClaudeSDKAgent(LiveAgent):
    """Runs agents on Claude's command line, with only the tools of the run."""

    engine: ClassVar[str] = "claude_agent_sdk"

    @override
    async def drive(self, run: AgentRun) -> Ending:
        bridged = not run.settings.extra.get("pass_through_servers")
        servers = () if run.toolbox is None else run.toolbox.server_names
        tools = cli_tools(run.tools.values(), servers, own_names=bridged)
        turns = Turns(run, tools, bridged=bridged)
        bridge = Bridge(run, tools, turns, bridged=bridged)
        lines: deque[str] = deque(maxlen=_STDERR_LINES)
        async with _folder() as folder:
            options = await asyncio.to_thread(
                options_for, run, folder, tools, bridge, bridged=bridged, stderr=lines.append
            )
            return await _Session(run, options, turns, bridge, lines).run()


class _Session:
    """One conversation with the command line."""

    def __init__(
        self,
        run: AgentRun,
        options: ClaudeAgentOptions,
        turns: Turns,
        bridge: Bridge,
        lines: deque[str],
    ) -> None:
        self._run = run
        self._client = ClaudeSDKClient(options)
        self._turns = turns
        self._bridge = bridge
        self._lines = lines
        self._redact: Redactor = run.redact.also(secrets_in())

    async def run(self) -> Ending:
        """Run until there is an answer, or the turn limit; afterwards nothing is left running."""
        try:
            await self._client.connect()
            await self._client.query(prompt_from_messages(self._run.messages))
            return await self._follow()
        except BaseException as error:
            # Otherwise it would continue for seconds with what it has begun.
            await self._interrupt()
            if self._turns.is_over and isinstance(error, Exception):
                return "completed"  # there is an answer; its usage is the sum of the turns
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
        self._run.usage = usage_from_result(result)
        if self._turns.is_over:
            return "completed"
        return ending_of(result, self._run.model_config, self._redact, self._stderr)

    async def _interrupt(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self._client.interrupt()

    @property
    def _stderr(self) -> str | None:
        return self._redact("\n".join(self._lines)) or None


@contextlib.asynccontextmanager
async def _folder() -> AsyncGenerator[Path]:
    """Create a folder for the run, and remove it afterwards."""
    path = await asyncio.to_thread(tempfile.mkdtemp, prefix="plait-claude-")
    try:
        yield Path(path)
    finally:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
