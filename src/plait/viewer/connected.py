"""The servers of a configuration, kept connected while the viewer runs, and what they send."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    Prompt,
    Resource,
    ResourceTemplate,
)

from plait._support.files import FileStamp, file_changes, file_stamp
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.calls.approval import ApprovalRequest
from plait.client.calls.outcome import ToolResult
from plait.client.calls.runtime import Listed
from plait.client.calls.tool_call import CallbackContext
from plait.client.catalog.tool import Tool
from plait.client.config.read import ClientConfig
from plait.client.config.secrets import secret_values
from plait.client.connections.status import Status
from plait.client.toolbox import Toolbox
from plait.errors import ConfigError, PlaitError, ToolFailedError
from plait.telemetry.observer import CallTool, Operation
from plait.traces.codec import Cleaner
from plait.viewer.inbox import Inbox, Question

if TYPE_CHECKING:
    from plait.client.protocol.session import OnElicitation, RequestContext

T = TypeVar("T")

_LOOK_SECONDS = 0.25
_RETRY_SECONDS = 15.0
_CLOSE_SECONDS = 5.0
MAX_NOTICES = 300
"""The pages show fewer; servers may send very many."""
MAX_NOTICE_CHARACTERS = 4_000
"""A longer notice is cut: the page is sent again whenever something changes."""
MAX_BEATS = 120
"""Calls of a server that its heartbeat shows: two a second."""
MAX_PAST_CALLS = 20
"""Calls that pages show with their results; more would be sent again with each change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that a server sent, or that happened to its connection."""

    at: datetime
    server: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One finding of the checks of servers."""

    level: str
    """`ok`, `warn` or `error`."""
    message: str
    server: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server lists beside its tools."""

    resources: Sequence[Resource] = ()
    templates: Sequence[ResourceTemplate] = ()
    prompts: Sequence[Prompt] = ()


Check = Callable[[], Awaitable[Sequence[CheckFinding]]]
"""Checks all servers, as `plait doctor` does."""


class ApprovalNeededError(Exception):
    """The policy wants a person to approve this call."""

    def __init__(self, request: ApprovalRequest, proof: str) -> None:
        super().__init__(request.reason)
        self.request = request
        self.proof = proof
        """Approves exactly this call, when it is sent with it."""


@dataclass(slots=True, kw_only=True)
class RunningCall:
    """A call that a page has made, and that has no result yet."""

    key: str
    server: str
    tool: str
    began: float
    """On the monotonic clock."""
    task: asyncio.Task[Any]
    done: float = 0.0
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call that a page has made, and its result or error."""

    at: datetime
    server: str
    tool: str
    arguments: Mapping[str, Any]
    """Without secrets."""
    result: ToolResult | str
    """The result, or why there is none."""


class Pulse:
    """Observes calls: when each began and ended, and whether the server answered."""

    def __init__(self) -> None:
        self.beats: dict[str, deque[Beat]] = {}

    @contextmanager
    def around(self, operation: Operation) -> Generator[None]:
        """Observe one attempt of a call."""
        began = time.time()
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            if isinstance(operation, CallTool):
                # A tool that fails has answered, and whoever cancels a call does not wait for one.
                lost = isinstance(error, PlaitError) and not isinstance(error, ToolFailedError)
                beats = self.beats.setdefault(operation.server, deque(maxlen=MAX_BEATS))
                beats.append(Beat(began, time.time(), is_lost=lost))


@dataclass(frozen=True, slots=True)
class Beat:
    """One attempt of a call, in seconds since 1970."""

    began: float
    ended: float
    is_lost: bool


@dataclass(slots=True)
class ConnectedServers:
    """Keeps the servers of a configuration connected, and calls their tools if that is allowed."""

    config: ClientConfig
    allow_calls: bool = False
    check: Check | None = None
    tools: dict[str, Sequence[Tool]] = field(default_factory=dict[str, Sequence[Tool]], init=False)
    offers: dict[str, Offer] = field(default_factory=dict[str, Offer], init=False)
    findings: Sequence[CheckFinding] | None = field(default=None, init=False)
    """What the last check found; `None` before the first."""
    notices: deque[Notice] = field(init=False)
    inbox: Inbox = field(default_factory=Inbox)
    open_box: Callable[..., AbstractAsyncContextManager[Toolbox]] = Toolbox
    """Opens the servers, which an agent may share."""
    pulse: Pulse = field(default_factory=Pulse, init=False)
    reread: Callable[[], ClientConfig] | None = None
    """Reads the configuration again when its file has changed; `None` keeps the first one."""
    command: Sequence[str] = ("plait",)
    """The command line that has this configuration, for what pages copy."""
    calls: dict[str, RunningCall] = field(default_factory=dict[str, RunningCall], init=False)
    history: deque[PastCall] = field(init=False)
    """The newest first."""
    _box: Toolbox | None = field(default=None, init=False)
    _kept: dict[str, asyncio.Task[None]] = field(
        default_factory=dict[str, "asyncio.Task[None]"], init=False
    )
    """What keeps each server connected."""
    _changes: int = field(default=0, init=False)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), init=False)
    _stamp: FileStamp | None = field(init=False)
    """What the file was when its configuration was read."""
    _redact: Redactor = field(init=False)
    _cleaner: Cleaner = field(init=False)
    _requests: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]], init=False)

    def __post_init__(self) -> None:
        """Prepare what hides the secrets of the configuration."""
        known = (one for server in self.config.servers.values() for one in secret_values(server))
        self._redact = Redactor(known)
        self._cleaner = Cleaner(self._redact)
        source = self.config.source if self.reread is not None else None
        self._stamp = None if source is None else file_stamp(Path(source))
        self.notices = deque(maxlen=MAX_NOTICES)
        self.history = deque(maxlen=MAX_PAST_CALLS)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Connect to all servers, and keep them connected, until the block ends."""
        async with self.open_box(
            self.config,
            on_connection_error="ignore",
            observers=[self.pulse],
            on_elicitation=self._elicitation_callback if self.allow_calls else None,
            on_message=self._receiver("log"),
            on_tools_list_changed=self._receiver("tools changed"),
            on_prompts_list_changed=self._receiver("prompts changed"),
            on_resources_list_changed=self._receiver("resources changed"),
            on_resources_updated=self._receiver("resource updated"),
        ) as self._box:
            self._kept = {
                name: asyncio.create_task(self._keep(name)) for name in self.config.servers
            }
            following = asyncio.create_task(self._follow())
            try:
                yield
            finally:
                tasks = [following, *self._kept.values()]
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    async def _follow(self) -> None:
        """Show the servers of the file whenever it changes; a broken file changes nothing."""
        if self.reread is None or self.config.source is None:
            return
        path = Path(self.config.source)
        async for _ in file_changes(path, self._stamp):
            try:
                config = await in_thread(self.reread)
                changed = await self.box.use_servers(config)
            except ConfigError as error:
                self._notice("", "configuration not used", str(error))
                continue
            self.config = config
            known = (one for server in config.servers.values() for one in secret_values(server))
            self._redact = self._redact.also(known)
            self._cleaner = Cleaner(self._redact)
            for name in changed:
                if (task := self._kept.pop(name, None)) is not None:
                    task.cancel()
                self.tools.pop(name, None)
                self.offers.pop(name, None)
                if name in config.servers:
                    self._kept[name] = asyncio.create_task(self._keep(name))
            self._changes += 1

    @property
    def box(self) -> Toolbox:
        """The open toolbox."""
        if self._box is None:
            raise RuntimeError("the servers are not connected")
        return self._box

    @property
    def status(self) -> Status:
        """The status of all servers."""
        return self.box.status()

    def version(self) -> str:
        """Return a text that changes whenever a page about servers would."""
        states = [
            (one.name, one.state, one.breaker, one.sessions, one.pid, one.last_error, one.in_flight)
            for one in self.status.servers.values()
        ]
        beats = sum(len(one) and hash(one[-1]) for one in self.pulse.beats.values())
        return f"{states} {len(self.status.events)} {self._changes} {beats}"

    def redacted(self, value: Any) -> Any:
        """Return a text or JSON value without secrets."""
        return self._cleaner.clean(value)

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], *, proof: str | None = None
    ) -> ToolResult:
        """Call a tool under the policy of the configuration.

        Raises:
            ApprovalNeededError: A person must approve it; the call was not made.
            PlaitError: The call was denied, or failed.
        """
        needed: list[ApprovalRequest] = []
        # Binds an approval to this call, in this launch of the viewer.
        text = json.dumps([server, tool, arguments], sort_keys=True)
        expected = hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

        def approve(request: ApprovalRequest) -> bool:
            if proof is not None and hmac.compare_digest(proof.encode(), expected.encode()):
                return True
            needed.append(request)
            return False

        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this is a coroutine
        running = RunningCall(
            key=secrets.token_urlsafe(9), server=server, tool=tool,
            began=time.monotonic(), task=task,
        )  # fmt: skip

        async def progress(done: float, total: float | None, message: str | None) -> None:
            of = "" if total is None else f" of {total:g}"
            self._notice(server, "progress", f"{tool}: {done:g}{of} {message or ''}".strip())
            running.done, running.total = done, total
            running.message = self._redact(message or "")[:MAX_NOTICE_CHARACTERS]

        outcome: ToolResult | str = "cancelled"
        self.calls[running.key] = running
        self._changes += 1
        try:
            outcome = result = await self.box.call(
                server, tool, arguments, on_progress=progress, on_approval=approve
            )
        except PlaitError as error:
            outcome = str(error)
            if needed:
                raise ApprovalNeededError(needed[0], expected) from None
            raise
        finally:
            del self.calls[running.key]
            self._changes += 1
            if not needed:
                shown = self._cleaner.clean(dict(arguments))
                past = PastCall(
                    at=datetime.now(UTC), server=server, tool=tool,
                    arguments=cast("dict[str, Any]", shown), result=outcome,
                )  # fmt: skip
                self.history.appendleft(past)
        return result

    def cancel_call(self, key: str) -> None:
        """Cancel a call that runs, if it still does."""
        if (running := self.calls.get(key)) is not None:
            running.task.cancel()

    async def respond(self, response: Coroutine[Any, Any, T]) -> T | None:
        """Return the response to a request of a page; `None` if it was cancelled before that."""
        task = asyncio.ensure_future(response)
        self._requests.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None and current.cancelling():
                task.cancel()  # the page is gone
                raise
            return None
        finally:
            self._requests.discard(task)

    def end_requests(self) -> None:
        """Cancel what pages wait for, because the viewer ends."""
        waiting, self._requests = self._requests, set[asyncio.Task[Any]]()
        for task in waiting:
            task.cancel()

    def kill(self, server: str) -> None:
        """Kill the process of a server, as `kill -9` does; it is started again at once."""
        if (pid := self.status[server].pid) is not None:
            os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
            self._notice(server, "killed", f"process {pid}, by the viewer")

    async def restart(self, server: str) -> None:
        """Drop the session of a server; it is opened again at once."""
        await self.box.reconnect(server)
        self._notice(server, "restart", "by the viewer")

    async def run_check(self) -> None:
        """Check all servers."""
        if self.check is not None:
            self.findings = await self.check()
            self._changes += 1

    async def _keep(self, name: str) -> None:
        """Keep a server connected and its tools current."""
        while True:
            try:
                tools = await self.box.tools(name, refresh=True)
            except PlaitError:  # the status has it, and the client goes on trying
                await self._wait(name, _RETRY_SECONDS)
                continue
            self.tools[name] = sorted(tools, key=lambda tool: tool.wire_name)
            self.offers[name] = Offer(
                await self._list(name, "resources", self.box.list_resources),
                await self._list(name, "resource templates", self.box.list_resource_templates),
                await self._list(name, "prompts", self.box.list_prompts),
            )
            self._changes += 1
            await self._wait(name, None)

    async def _list(
        self, name: str, what: str, list_items: Callable[[str], Awaitable[Sequence[Listed[T]]]]
    ) -> list[T]:
        """List what a server has beside its tools; a list that fails is empty, and reported."""
        try:
            return [one.item for one in await list_items(name)]
        except PlaitError as error:
            self._notice(name, f"{what} not listed", str(error))
            return []

    async def _wait(self, name: str, seconds: float | None) -> None:
        """Wait until the connection or its tools change, or for some seconds."""
        seen = now = self._seen(name)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while now == seen:
                    await asyncio.sleep(_LOOK_SECONDS)
                    now = self._seen(name)

    def _seen(self, name: str) -> tuple[bool, int, int]:
        status = self.status[name]
        changed = sum(one.server == name and one.kind.endswith("changed") for one in self.notices)
        return status.state == "ready", status.sessions, changed

    def _receiver(self, kind: str) -> Callable[[Any, CallbackContext], None]:
        def receive(params: Any, context: CallbackContext) -> None:
            data, uri = getattr(params, "data", None), getattr(params, "uri", None)
            text = "" if uri is None else str(uri)
            if data is not None:
                message = data if isinstance(data, str) else json.dumps(data, default=str)
                text = f"{getattr(params, 'level', '')}: {message}"
            self._notice(context.server_name, kind, text)

        return receive

    def _elicitation_callback(self, server: str) -> OnElicitation:
        """Return the callback that parks an elicitation until a page answers it, or it is late."""

        async def elicit(
            context: RequestContext,  # noqa: ARG001
            params: ElicitRequestParams,
        ) -> ElicitResult:
            is_form = isinstance(params, ElicitRequestFormParams)
            question = Question(
                kind="question",
                server=server,
                message=params.message,
                schema=params.requested_schema if is_form else None,
                url=None if is_form else params.url,
            )
            return await self.inbox.elicit(question)

        return elicit

    def _notice(self, server: str, kind: str, text: str) -> None:
        short = self._redact(text[:MAX_NOTICE_CHARACTERS])
        self.notices.append(Notice(at=datetime.now(UTC), server=server, kind=kind, text=short))
        self._changes += 1
