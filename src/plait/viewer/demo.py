"""`plait view --demo`: five small servers, and an agent that shops with them until the viewer ends.

The agent is scripted: it decides by what its tools answer, without a model. Its servers are those
of the pages, so that a server that is killed there is lost, and heals, in its runs.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from plait._support import demo_server
from plait.agents.agent_run import AgentRun, ToolAnswer
from plait.agents.config import ModelConfig
from plait.agents.live_agent import Ending, LiveAgent
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.config.read import ClientConfig, read_config
from plait.client.inbox import SESSION_TEXT
from plait.client.toolbox import Toolbox
from plait.errors import PlaitError
from plait.traces.messages.message import Message, ToolUseContent
from plait.viewer.connected import ConnectedServers
from plait.viewer.inbox import Question

THINK_SECONDS: Final = 0.7
"""How long the agent takes for a turn; people could not follow less."""
PAUSE_SECONDS: Final = 4.0
"""Between two runs."""
MAX_RUNS: Final = 12
"""The files of older runs are deleted."""

_POLICY: Final = {
    "rules": [
        {"tool": "bank/pay", "do": "ask", "reason": "money", "when": {"amount": ["7", "7.*"]}},
    ],
    "default": "allow",
}
"""The dearest item needs a person."""


class ShoppingAgent(LiveAgent):
    """Buys one item in each run: asks for its price, pays it, and writes down that it did."""

    engine: ClassVar[str] = "scripted"
    runs_local_models: ClassVar[bool] = True

    async def drive(self, run: AgentRun) -> Ending:
        """Buy what the question names."""
        item = run.messages[-1].text.split()[-1].rstrip("?.")
        first = await self._turn(
            run,
            "I look at the price, the clock and my notes.",
            ("shop/price", {"item": item}),
            ("clock/now", {}),
            ("notes/list_notes", {}),
        )
        if first[0].is_error:
            return await self._end(run, f"I bought nothing: {first[0].text}")
        price = float(first[0].text.split()[-1])
        (paid,) = await self._turn(run, f"It costs {price:g}.", ("bank/pay", {"amount": price}))
        if paid.is_error:
            (known,) = await self._turn(
                run, "Has it paid? The ledger knows.", ("bank/payments", {})
            )
            lines = known.text.splitlines()
            text = f"The payment failed:\n\n> {paid.text}\n\nThe ledger has {len(lines)} lines."
            return await self._end(run, text)
        note = f"paid {price:g} for {item}"
        _, ledger = await self._turn(
            run, "I write it down.", ("notes/add_note", {"text": note}), ("bank/payments", {})
        )
        lines = ledger.text.splitlines()
        table = f"| item | price | ledger |\n| --- | ---: | --- |\n| {item} | {price:g} | "
        return await self._end(run, f"The **{item}** is paid.\n\n{table}{len(lines)} lines |")

    async def _turn(
        self, run: AgentRun, text: str, *calls: tuple[str, Mapping[str, Any]]
    ) -> list[ToolAnswer]:
        """Say something, and call tools side by side."""
        await asyncio.sleep(THINK_SECONDS)
        names = {tool.full_name: name for name, tool in run.tools.items()}
        number = len(run.recorder.trace.events)
        used = [
            ToolUseContent(f"call-{number}-{place}", names.get(tool, tool), dict(arguments))
            for place, (tool, arguments) in enumerate(calls)
        ]
        message = Message.assistant(text, used)
        run.recorder.turn(message, model="scripted", seconds=THINK_SECONDS)
        return await asyncio.gather(*(run.call(one.id, one.name, one.input) for one in used))

    async def _end(self, run: AgentRun, text: str) -> Ending:
        await self._turn(run, text)
        return "completed"


class Demo:
    """The servers of a demonstration, and the agent that uses them while a page is open."""

    def __init__(self, folder: Path) -> None:
        """Keep what servers and agent write in a folder."""
        self._folder = folder
        shop = folder / "servers"
        self.traces = folder / "runs"
        self.traces.mkdir()
        command = [sys.executable, "-I", "-S", demo_server.__file__]
        servers = {
            name: {"command": command[0], "args": [*command[1:], name, str(shop)]}
            for name in demo_server.NAMES
        }
        self.config = read_config({"servers": servers, "policy": _POLICY})
        model = ModelConfig(id="demo", model_name="scripted", model_provider="scripted")
        self._agent = ShoppingAgent(model)
        self._is_approved = False
        """Whether payments were approved for the session; only those need approval."""
        self.servers = ConnectedServers(self.config, allow_calls=True, open_box=self._opened)

    @asynccontextmanager
    async def _opened(self, config: ClientConfig, **options: Any) -> AsyncGenerator[Toolbox]:
        """Open the servers for the pages and the agent."""
        options = {**options, "on_approval": self._approve}
        async with self._agent.keep_servers(config, {"tool_options": options}) as box:
            shopping = asyncio.create_task(self._shop())
            try:
                yield box
            finally:
                shopping.cancel()
                await asyncio.wait([shopping])

    async def _approve(self, request: ApprovalRequest) -> Approval | None:
        if self._is_approved:
            return Approval("approve", message=SESSION_TEXT, by="person")
        question = Question(
            kind="approval",
            source="the shopping agent of the demonstration",
            server=request.server,
            tool=request.tool,
            message=request.reason,
            arguments=request.arguments,
        )
        answer = await self.servers.inbox.ask(question)
        self._is_approved = answer.get("scope") == "session"
        approval = Approval.read(answer)
        if approval is None:
            return Approval("reject", message="nobody answered")
        return replace(approval, by="person")

    async def _shop(self) -> None:
        for number, item in enumerate(itertools.cycle(demo_server.PRICES), 1):
            while not self.servers.inbox.is_watched:  # noqa: ASYNC110  # by pages, which request
                await asyncio.sleep(0.2)
            settings = {"trace": self.traces / f"{number:04d}.jsonl"}
            with suppress(PlaitError):  # the trace has it
                await self._agent.arun([Message.user(f"Please buy {item}")], config=settings)
            _delete_oldest(self.traces.iterdir())
            await asyncio.sleep(PAUSE_SECONDS)


def _delete_oldest(files: Iterable[Path]) -> None:
    for file in sorted(files)[:-MAX_RUNS]:
        file.unlink(missing_ok=True)
