"""The servers behind, as one client sees them: what they offer, and requests to them.

Lists are answered from what is known: the last list of each server, at first the one on disk. So
no server that is slow or down delays a client, which is told when a list has changed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, cast

from pydantic_core import from_json

from plait._support import mcp_types as types
from plait._support.redact import Redactor
from plait._support.sanitize import is_clean_json, sanitize_text, with_texts
from plait._support.threads import in_thread
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.calls.outcome import ToolResult, original_of
from plait.client.calls.sampling import Sampling
from plait.client.calls.tool_call import CallbackContext, OnProgress, ToolCall
from plait.client.catalog.tool import HINTS, Tool
from plait.client.config.secrets import secret_values
from plait.client.connections.operations import all_pages
from plait.client.inbox import Inbox, viewer_sockets
from plait.client.protocol.passing import sent_request, with_unknown_fields
from plait.client.protocol.peer import RequestError, is_request_error
from plait.client.protocol.read_results import read_aside, result_in_era
from plait.client.toolbox import Toolbox
from plait.errors import (
    ClientClosedError,
    InvalidArgumentsError,
    PlaitError,
    ProtocolError,
    ResourceNotFoundError,
    ToolNotFoundError,
)
from plait.serve.names import (
    Naming,
    Target,
    guessed_target,
    named_server,
    public_uri,
    with_public_names,
    with_public_uris,
)
from plait.serve.search import CALL_TOOL, SEARCH_TOOLS, ToolSearch
from plait.serve.shared import with_sharing

if TYPE_CHECKING:
    from plait.client.calls.runtime import Runtime
    from plait.client.config.read import ClientConfig
    from plait.client.connections.change_listener import Subscription
    from plait.client.connections.status import ServerStatus
    from plait.client.protocol.session import McpSession, OnElicitation
    from plait.serve.journal import ClientJournal
    from plait.serve.snapshot import Snapshot

logger = logging.getLogger("plait.serve")

ListKind = Literal["tools", "prompts", "resources", "resourceTemplates"]
"""A list, by its field in results."""

METHODS: Final[dict[ListKind, str]] = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
FIRST_LIST_SECONDS: Final = 3.0
"""How long the first list waits for servers that were never seen: many clients list only once."""
MAX_EMPTY_LIST_SECONDS: Final = 8.0
"""How long it waits if it would be empty; programs give a server ten seconds to start."""
ANSWER_SECONDS: Final = 600.0
"""How long a client may take to answer a server."""
MAX_ITEMS: Final = 100_000
"""How many items of one list are passed on."""

Row = dict[str, Any]
T = TypeVar("T")
AskClient = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request to the client, in the course of one of its own requests."""
AskTogether = Callable[[dict[str, dict[str, Any]]], Awaitable[dict[str, dict[str, Any]]]]
"""Sends several requests by their keys, and returns the answers."""


class Client(Protocol):
    """What the servers behind may do to a client."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared itself capable of."""
        ...

    @property
    def is_modern(self) -> bool:
        """Whether the client is of the modern era."""
        ...

    @property
    def ask(self) -> AskClient | None:
        """Sends a request to the client; `None` if no request of its own is the reason."""
        ...

    def list_changed(self, kind: ListKind) -> None:
        """Announce that a list has changed."""
        ...

    def resource_updated(self, uri: str) -> None:
        """Announce that a resource has changed."""
        ...

    def log(self, params: dict[str, Any]) -> None:
        """Pass a log message on that belongs to no call."""
        ...

    def elicitation_complete(self, params: dict[str, Any]) -> None:
        """Announce that the person has done what a URL was for."""
        ...


@dataclass(slots=True)
class Offer:
    """What one server offers, as it listed it; `None` is a list that it has not given yet."""

    tools: list[Row] | None = None
    prompts: list[Row] | None = None
    resources: list[Row] | None = None
    resource_templates: list[Row] | None = None
    instructions: str | None = None

    def rows(self, kind: ListKind) -> list[Row] | None:
        """Return one of the lists."""
        rows: list[Row] | None = getattr(self, _ATTRIBUTES[kind])
        return rows

    def put(self, kind: ListKind, rows: list[Row]) -> bool:
        """Replace one of the lists, and return whether it has changed."""
        changed = self.rows(kind) != rows
        setattr(self, _ATTRIBUTES[kind], rows)
        return changed


_ATTRIBUTES: Final[dict[ListKind, str]] = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "resourceTemplates": "resource_templates",
}
_CHOSEN: Final = "plait/name"
"""The key of `_meta` with the name that the user chose for a tool; clients do not get it."""


@dataclass(slots=True, kw_only=True)
class CallOptions:
    """What a client wants during one of its calls."""

    on_progress: OnProgress | None = None
    on_log: Callable[[types.LoggingMessageNotificationParams], None] | None = None
    ask: AskClient | None = None
    can_approve: bool = False
    """Whether the person can be asked with a form whether a call may be made."""
    ask_together: AskTogether | None = None
    meta: Row | None = None


@dataclass(slots=True)
class _Lists:
    offers: dict[str, Offer]
    """What each server offers, as it is known."""
    first: dict[tuple[str, ListKind], asyncio.Event] = field(
        default_factory=dict[tuple[str, ListKind], asyncio.Event]
    )
    """Set when a server has listed, or cannot."""


class Upstream:
    """The servers of one client, with sessions of their own."""

    def __init__(
        self,
        config: ClientConfig,
        client: Client,
        snapshot: Snapshot,
        naming: Naming = "server",
        *,
        search: bool = False,
        shared: Toolbox | None = None,
    ) -> None:
        """With `search`, the client gets a search in place of the tools.

        `shared` has the servers that all clients share.
        """
        self._config = config
        self._shared = shared
        self._client = client
        self._snapshot = snapshot
        self._naming: Naming = naming
        self._has_search = search
        self._search: ToolSearch | None = None
        """That of the tools which are listed now, once it is needed."""
        self.changes = 0
        """How often what the servers offer has changed."""
        self._named: dict[ListKind, tuple[object, dict[str, Target]]] = {}
        """What the names of a list stand for, and the version of the lists."""
        self._lists = _Lists(snapshot.load())
        self.journal: ClientJournal | None = None
        self._redact = {
            name: Redactor(secret_values(server)) for name, server in config.servers.items()
        }
        self._waits_until = 0.0
        """When the first lists are answered without the servers that have not listed anything."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: dict[str, Subscription] = {}
        known = (one for server in config.servers.values() for one in secret_values(server))
        self._inbox = Inbox("plait serve", known)
        can = client.capabilities
        options: dict[str, Any] = {"log_level": config.options.get("log_level") or "info"}
        if "elicitation" in can:
            options["on_elicitation"] = self._callback_outside_calls
            options["elicitation_modes"] = elicitation_modes(can)
        elif viewer_sockets():  # of a client that cannot be asked, the person at a viewer is
            options["on_elicitation"] = self._inbox.elicitation_callback
        if "sampling" in can:
            # The client bounds what its own model does; these bounds only stop what never ends.
            options["on_sampling"] = Sampling(
                self._sample,
                outside_calls=True,  # also prompts and resources may need it
                max_tokens=10**9,
                max_calls_per_call=1000,
                max_calls_per_minute=1000,
                max_input_bytes=32_000_000,
                timeout_seconds=ANSWER_SECONDS,
                allow_tools="tools" in (can["sampling"] or {}),
            )
        if "roots" in can:
            options["roots"] = self._roots
        self.box = Toolbox(
            with_sharing(config, shared=False),
            **options,
            watch=False,  # whoever serves the file follows it
            prefer_modern=client.is_modern,
            on_log=self._log,
            on_approval=self._approve,
            on_initialized=self.opened,
            on_tools_list_changed=partial(self._changed, "tools"),
            on_prompts_list_changed=partial(self._changed, "prompts"),
            on_resources_list_changed=self._resources_changed,
            on_elicitation_complete=self._elicitation_complete,
        )

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Upstream]:
        """Connect to the servers during the block, without waiting for any of them."""
        self._waits_until = asyncio.get_running_loop().time() + FIRST_LIST_SECONDS
        async with self.box:
            if self.journal is not None:
                self.journal.journal.clients.append(self.journal)
            for server in self.server_names:
                self.refresh(server, *METHODS)
            try:
                yield self
            finally:
                if self.journal is not None:
                    self.journal.end()
                for subscription in self._subscriptions.values():
                    subscription.cancel()
                for task in tuple(self._tasks):
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await in_thread(self._snapshot.write)

    async def use_config(self, config: ClientConfig, changed: frozenset[str]) -> None:
        """Use the servers of another configuration, and announce what has changed.

        Of the shared servers, those that have `changed` are in use already.
        """
        changed |= await self.box.use_servers(with_sharing(config, shared=False))
        # The options stay, so what is listed here must not be stored as that of other options.
        self._config = replace(config, options=self._config.options)
        self._snapshot.use(self._config)
        for server in changed:
            if server in config.servers:
                self._redact[server] = Redactor(secret_values(config.servers[server]))
                self.refresh(server, *METHODS)
            else:
                self._lists.offers.pop(server, None)
        if changed - config.servers.keys():
            self._search = None
            self.changes += 1
            for kind in METHODS:
                self._client.list_changed(kind)

    def statuses(self) -> Iterable[ServerStatus]:
        """Return the status of each server, as this client sees it."""
        boxes = (self.box,) if self._shared is None else (self.box, self._shared)
        found = {one.name: one for box in boxes for one in box.status().servers.values()}
        return [found[name] for name in self.server_names if name in found]

    @property
    def server_names(self) -> tuple[str, ...]:
        """All servers, in the order of the configuration."""
        return tuple(self._config.servers)

    def _box_of(self, server: str) -> Toolbox:
        is_shared = self._shared is not None and server in self._shared.server_names
        return self._shared if is_shared and self._shared is not None else self.box

    # What the servers offer

    def refresh(self, server: str, *kinds: ListKind, announced: bool = False) -> None:
        """List again; what a server has announced is passed on in any case."""
        for kind in kinds:
            first = self._lists.first.setdefault((server, kind), asyncio.Event())
            self._start(self._list(server, kind, first, announced=announced))

    async def _list(
        self, server: str, kind: ListKind, first: asyncio.Event, *, announced: bool
    ) -> None:
        try:
            if kind == "tools":
                rows = [_row_of(tool) for tool in await self._box_of(server).tools(server)]
            else:
                rows = await self._read(server, partial(_all_rows, kind), METHODS[kind])
        except ProtocolError as error:
            if error.code != types.METHOD_NOT_FOUND:
                logger.warning("%s: %s", server, error)
                return
            rows = []
        except ClientClosedError:
            return
        except PlaitError as error:
            # When it is back, its first session is a reason to list again.
            logger.warning("going on with the last list of %s: %s", server, error)
            return
        finally:
            first.set()
        offer = self._lists.offers.setdefault(server, Offer())
        changed = offer.put(kind, rows)
        if changed or announced:
            self._client.list_changed(kind)
        if changed:
            self._search = None
            self.changes += 1
            self._snapshot.save(self._lists.offers)

    def _listed(self, kind: ListKind) -> dict[str, list[Row]]:
        """Return the last list of each server, in the order of the configuration."""
        offers, names = self._lists.offers, self.server_names
        return {name: offers[name].rows(kind) or [] for name in names if name in offers}

    def unlisted(self, kind: ListKind) -> list[str]:
        """Return the servers whose list is not known."""
        offers, names = self._lists.offers, self.server_names
        return [one for one in names if one not in offers or offers[one].rows(kind) is None]

    async def _first_lists(self, kind: ListKind) -> None:
        """Wait, in the first moments only, for servers that were never seen."""
        first = self._lists.first
        unknown = [asyncio.ensure_future(first[name, kind].wait()) for name in self.unlisted(kind)]
        if not unknown:
            return
        clock, ends = asyncio.get_running_loop().time, self._waits_until
        try:
            await asyncio.wait(unknown, timeout=max(0.0, ends - clock()))
            if kind == "tools" and not any(self._listed(kind).values()):
                # Many clients list once, and would have no tools until they are started again.
                ends += MAX_EMPTY_LIST_SECONDS - FIRST_LIST_SECONDS
                left = [one for one in unknown if not one.done()]
                if left and ends > clock():
                    first = asyncio.FIRST_COMPLETED
                    await asyncio.wait(left, timeout=ends - clock(), return_when=first)
        finally:
            for one in unknown:
                one.cancel()

    async def rows(self, kind: ListKind) -> list[Row]:
        """Return a list for the client."""
        if kind == "tools" and self._has_search:
            return (await self._tool_search()).rows()
        return await self._public_rows(kind)

    async def _tool_search(self) -> ToolSearch:
        search = self._search
        if search is None:
            rows, changes = await self._public_rows("tools"), self.changes
            names = [name for name, offer in self._lists.offers.items() if offer.tools]
            search = await in_thread(ToolSearch, rows, names)
            if changes == self.changes:
                self._search = search
        return search

    async def _public_rows(self, kind: ListKind) -> list[Row]:
        """Return a list of all servers, under the names for clients."""
        await self._first_lists(kind)
        known = self._listed(kind)
        if kind in {"resources", "resourceTemplates"}:
            return with_public_uris(known, "uri" if kind == "resources" else "uriTemplate")
        rows = {Target(name, row["name"]): row for name, some in known.items() for row in some}
        named = with_public_names(
            ((target, _chosen_name(row)) for target, row in rows.items()), self._naming
        )
        listed = [_public_row(name, rows[target]) for name, target in named.items()]
        return [*listed, *self._own_rows({*named})] if kind == "tools" else listed

    def _own_rows(self, taken: set[str]) -> list[Row]:
        return [{**_row_of(tool), "name": tool.name} for tool in self.box.own_tools(taken=taken)]

    async def instructions(self) -> str | None:
        """Return what the servers say about their use, as far as it is known."""
        parts = [
            (name, self._lists.offers[name].instructions)
            for name in self.server_names
            if name in self._lists.offers
        ]
        texts = [(name, text) for name, text in parts if text]
        if self._naming == "plain":
            return "\n\n".join(text for _, text in texts) or None
        return "\n\n".join(f"# {name}\n\n{text}" for name, text in texts) or None

    async def _find(self, kind: ListKind, name: str) -> Target | None:
        """Return what a client means by a name of a tool or prompt."""
        if (target := self._find_listed(kind, name)) is not None:
            return target
        guess = guessed_target(name, self.server_names, self._naming)
        if guess is None:  # it may be a name that the user chose, of a server that starts now
            await self._first_lists(kind)
        return guess or self._find_listed(kind, name)

    def _find_listed(self, kind: ListKind, name: str) -> Target | None:
        # Naming a thousand tools takes longer than a call.
        version = (self.changes, self.server_names)
        if kind not in self._named or self._named[kind][0] != version:
            found = [
                (Target(server, row["name"]), _chosen_name(row))
                for server, rows in self._listed(kind).items()
                for row in rows
            ]
            self._named[kind] = version, with_public_names(found, self._naming)
        return self._named[kind][1].get(name)

    # Requests

    async def call_tool(self, name: str, arguments: Row, options: CallOptions) -> Row:
        """Call a tool by its name for clients; a failure that a model can read is a result.

        Raises:
            RequestError: There is no such tool, or the server answered with an error.
        """
        if self._has_search and name in {SEARCH_TOOLS, CALL_TOOL}:
            search = await self._tool_search()
            if name == SEARCH_TOOLS:
                return _text_row(search.find(str(arguments.get("query") or "")))
            name = str(arguments.get("name"))
            text = search.advice_about(name)
            if text is not None and not self._may_be_listed_later(name):
                return {**_text_row(text), "isError": True}
            given: object = arguments.get("arguments") or {}
            arguments = cast("Row", given) if isinstance(given, dict) else {}
        for own in self.box.own_tools():
            if name == own.name:
                box, handle = self.box, arguments.get("handle")
                if self._shared is not None and self._shared.calls.limiter.server_of(handle):
                    box = self._shared
                return _result_row(await box.call(own.server, own.wire_name, arguments))
        target = await self._find("tools", name)
        if target is None:
            raise RequestError(types.INVALID_PARAMS, f"Unknown tool: {name}")
        if self.journal is None:
            return await self._call(target, arguments, options)
        call_id = self.journal.called(name, target.server, target.name, arguments)
        try:
            row = await self._call(target, arguments, options)
        except BaseException as error:
            text = str(error) or type(error).__name__
            self.journal.returned(call_id, text, is_error=True)
            raise
        is_error = bool(row.get("isError"))
        self.journal.returned(call_id, _text_of(row), is_error=is_error)
        return row

    async def _call(self, target: Target, arguments: Row, options: CallOptions) -> Row:
        ask, together, on_log = options.ask, options.ask_together, options.on_log
        box = self._box_of(target.server)
        if box is not self.box and on_log is None:
            on_log = partial(self._log, target.server)  # other clients must not get it
        call = ToolCall(
            server=target.server,
            tool=target.name,
            arguments=arguments,
            on_progress=options.on_progress,
            on_log=on_log,
            on_elicitation=None if ask is None else partial(_elicit, ask),
            on_approval=partial(_ask_approval, ask) if ask and options.can_approve else None,
            on_input=together and partial(_answer_together, together, self.box.sanitizes),
            visits_urls=self._client.is_modern,  # others know that error, and do so themselves
            meta=options.meta,
        )
        try:
            if (executor := box.calls.plain(target.server, target.name)) is not None:
                result = await executor.run(call, _as_sent)
            else:
                result = await box.calls.run(call)
        except (ToolNotFoundError, ProtocolError) as error:
            raise self._sent_error(target.server, error) from error
        except PlaitError as error:
            return {**_text_row(str(error)), "isError": True}
        row = _result_row(result) if isinstance(result, ToolResult) else result
        row = self._with_public_links(target.server, row)
        return sanitized_row(row) if self.box.sanitizes else row

    def _may_be_listed_later(self, name: str) -> bool:
        """Return whether a tool may be that of a server which has not listed its tools yet."""
        guess = guessed_target(name, self.server_names, self._naming)
        return guess is not None and guess.server not in self._lists.offers

    async def get_prompt(self, params: Row) -> Row:
        """Fill in a prompt by its name for clients."""
        target = await self._find("prompts", str(params.get("name")))
        if target is None:
            raise RequestError(types.INVALID_PARAMS, f"Unknown prompt: {params.get('name')}")
        return await self.forward(target.server, "prompts/get", {**params, "name": target.name})

    async def read_resource(self, params: Row) -> Row:
        """Read a resource by its URI for clients."""
        uri, refusal = str(params.get("uri")), None
        for target in await self._owners(uri):
            try:
                result = await self.forward(
                    target.server, "resources/read", {**params, "uri": target.name}
                )
            except RequestError as error:
                if error.code not in _NOT_FOUND:
                    raise
                refusal = refusal or error
            else:
                contents: list[Row] = result.get("contents") or []
                renamed = [
                    {**one, "uri": uri} if one.get("uri") == target.name else one
                    for one in contents
                ]
                return {**result, "contents": renamed}
        text = f"Unknown resource: {uri}"
        raise refusal or RequestError(types.INVALID_PARAMS, text, {"uri": uri})

    async def _owners(self, uri: str) -> list[Target]:
        """Return the servers that may have a resource, the most likely first."""
        if (named := named_server(uri, self.server_names)) is not None:
            return [named]
        if (server := self._lister(uri)) is None:
            await self._first_lists("resources")
            server = self._lister(uri)
        if server is not None:
            return [Target(server, uri)]
        await self._first_lists("resourceTemplates")
        return [Target(name, uri) for name in self._likely_owners(uri)]

    async def _owner(self, uri: str) -> Target:
        """Return the server that has a resource, as far as is known without asking any.

        Raises:
            RequestError: There are no servers.
        """
        owners = await self._owners(uri)
        if not owners:
            raise RequestError(types.INVALID_PARAMS, f"Unknown resource: {uri}", {"uri": uri})
        return owners[0]

    def _lister(self, uri: str) -> str | None:
        """Return the server under whose own URI clients know a resource."""
        for server, rows in self._listed("resources").items():
            if any(row.get("uri") == uri for row in rows):
                return server
        return None

    def _likely_owners(self, uri: str) -> list[str]:
        """Return all servers, those first that have a fitting template, then those that list any.

        What a server links to in a result need not be in its lists.
        """
        listed, templates = self._listed("resources"), self._listed("resourceTemplates")

        def unlikeliness(server: str) -> int:
            rows = templates.get(server, ())
            if any(_matches(str(row.get("uriTemplate")), uri) for row in rows):
                return 0
            return 1 if listed.get(server) or rows else 2

        return sorted(self.server_names, key=unlikeliness)

    def _with_public_links(self, server: str, result: Row) -> Row:
        """Name the server in links of a result that would lead to another server."""
        if len(self.server_names) < 2:
            return result
        content: list[Any] = result.get("content") or []
        changed = [self._public_link(server, block) for block in content]
        return {**result, "content": changed} if changed != content else result

    def _public_link(self, server: str, block: Any) -> Any:
        match block:
            case {"type": "resource_link", "uri": str(uri)}:
                lister = self._lister(uri)
                if lister is None:
                    if uri.startswith(_FOLLOWED_BY_CLIENTS):
                        return block
                    lister = self._likely_owners(uri)[0]
                if lister != server:
                    return {**block, "uri": public_uri(server, uri)}
            case _:
                pass
        return block

    async def complete(self, params: Row) -> Row:
        """Complete an argument of a prompt or of a resource template."""
        match params.get("ref"):
            case {"type": "ref/prompt", "name": str(name), **rest}:
                target = await self._find("prompts", name)
                ref = {**rest, "type": "ref/prompt", "name": target and target.name}
            case {"type": "ref/resource", "uri": str(uri), **rest}:
                await self._first_lists("resourceTemplates")
                target = named_server(uri, self.server_names)
                for server, rows in self._listed("resourceTemplates").items():
                    if target is None and any(row.get("uriTemplate") == uri for row in rows):
                        target = Target(server, uri)
                if target is None:
                    target = await self._owner(uri)
                ref = {**rest, "type": "ref/resource", "uri": target.name}
            case _:
                raise RequestError(types.INVALID_PARAMS, "Invalid params: ref")
        if target is None:
            raise RequestError(types.INVALID_PARAMS, "Unknown prompt")
        return await self.forward(target.server, "completion/complete", {**params, "ref": ref})

    async def subscribe(self, uri: str) -> None:
        """Announce changes of a resource to the client, also after restarts of its server."""
        if uri in self._subscriptions:
            return
        target = await self._owner(uri)

        def updated(_uri: str) -> None:
            self._client.resource_updated(uri)

        try:
            self._subscriptions[uri] = await self._box_of(target.server).subscribe(
                target.server, target.name, updated
            )
        except PlaitError as error:
            raise self._sent_error(target.server, error) from error

    def unsubscribe(self, uri: str) -> None:
        """End the announcements."""
        if (subscription := self._subscriptions.pop(uri, None)) is not None:
            subscription.cancel()

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Set the lowest level of log messages, on servers that are there."""
        for server in self.box.server_names:  # those of others keep theirs
            self._start(self._set_log_level(server, level))

    async def _set_log_level(self, server: str, level: types.LoggingLevel) -> None:
        try:
            await self.box.set_logging_level(level, server)
        except PlaitError as error:
            logger.debug("%s: the log level is not set: %s", server, error)

    async def forward(self, server: str, method: str, params: Row) -> Row:
        """Make a request that changes nothing, and return its result as the server sent it.

        Raises:
            RequestError: The server cannot be reached, or answered with an error.
        """
        try:
            return await self._read(
                server, lambda session: session.raw_result(method, params), method
            )
        except PlaitError as error:
            raise self._sent_error(server, error) from error

    async def _read(
        self, server: str, operation: Callable[[McpSession], Awaitable[T]], method: str
    ) -> T:
        return await self._box_of(server).lifecycle.run(
            lambda runtime: runtime.request(server, operation, method)
        )

    def _sent_error(self, server: str, error: PlaitError) -> RequestError:
        """Return the error that the server sent, or one that says why there is none."""
        cause: BaseException | None = error
        while cause is not None:
            if is_request_error(cause) and cause.code != types.CONNECTION_CLOSED:
                text = self._redact[server](cause.message)
                return RequestError(cause.code, text, cause.data)
            cause = cause.__cause__
        code = types.INTERNAL_ERROR
        if isinstance(error, ToolNotFoundError | InvalidArgumentsError):
            code = types.INVALID_PARAMS
        elif isinstance(error, ResourceNotFoundError):
            code = error.code or types.INVALID_PARAMS
        return RequestError(code, str(error))

    # What the servers ask and tell

    async def _approve(self, request: ApprovalRequest) -> Approval:
        """Answer for a client that cannot be asked: a person may look at a viewer."""
        if (approval := await self._inbox.approve(request)) is not None:
            return approval
        text = (
            f"this client cannot be asked; to allow it, change the policy of your mcp.json "
            f"({request.reason})"
        )
        return Approval("reject", message=text)

    async def _sample(
        self, server: str, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools:
        del server
        row = _as_asked(params)
        if self.box.sanitizes:
            row = with_texts(row, sanitize_text)
        answer = await self._asked("sampling/createMessage", row)
        kind = types.CreateMessageResult
        if params.tools is not None:
            return types.CreateMessageResultWithTools.model_validate(answer, by_name=False)
        return kind.model_validate(answer, by_name=False)

    async def _asked(self, method: str, params: Row) -> Row:
        ask = self._client.ask
        if ask is None:
            raise RequestError(types.INVALID_REQUEST, "no request of the client is the reason")
        return await ask(method, params)

    def _callback_outside_calls(self, server: str) -> OnElicitation:
        del server

        async def answer(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
            ask = self._client.ask
            if ask is None:  # it is for nobody
                return types.ElicitResult(action="decline")
            return await _elicit(ask, context, params)

        return answer

    async def _roots(self) -> list[types.Root]:
        answer = await self._asked("roots/list", {})
        return types.ListRootsResult.model_validate(answer, by_name=False).roots

    def _elicitation_complete(
        self, params: types.ElicitCompleteNotificationParams, context: CallbackContext
    ) -> None:
        del context
        self._client.elicitation_complete(_plain(params))

    def roots_changed(self) -> None:
        """Tell the servers, of which those ask again that want to know."""

        async def announce(runtime: Runtime) -> None:
            await runtime.announce_roots()

        self._start(self.box.lifecycle.run(announce))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _log(self, server: str, params: types.LoggingMessageNotificationParams) -> None:
        del server
        self._client.log(_plain(params))

    def _changed(self, kind: ListKind, params: object, context: CallbackContext) -> None:
        del params
        self.refresh(context.server_name, kind, announced=True)

    def _resources_changed(self, params: object, context: CallbackContext) -> None:
        del params
        self.refresh(context.server_name, "resources", "resourceTemplates", announced=True)

    def opened(self, info: Any, context: CallbackContext) -> None:
        """Note what a server says about its use; after a restart it may offer something else."""
        offer = self._lists.offers.setdefault(context.server_name, Offer())
        if self.journal is not None:
            events = self._box_of(context.server_name).events()
            self.journal.opened(context.server_name, events)
        text = info.instructions
        before = offer.instructions
        offer.instructions = sanitize_text(text) if text and self.box.sanitizes else text
        if offer.instructions != before:
            self.changes += 1
            self._snapshot.save(self._lists.offers)
        if self._lists.first.get((context.server_name, "tools"), asyncio.Event()).is_set():
            self.refresh(context.server_name, *METHODS)


_NOT_FOUND: Final = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND, -32002})
_FOLLOWED_BY_CLIENTS: Final = ("http:", "https:", "file:")
"""Links with these schemes are read by clients themselves, without asking the server."""


def elicitation_modes(capabilities: Mapping[str, Any]) -> frozenset[str]:
    """Return the modes of elicitation that a client can answer; naming none means forms."""
    declared: object = capabilities.get("elicitation")
    if declared is None:
        return frozenset()
    modes = cast("Row", declared) if isinstance(declared, dict) else {}
    return frozenset({"form", "url"} & modes.keys()) or frozenset({"form"})


async def _elicit(
    ask: AskClient, context: object, params: types.ElicitRequestParams
) -> types.ElicitResult:
    del context
    answer = await ask("elicitation/create", _as_asked(params))
    return types.ElicitResult.model_validate(answer, by_name=False)


async def _answer_together(
    ask: AskTogether, sanitizes: bool, requests: types.InputRequests
) -> types.InputResponses:
    sent = sent_request.get() or {}
    rows: dict[str, Row] = {}
    for key, request in requests.items():
        row: Row = with_unknown_fields(_plain(request), sent.get(key))
        is_for_a_model = sanitizes and isinstance(request, types.CreateMessageRequest)
        rows[key] = with_texts(row, sanitize_text) if is_for_a_model else row
    answers = await ask(rows)
    read: types.InputResponses = {}
    for key, request in requests.items():
        kind: type[types.InputResponse]
        if isinstance(request, types.ElicitRequest):
            kind = types.ElicitResult
        elif isinstance(request, types.ListRootsRequest):
            kind = types.ListRootsResult
        elif request.params.tools is None:
            kind = types.CreateMessageResult
        else:
            kind = types.CreateMessageResultWithTools
        read[key] = kind.model_validate(answers[key], by_name=False)
    return read


async def _ask_approval(ask: AskClient, request: ApprovalRequest) -> Approval:
    """Ask the person at the client whether a call may be made."""
    shown = "\n".join(f"  {name} = {value!r}" for name, value in request.arguments.items())
    params = {
        "mode": "form",
        "message": f"Allow {request.where}?\n{shown}\n({request.reason})",
        "requestedSchema": {
            "type": "object",
            "properties": {"allow": {"type": "boolean", "title": f"Allow {request.where}"}},
            "required": ["allow"],
        },
    }
    match await ask("elicitation/create", params):
        case {"action": "accept", "content": {"allow": True}}:
            return Approval("approve", by="person")
        case {"action": "accept" | "decline"}:
            return Approval("reject", by="person")
        case _:
            return Approval("reject", message="the question was not answered")


def _as_asked(params: Any) -> Row:
    """Return the params of a request with every field that the server sent."""
    return with_unknown_fields(_plain(params), sent_request.get())


def _plain(model: Any) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return data


async def _all_rows(kind: ListKind, session: McpSession) -> list[Row]:
    """Return a list of a server as it sent it, of every page."""
    rows: list[Row] = []

    async def fetch(cursor: str | None) -> _Page:
        params = {} if cursor is None else {"cursor": cursor}
        ended = await session.request(METHODS[kind], params)
        page = await read_aside(ended, result_in_era)
        session.peer.note_repairs(ended)
        rows.extend(page.get(kind) or ())
        return _Page(page.get("nextCursor"))

    await all_pages(fetch, lambda: len(rows) >= MAX_ITEMS)
    return rows[:MAX_ITEMS]


@dataclass(frozen=True, slots=True)
class _Page:
    next_cursor: str | None


def _row_of(tool: Tool) -> Row:
    """Return a tool as the server listed it, with the user's overrides."""
    origin = tool
    while isinstance(origin.source, Tool):
        origin = origin.source
    if isinstance(origin.source, bytes):
        row: Row = from_json(origin.source)
    elif isinstance(origin.source, dict):
        row = dict(origin.source)
    else:
        known = {name: tool.annotations[key] for name, key in HINTS if key in tool.annotations}
        hints = {**tool.extra.get("annotations", {}), **known}
        row = {
            **tool.extra,
            "title": tool.title,
            "description": tool.description or None,
            "inputSchema": dict(tool.input_schema),
            "outputSchema": tool.output_schema,
            "annotations": hints or None,
            "icons": list(tool.icons) or None,
            "_meta": tool.meta,
        }
        row = {key: value for key, value in row.items() if value is not None}
    row["name"] = tool.wire_name
    if tool.override is not None and tool.override.name is not None:
        row["_meta"] = {**(row.get("_meta") or {}), _CHOSEN: tool.override.name}
    return row


def _chosen_name(row: Row) -> str | None:
    meta: Row = row.get("_meta") or {}
    return meta.get(_CHOSEN)


def _public_row(name: str, row: Row) -> Row:
    row = {**row, "name": name}
    if _chosen_name(row) is not None:
        row["_meta"] = {key: value for key, value in row["_meta"].items() if key != _CHOSEN}
        if not row["_meta"]:
            del row["_meta"]
    return row


def _as_sent(result: Mapping[str, Any], version: str, began: float) -> Row | None:
    """Take the result of a direct call as it is, unless it needs repair."""
    del version, began
    content = result.get("content")
    return dict(result) if isinstance(content, list) else None


def _result_row(result: ToolResult) -> Row:
    """Return a result in wire format, with blocks that had to be repaired as they were sent."""
    content = [original_of(block) or _plain(block) for block in result.content]
    row: Row = {"content": content, "isError": result.is_error}
    if result.structured_content is not None:
        row["structuredContent"] = result.structured_content
    if (meta := result.wire_meta) is not None:
        row["_meta"] = meta
    return row


def _text_of(row: Row) -> str:
    """Return the text of a result, for a trace."""
    content: list[Any] = row.get("content") or []
    blocks = [cast("Row", one) for one in content if isinstance(one, dict)]
    return "\n".join(str(one.get("text", f"[{one.get('type')}]")) for one in blocks)


def _text_row(text: str) -> Row:
    return {"content": [{"type": "text", "text": text}]}


_TEXTS: Final = ("text", "name", "title", "description", "uri", "mimeType")


def sanitized_row(result: Row) -> Row:
    """Remove what hides text from the content of a result."""
    content: list[Any] = result["content"]
    if is_clean_json(content):
        return result
    return {**result, "content": [_sanitized_block(block) for block in content]}


def _sanitized_block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    clean = dict(cast("Row", block))
    for name in _TEXTS:
        if isinstance(clean.get(name), str):
            clean[name] = sanitize_text(clean[name])
    if isinstance(clean.get("resource"), dict):
        clean["resource"] = _sanitized_block(clean["resource"])
    return clean


_EXPRESSION: Final = re.compile(r"\{[^}]*\}")


def _matches(template: str, uri: str) -> bool:
    """Return whether a URI may come from a URI template, in which any text fits an expression.

    Looking for one piece after the other takes linear time; a pattern of a server might not.
    """
    first, *pieces = _EXPRESSION.split(template)
    if not pieces:
        return uri == template
    *inner, last = pieces
    if len(uri) < len(first) + len(last) or not (uri.startswith(first) and uri.endswith(last)):
        return False
    at, end = len(first), len(uri) - len(last)
    for piece in inner:
        found = uri.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
