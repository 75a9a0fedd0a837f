"""A conversation on the command line: one agent, its servers, its history and its commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final, Self, TypeVar

import click
from anyio.from_thread import BlockingPortal, start_blocking_portal
from rich.padding import Padding
from rich.text import Text

from plait.agents.live_agent import LiveAgent
from plait.agents.port import AgentPort
from plait.agents.registry import get_agent
from plait.cli import session, terminal
from plait.cli.advice import show_failure
from plait.cli.commands.lists import signature_text, status_table, summary_of
from plait.cli.commands.run import read_image
from plait.cli.exits import Exit, SignalName
from plait.cli.run_agent import (
    RunPlan,
    answer,
    client_config,
    inbox_of,
    is_continued,
    print_end,
    stopped_by_signals,
    tool_callbacks,
)
from plait.cli.terminal import print_aside, print_rich
from plait.cli.trace_view import RunScreen, run_view, usage_label
from plait.client.config.raw_value import state_folder
from plait.client.config.read import ClientConfig
from plait.client.inbox import Inbox, question_line
from plait.client.toolbox import Toolbox
from plait.errors import PlaitError
from plait.html.pieces import count_label
from plait.traces.messages.message import ImageContent, Message, UsageMetadata
from plait.traces.recorder import hash_question
from plait.traces.trace import Trace

T = TypeVar("T")

_PROMPT: Final = "you> "

_COMMANDS: Final = {
    "/tools": "list the tools of the agent",
    "/servers": "show the status of the servers",
    "/trace": "show how the last answer came about",
    "/image FILE": "show an image to the model with the next message",
    "/help": "show these commands",
    "/exit": "end the conversation, as Ctrl-D does",
}

_KEYS: Final = (
    "A line that ends with \\ goes on in the next one; a message that begins with / needs a space "
    "before it. Ctrl-C stops an answer and keeps the conversation; twice, it ends the program."
)

_COMMAND = re.compile(r"/[a-z]*")

MAX_HISTORY_LINES: Final = 1000
"""Lines of the history that are kept, which every start reads."""


class TerminatedError(BaseException):
    """SIGTERM arrived while the terminal was read."""


def run_chat(ctx: click.Context, plan: RunPlan, screen: RunScreen, *, as_json: bool) -> Exit:
    """Converse until the end of the input, and return the exit code."""
    config = plan.choice.config
    agent = get_agent(config, auto_fallback=False)
    if config.model_provider == "scripted":
        from plait.agents.engines.langchain.agent import LangChainAgent
        from plait.agents.engines.langchain.scripted_model import scripted_model

        # One model for the conversation: each run by itself would begin the script again.
        agent = LangChainAgent(config, scripted_model(config.model_name or ""))
    inbox = inbox_of(plan)
    callbacks = tool_callbacks(plan, screen, inbox)
    plan = replace(plan, settings=replace(plan.settings, tool_options=callbacks))
    words = [name.split()[0] for name in _COMMANDS]
    with (
        _terminated_by_signal(),
        LineReader(_PROMPT, words, state_folder()) as lines,
        # A loop in another thread, so that this one can read the terminal.
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_kept_servers(ctx, agent, plan)) as toolbox,
    ):
        conversation = Conversation(
            ctx, plan, screen, agent, portal, toolbox, inbox, as_json=as_json
        )
        try:
            return conversation.run(lines)
        finally:
            conversation.print_total()


@contextlib.contextmanager
def _terminated_by_signal() -> Generator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TerminatedError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.asynccontextmanager
async def _kept_servers(
    ctx: click.Context, agent: AgentPort, plan: RunPlan
) -> AsyncGenerator[Toolbox | None]:
    """Keep the servers of an agent open; `None` if its engine opens them for each run."""
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(agent.aclose)
        toolbox = None
        if isinstance(agent, LiveAgent):
            servers = agent.keep_servers(client_config(plan), plan.settings)
            toolbox = await stack.enter_async_context(servers)
            if toolbox.config.source is not None:
                following = asyncio.create_task(toolbox.follow_file(partial(_reread, ctx, plan)))
                stack.callback(following.cancel)
        yield toolbox


def _reread(ctx: click.Context, plan: RunPlan) -> ClientConfig:
    """Read the changed configuration, while the person types something else."""
    config = session.read_configuration(ctx, may_ask=False)
    found = client_config(replace(plan, config=session.with_servers(config, ctx.params["servers"])))
    assert found is not None  # noqa: S101  # there was one before
    return found


class LineReader:
    """Reads messages from stdin, and keeps those of a terminal in a history file."""

    def __init__(self, prompt: str, commands: Sequence[str], folder: Path) -> None:
        """Complete `commands` with the tab key; the history is in `folder`."""
        self._prompt = prompt
        self._commands = commands
        self._history = folder / "chat_history"
        self.is_interactive = sys.stdin.isatty()
        self._readline: ModuleType | None = None
        # Only with both is the terminal under the control of readline.
        if self.is_interactive and sys.stdout.isatty():
            with contextlib.suppress(ImportError):  # Python without it, or Windows
                self._readline = import_module("readline")

    def __enter__(self) -> Self:
        if (readline := self._readline) is not None:
            with contextlib.suppress(OSError):
                readline.read_history_file(str(self._history))
            readline.set_history_length(MAX_HISTORY_LINES)
            readline.set_completer_delims(" \t\n")
            readline.set_completer(self._complete)
            is_libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        return self

    def __exit__(self, *_error: object) -> None:
        if self._readline is None:
            return
        with contextlib.suppress(OSError):  # the history is a convenience
            self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.write_history_file(str(self._history))

    def _complete(self, text: str, state: int) -> str | None:
        matches = [name for name in self._commands if text and name.startswith(text)]
        return matches[state] if state < len(matches) else None

    def read(self) -> str | None:
        r"""Return the next message, or `None` at the end; a line that ends with \ goes on."""
        lines: list[str] = []
        while True:
            line = self._read_line("...> " if lines else self._prompt)
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])

    def _read_line(self, prompt: str) -> str | None:
        if self._readline is not None:
            try:
                return input(prompt)
            except EOFError:
                click.echo(err=True)
                return None
        if self.is_interactive:
            click.echo(prompt, err=True, nl=False)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise click.UsageError("stdin is not UTF-8") from error
        return line.rstrip("\r\n") if line else None


class Conversation:
    """The messages of a user and the answers of an agent, each a run that continues the last."""

    def __init__(
        self,
        ctx: click.Context,
        plan: RunPlan,
        screen: RunScreen,
        agent: AgentPort,
        portal: BlockingPortal,
        toolbox: Toolbox | None,
        inbox: Inbox,
        *,
        as_json: bool,
    ) -> None:
        self._ctx = ctx
        self._plan = plan
        self._screen = screen
        self._agent = agent
        self._portal = portal
        self._toolbox = toolbox
        self._inbox = inbox
        self._as_json = as_json
        self._continues = plan.settings.continues
        """The run that the next message continues."""
        self._last: Trace | None = None
        self._images: list[ImageContent] = [read_image(path) for path in ctx.params["images"]]
        self._spent: UsageMetadata = UsageMetadata(cost_usd=0.0)
        self._answers = 0
        self._code = Exit.OK
        self._is_interrupted = False
        """Whether the last input was Ctrl-C."""

    def run(self, lines: LineReader) -> Exit:
        """Answer messages until there are no more; return the exit code."""
        while True:
            try:
                line = lines.read()
            except KeyboardInterrupt:
                click.echo(err=True)
                if self._is_interrupted:
                    return Exit.INTERRUPTED
                self._is_interrupted = True
                text = "press Ctrl-C again, or Ctrl-D, to end the conversation"
                print_aside("note", text, colour="cyan")
                continue
            except TerminatedError:
                return Exit.TERMINATED
            self._is_interrupted = False
            if line is None:
                return Exit.OK if lines.is_interactive else self._code
            ending = self._handle(line)
            if ending is not None:
                return ending

    def _handle(self, line: str) -> Exit | None:
        """Answer a message, or run a command; return the exit code if that is the end."""
        word, _, rest = line.strip().partition(" ")
        if not word:
            return None
        if not line.startswith("/") or not _COMMAND.fullmatch(word):
            return self._ask(line.strip())
        match word:
            case "/exit" | "/quit":
                return Exit.OK
            case "/tools":
                self._print_tools()
            case "/servers":
                self._print_servers()
            case "/trace":
                self._print_trace()
            case "/image":
                self._add_image(rest.strip())
            case "/help":
                table = terminal.plain_table("command", "effect")
                for name, about in _COMMANDS.items():
                    table.add_row(name, about)
                print_rich(table, err=True)
                click.echo(terminal.wrapped(_KEYS, sys.stderr, indent=0), err=True)
            case _:
                print_aside("note", f"there is no command {word}: see /help", colour="yellow")
        return None

    def _ask(self, text: str) -> Exit | None:
        settings = self._plan.settings
        tokens, cost = settings.max_tokens_total, settings.max_cost_usd
        spent = self._spent
        used_up = None
        if tokens is not None and spent.total_tokens >= tokens:
            used_up = f"{tokens} tokens"
        elif cost is not None and (spent.cost_usd is None or spent.cost_usd >= cost):
            used_up = f"${cost:g}"
        if used_up is not None:
            text = f"the conversation has used its {used_up}: start another, or raise the limit"
            print_aside("error", text, colour="red")
            return Exit.TURNS_USED_UP
        before = [] if self._continues is None else self._continues.conversation
        images, self._images = self._images, []
        plan = replace(
            self._plan,
            messages=[*before, Message.user(text, images)],
            settings=replace(
                settings,
                continues=self._continues,
                question_hash=hash_question(text),
                max_tokens_total=None if tokens is None else tokens - spent.total_tokens,
                max_cost_usd=None if cost is None else cost - (spent.cost_usd or 0.0),
            ),
        )
        self._inbox.source = f"plait: {question_line(plan.messages)}"
        self._screen.begin()
        signals: list[SignalName] = []
        work = answer(self._agent, plan, self._screen, signals, as_json=self._as_json)
        outcome = self._wait_for(work, signals)
        if outcome is None:
            return None
        self._last = outcome.trace
        self._answers += 1
        usage = outcome.trace.usage
        is_priced = self._spent.cost_usd is not None and usage.cost_usd is not None
        if usage.total_tokens:
            total = self._spent + usage
            self._spent = total if is_priced else replace(total, cost_usd=None)
        if is_continued(outcome.trace):
            self._continues = outcome.trace
        print_end(plan, outcome, self._screen, as_json=self._as_json)
        if outcome.error is not None and not self._as_json:
            show_failure(self._ctx, outcome.error)
        if outcome.stopped_by == "SIGTERM":
            return Exit.TERMINATED
        self._is_interrupted = outcome.stopped_by == "SIGINT"
        if outcome.exit_code is not Exit.OK:
            self._code = outcome.exit_code
        return None

    def _wait_for(self, work: Coroutine[Any, Any, T], signals: list[SignalName]) -> T | None:
        """Run a coroutine in the loop of the agent; `None` if Ctrl-C stopped it."""
        tasks: list[asyncio.Task[Any]] = []

        async def run() -> T:
            # A task of its own: it ends, with what it has so far, before the future does.
            tasks.append(asyncio.ensure_future(work))
            await asyncio.wait(tasks)
            return tasks[0].result()

        def cancel() -> None:
            tasks[0].cancel()

        future = self._portal.start_task_soon(run)
        with stopped_by_signals(signals, lambda: self._portal.start_task_soon(cancel)):
            try:
                return future.result()
            except CancelledError:
                return None

    def _print_tools(self) -> None:
        toolbox = self._toolbox
        if toolbox is None or not toolbox.server_names:
            print_aside("note", "there are no tools", colour="cyan")
            return
        try:
            tools = self._wait_for(toolbox.tools(), [])
        except PlaitError as error:
            show_failure(self._ctx, error)
            return
        width = terminal.console_for(sys.stderr).width
        server = None
        for tool in tools or ():
            if tool.server != server:
                server = tool.server
                print_rich(Text(terminal.visible(server), "bold"), err=True)
            print_rich(signature_text(tool, width), err=True)
            for line in summary_of(tool):
                print_rich(Padding(Text(line, "dim"), (0, 0, 0, 6)), err=True)

    def _print_servers(self) -> None:
        toolbox = self._toolbox
        if toolbox is None or not toolbox.server_names:
            print_aside("note", "there are no servers", colour="cyan")
            return
        with contextlib.suppress(PlaitError):  # the table shows which cannot be reached
            self._wait_for(toolbox.tools(), [])
        status = toolbox.status()
        print_rich(status_table(status), err=True)
        for one in status.servers.values():
            if one.last_error and one.state != "ready":
                print_aside("warning", f"{one.name}: {one.last_error}", colour="yellow")

    def _print_trace(self) -> None:
        if self._last is None or not self._last.events:
            print_aside("note", "there is no answer yet", colour="cyan")
            return
        for part in run_view(self._screen.redacted(self._last), full=False):
            print_rich(part, err=True)
        if self._plan.settings.trace is not None:
            print_aside("trace", str(self._plan.settings.trace), colour="cyan")

    def _add_image(self, path: str) -> None:
        try:
            self._images.append(read_image(path))
        except click.BadParameter as error:
            print_aside("error", error.message, colour="red")
        except OSError as error:
            print_aside("error", f"{path}: {error.strerror}", colour="red")
        else:
            print_aside("note", f"{path} goes with the next message", colour="cyan")

    def print_total(self) -> None:
        """Print what the conversation has used, and where its trace is."""
        if not self._answers:
            return
        usage = usage_label(self._spent)
        facts = [count_label(self._answers, "message"), *([usage] if usage else [])]
        file = self._plan.settings.trace
        facts += [] if file is None else [f"trace {file}"]
        self._screen.show(Text(terminal.visible("conversation  " + " · ".join(facts)), "dim"))
