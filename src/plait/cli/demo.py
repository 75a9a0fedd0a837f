"""Play `plait demo`: the MCP SDK's own client beside plait, while their servers are killed.

Both halves have five servers of their own, started from the same file, and are asked the same
questions. Whatever is shown was measured in this run: answers, times, and the lines of a ledger.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from plait._support import demo_server
from plait._support.threads import in_thread
from plait._version import __version__
from plait.cli.terminal import in_background, spinner_frame
from plait.errors import OutcomeUnknownError, ToolFailedError
from plait.html.pieces import count_label, seconds_label

if TYPE_CHECKING:
    from mcp import Client

    from plait.client.toolbox import Toolbox

FRAME_SECONDS: Final = 0.1
BEAT_SECONDS: Final = 0.3
"""How often each server is asked."""
SHOWN_BEATS: Final = 10
"""Answers of a server that are shown; half of a terminal with 80 columns has room for them."""
SHOWN_EVENTS: Final = 6
MIN_PAUSE_SECONDS: Final = 1.5
NO_READER_SECONDS: Final = 0.7
"""Between scenes where nobody watches: two or three answers of each server."""
MIN_WIDTH: Final = 78
"""Columns that two halves need; a narrower terminal gets lines."""
POLL_SECONDS: Final = 0.005
AMOUNT: Final = 100

READS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "files": ("list_files", {}),
    "notes": ("list_notes", {}),
    "clock": ("now", {}),
    "shop": ("price", {"item": "tea"}),
    "bank": ("payments", {}),
}
"""What each server is asked again and again."""


@dataclass
class Lane:
    """How one server of a half answers."""

    name: str
    beats: deque[bool] = field(default_factory=lambda: deque[bool](maxlen=SHOWN_BEATS))
    failed: int = 0
    state: str = "opening"
    style: str = "dim"
    killed_at: float | None = None
    """When it was killed, until its fate is known."""
    is_paused: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Half(ABC):
    """A client and its five servers; the shop is on HTTP, the others are programs on stdio."""

    module: ClassVar[str]
    """The module of the client, which takes a moment to import."""

    def __init__(self, name: str, release: str, folder: Path) -> None:
        """Keep what the servers write in a folder."""
        self.name = name
        self.title = f"{name} {release}"
        self.folder = folder
        self.lanes = {name: Lane(name) for name in demo_server.NAMES}
        self.ledger_lines = 0
        self.is_settled = False
        """Whether nothing pays any more."""
        self._shop: subprocess.Popen[bytes] | None = None
        self._port = 0

    def command(self, name: str, *more: str) -> list[str]:
        """Return the command of a server, which imports nothing but the standard library."""
        return [sys.executable, "-I", "-S", demo_server.__file__, name, str(self.folder), *more]

    @property
    def url(self) -> str:
        """The address of the shop."""
        return f"http://127.0.0.1:{self._port}/mcp"

    def start_shop(self) -> None:
        """Start the shop, on the port that it had before, and wait until it listens."""
        command = self.command("shop", str(self._port))
        # In a session of its own: Ctrl-C at the terminal is for the demo, which ends the shop.
        pipe = subprocess.PIPE
        self._shop = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        assert self._shop.stdout is not None  # noqa: S101 - there is a pipe
        self._port = int(self._shop.stdout.readline())

    def stop_shop(self) -> None:
        """Stop the shop, and wait for its end."""
        if self._shop is not None:
            self._shop.kill()
            self._shop.communicate()

    def pid(self, name: str) -> int:
        """Return the process id that the server wrote."""
        return int((self.folder / f"{name}.pid").read_text("utf-8"))

    def kill(self, name: str) -> int:
        """End a server with `kill -9`, and let it be asked at once; return its process id."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        lane = self.lanes[name]
        lane.killed_at, lane.state, lane.style = time.monotonic(), "killed", "yellow"
        lane.wake.set()
        return pid

    def read_ledger(self) -> int:
        """Count the lines of the file in which the bank keeps its payments."""
        file = self.folder / "ledger.txt"
        self.ledger_lines = len(file.read_text("utf-8").splitlines()) if file.exists() else 0
        return self.ledger_lines

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the servers and the client."""
        self.folder.mkdir()
        async with AsyncExitStack() as stack:
            stack.callback(self.stop_shop)
            await in_thread(self.start_shop)
            await self.open(stack)
            yield

    @abstractmethod
    async def open(self, stack: AsyncExitStack) -> None:
        """Open the client, which the stack closes."""

    @abstractmethod
    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool, and return the text of its result."""


class PlaitHalf(Half):
    """plait with its servers."""

    module = "plait.client.toolbox"

    def __init__(self, folder: Path) -> None:
        """Keep what the servers write in a folder."""
        super().__init__("plait", __version__, folder)
        self._box: Toolbox | None = None

    async def open(self, stack: AsyncExitStack) -> None:
        """Open a toolbox with all servers, side by side."""
        from plait.client.toolbox import Toolbox

        servers: dict[str, Any] = {"shop": {"url": self.url}}
        for name in demo_server.NAMES:
            command, *args = self.command(name)
            servers.setdefault(name, {"command": command, "args": args})
        self._box = await stack.enter_async_context(Toolbox(servers))
        await self._box.tools()

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool of the toolbox."""
        assert self._box is not None  # noqa: S101 - `open` comes first
        result = await self._box.call(server, tool, arguments)
        if result.is_error:
            raise ToolFailedError(f"{server}/{tool}: {result.text}")
        return result.text


class SdkHalf(Half):
    """The client of the MCP SDK, one for each server, as its documentation uses it."""

    module = "mcp"

    def __init__(self, folder: Path) -> None:
        """Keep what the servers write in a folder."""
        super().__init__("mcp.Client", version("mcp"), folder)
        self._clients: dict[str, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()

    async def open(self, stack: AsyncExitStack) -> None:
        """Open all clients, side by side."""
        stack.push_async_callback(self.close)
        await asyncio.gather(*map(self.connect, demo_server.NAMES))

    async def connect(self, name: str) -> None:
        """Open a client; it belongs to a task of its own, so that its end touches no other."""
        from mcp import Client, StdioServerParameters

        command, *args = self.command(name)
        stdio = StdioServerParameters(command=command, args=args)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def keep() -> None:
            try:
                async with Client(self.url if name == "shop" else stdio) as client:
                    self._clients[name] = client
                    opened.set_result(None)
                    await self._closing.wait()
            except Exception as error:  # noqa: BLE001 - whatever a client raises
                # What closing a client of a dead server raises is no part of the story.
                if not opened.done():
                    opened.set_exception(error)

        self._tasks.append(asyncio.create_task(keep()))
        await opened

    async def close(self) -> None:
        """Close all clients."""
        self._closing.set()
        await asyncio.gather(*self._tasks)

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool with the client of its server."""
        result = await self._clients[server].call_tool(tool, arguments)
        return " ".join(getattr(part, "text", "") for part in result.content)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, with the seconds since the start."""

    at: float
    who: str
    text: Text


class Stage:
    """What the demo shows: the halves, and what happened to them."""

    def __init__(
        self, folder: Path, *, for_readers: bool, on_event: Callable[[Event], None]
    ) -> None:
        """Give each half a folder in this one; there are long pauses only `for_readers`."""
        self.right = PlaitHalf(folder / "plait")
        self.left = SdkHalf(folder / "sdk") if has_sdk_client() else None
        self.halves: list[Half] = [self.right] if self.left is None else [self.left, self.right]
        self.events: list[Event] = []
        self.scene = "Five small servers are started for each client"
        self.is_over = False
        self.began = time.monotonic()
        self._for_readers = for_readers
        self._on_event = on_event

    async def play(self) -> None:
        """Play every scene, and close everything."""
        async with AsyncExitStack() as stack:
            # The right one first: the SDK takes a second or more to import.
            for half in reversed(self.halves):
                await in_thread(import_module, half.module)  # in a thread: the screen moves
                began = time.monotonic()
                await stack.enter_async_context(half.running())
                took = seconds_label(time.monotonic() - began)
                self.say(half.name, f"opened {count_label(len(half.lanes), 'server')} in {took}")
                for lane in half.lanes.values():
                    await stack.enter_async_context(in_background(self.keep_asking(half, lane)))
            await self.pause(until=4)
            self.scene = "1. kill -9 of a program"
            self.kill_everywhere("files")
            await self.pause(until=7.5)
            self.scene = "2. A server on HTTP restarts, and forgets its sessions"
            self.kill_everywhere("shop")
            for half in self.halves:
                await in_thread(half.stop_shop)
                await in_thread(half.start_shop)
            await self.pause(until=11)
            self.scene = f"3. kill -9 in the middle of a payment of {AMOUNT}"
            await asyncio.gather(*map(self.pay_and_kill, self.halves))
            await self.pause(until=15)
            self.scene = "The end"
        self.is_over = True

    async def pause(self, *, until: float) -> None:
        """Give the reader time until so many seconds after the start, and the servers some calls.

        Where the machine was slow so far, the pauses are shorter.
        """
        left = self.began + until - time.monotonic()
        longest = max(left, MIN_PAUSE_SECONDS)
        await asyncio.sleep(longest if self._for_readers else NO_READER_SECONDS)

    def say(self, who: str, text: str, style: str = "") -> None:
        """Add something that happened."""
        event = Event(time.monotonic() - self.began, who, Text(text, style))
        self.events.append(event)
        self._on_event(event)

    def kill_everywhere(self, name: str) -> None:
        """Kill a server of each half."""
        pids = " ".join(str(half.kill(name)) for half in self.halves)
        more = "; its supervisor starts it again" if name == "shop" else ""
        self.say("$", f"kill -9 {pids}   # {name}{more}", "bold")

    async def keep_asking(self, half: Half, lane: Lane) -> None:
        """Ask a server again and again, and keep whether it answers."""
        tool, arguments = READS[lane.name]
        while True:
            began = time.monotonic()
            if not lane.is_paused:
                try:
                    await half.call(lane.name, tool, arguments)
                except Exception as error:  # noqa: BLE001 - whatever a client raises is shown
                    self.note_failure(half, lane, error)
                else:
                    lane.beats.append(True)
                    if lane.state == "opening":
                        lane.state = "ready"
                    # An answer to an earlier call says nothing about the server after the kill.
                    elif lane.killed_at is not None and began >= lane.killed_at:
                        self.note_healing(half, lane, time.monotonic() - lane.killed_at)
            with suppress(TimeoutError):
                await asyncio.wait_for(lane.wake.wait(), BEAT_SECONDS)
            lane.wake.clear()

    def note_failure(self, half: Half, lane: Lane, error: Exception) -> None:
        """Keep that a server did not answer."""
        lane.beats.append(False)
        lane.failed += 1
        if lane.state != "lost":
            lane.state, lane.style = "lost", "bold red"
            self.say(half.name, f"{lane.name} lost: {error}", "red")

    def note_healing(self, half: Half, lane: Lane, seconds: float) -> None:
        """Keep that a server answers again, so many seconds after it was killed."""
        took = seconds_label(seconds)
        lane.state, lane.style, lane.killed_at = f"healed {took}", "bold green", None
        self.say(half.name, f"{lane.name} healed: answered {took} after the kill", "green")

    async def pay_and_kill(self, half: Half) -> None:
        """Pay, kill the bank once the payment is in its ledger, and see what the client does."""
        lane = half.lanes["bank"]
        lane.is_paused, lane.state, lane.style = True, f"pays {AMOUNT}", "yellow"
        payment = asyncio.ensure_future(half.call("bank", "pay", {"amount": AMOUNT}))
        while not half.read_ledger() and not payment.done():  # noqa: ASYNC110 - another process writes
            await asyncio.sleep(POLL_SECONDS)
        pid = half.kill("bank")
        self.say("$", f"kill -9 {pid}   # bank of {half.name}, in mid-call", "bold")
        try:
            await payment
        except OutcomeUnknownError as error:
            self.say(half.name, f"{type(error).__name__}: may have run, not repeated")
        except Exception as error:  # noqa: BLE001 - whatever a client raises is shown
            self.say(half.name, f"bank lost: {error}. Did it pay?", "red")
        if isinstance(half, SdkHalf):
            await self.retry_by_hand(half)
        lane.is_paused = False
        lane.wake.set()
        half.read_ledger()
        half.is_settled = True
        self.say(half.name, ledger_text(half), "bold red" if half.ledger_lines > 1 else "bold")

    async def retry_by_hand(self, half: SdkHalf) -> None:
        """Do what a retry loop around a client does: connect again, and call again."""
        await half.connect("bank")
        answer = await half.call("bank", "pay", {"amount": AMOUNT})
        lane = half.lanes["bank"]
        lane.state, lane.style, lane.killed_at = "new client", "yellow", None
        self.say(half.name, f"a retry loop connects and pays again: {answer}", "yellow")

    def draw(self) -> RenderableType:
        """Draw the halves side by side, and what happened below."""
        halves = Table.grid(expand=True, padding=0)
        for _ in self.halves:
            halves.add_column(ratio=1)
        halves.add_row(*(self.draw_half(half) for half in self.halves))
        events = Table.grid(padding=(0, 1))
        events.add_column(justify="right", style="dim", no_wrap=True, min_width=6)
        events.add_column(style="cyan", no_wrap=True, min_width=len("mcp.Client"))
        events.add_column(no_wrap=True, overflow="ellipsis")
        shown = self.events[-SHOWN_EVENTS:]
        for event in shown:
            events.add_row(f"{event.at:.1f} s", event.who, event.text)
        for _ in range(SHOWN_EVENTS - len(shown)):
            events.add_row("", "", "")
        elapsed = time.monotonic() - self.began
        mark = "✓" if self.is_over else spinner_frame(elapsed)
        title = Text.assemble((f"{mark} ", "cyan"), (self.scene, "bold"))
        return Group(halves, Panel(events, title=title, title_align="left", border_style="dim"))

    def draw_half(self, half: Half) -> Panel:
        """Draw the servers of a half, a line each, and the ledger."""
        lanes = Table.grid(padding=(0, 1))
        for width in (5, SHOWN_BEATS, None):
            lanes.add_column(no_wrap=True, width=width, overflow="ellipsis")
        for lane in half.lanes.values():
            beats = [("•", "green") if beat else ("×", "red") for beat in lane.beats]
            lanes.add_row(lane.name, Text.assemble(*beats), Text(lane.state, lane.style))
        style = "dim"
        if half.is_settled:
            style = "bold red" if half.ledger_lines > 1 else "bold green"
        return Panel(
            Group(lanes, Text(), Text(ledger_text(half), style)),
            title=Text(half.title, "bold"),
            title_align="left",
            border_style="cyan" if half is self.right else "dim",
        )

    def summary(self) -> list[Text]:
        """Say how each half ended."""
        lines: list[Text] = []
        for half in self.halves:
            lanes = half.lanes.values()
            up = sum(bool(lane.beats) and lane.beats[-1] for lane in lanes)
            failed = sum(lane.failed for lane in lanes)
            text = (
                f"{up} of {len(lanes)} answer · {count_label(failed, 'call')} failed · "
                f"{ledger_text(half)}"
            )
            lines.append(Text.assemble((f"{half.title}  ", "bold"), text))
        return lines


def ledger_text(half: Half) -> str:
    """Say what is in the ledger, whose lines were counted."""
    if not half.ledger_lines:
        return "ledger: empty"
    lines = f"ledger: {count_label(half.ledger_lines, 'line')}"
    if not half.is_settled:
        return lines
    return f"{lines}, not 2" if half.ledger_lines == 1 else f"{lines}, paid twice"


def has_sdk_client() -> bool:
    """Return whether version 2 of the MCP SDK is installed; version 1 has no such client."""
    try:
        return int(version("mcp").partition(".")[0]) >= 2
    except PackageNotFoundError:
        return False


async def play_and_paint(stage: Stage, paint: Callable[[], None] | None) -> None:
    """Play a stage, and paint it as often as a frame takes."""

    async def keep_painting() -> None:
        while paint is not None:
            paint()
            await asyncio.sleep(FRAME_SECONDS)

    async with in_background(keep_painting()):
        await stage.play()
    if paint is not None:
        paint()
