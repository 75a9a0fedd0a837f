"""The options of a client: their types and texts, and the settings that are made of them.

`ClientOptions` is the one list of options. Constructors take them as `Unpack[ClientOptions]`,
`config/keys.py` has a reader for each, and `docs/reference/options.md` repeats their texts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict
from urllib.parse import unquote

from pydantic import FileUrl, ValidationError

from plait._support import mcp_types as types
from plait._support.durations import checked_seconds
from plait._support.gather import resolve
from plait._support.threads import off_loop
from plait.client.calls.approval import OnApproval, PolicyCheck
from plait.client.calls.executor import CallSettings
from plait.client.calls.failures import BeforeFallback, backups_only
from plait.client.calls.result_cache import ResultCaching
from plait.client.catalog.catalog import CatalogOptions
from plait.client.catalog.filters import ToolFilter, ToolPattern
from plait.client.catalog.lock import LOCKFILE_NAME, LockMode, ToolLock, read_lockfile
from plait.client.catalog.names import NamePolicy
from plait.client.catalog.overrides import ToolOverride, read_overrides
from plait.client.config.document import workspace_of
from plait.client.connections.connection import unknown_server
from plait.client.connections.session_keeper import SessionOptions
from plait.client.transports.tape import Tape, tape_from
from plait.errors import ConfigError, PlaitError

if TYPE_CHECKING:
    from plait.client.calls.sampling import Sampler, Sampling
    from plait.client.calls.tool_call import OnAnyProgress, OnLog, OnNotification
    from plait.client.catalog.deferral import TokenCounter
    from plait.client.catalog.tool import Tool
    from plait.client.config.budgets import (
        CallBudget,
        Deferral,
        IncomingLimits,
        Limit,
        ResultBudget,
    )
    from plait.client.config.policy import PolicySource
    from plait.client.protocol.session import OnElicitation, OnRoots, RequestContext
    from plait.telemetry.observer import Observer

logger = logging.getLogger("plait.client.calls")

ToolPatterns = ToolPattern | Iterable[ToolPattern]
"""One pattern that names tools, or several."""

Seconds = float | timedelta
"""A duration."""

RootLike: TypeAlias = "str | os.PathLike[str] | types.Root"
"""A folder's path, a URI, or a root."""

_RootList: TypeAlias = "Iterable[RootLike]"

Roots: TypeAlias = "RootLike | _RootList | Callable[[], _RootList | Awaitable[_RootList]]"
"""The roots, or a function that returns them whenever a server asks."""


class ClientOptions(TypedDict, total=False):
    """The options that every client has; one that is not set, or `None`, has its default."""

    include: ToolPatterns | None
    """Tools to offer; an empty list offers none."""
    exclude: ToolPatterns | None
    """Tools not to offer."""
    tool_filter: Callable[[Tool], bool] | None
    """Decides about each tool that `include` and `exclude` leave."""
    tool_overrides: Mapping[str, ToolOverride | Mapping[str, Any] | str] | None
    """Other names, descriptions and arguments for tools, by tool."""
    tool_name_prefix: bool | None
    """Prefix tool names with the server and `_`."""
    prefix_tool_name_with_server_name: bool | None
    """Prefix tool names with the server and `__`."""
    additional_tool_name_prefix: str | None
    """Prefix tool names with this and `__`, before the server."""
    on_collision: Literal["prefix", "error"] | None
    """What to do when two servers have a tool of the same name."""
    throw_on_load_error: bool | None
    """Raise when a server lists a tool that cannot be used, instead of leaving it out."""
    defer: bool | int | str | Sequence[str] | Mapping[str, Any] | Deferral | None
    """Give agents a tool search in place of these tools."""
    lockfile: str | os.PathLike[str] | bool | None
    """Compare tools with what was locked in this file."""
    lock: LockMode | None
    """What to do about tools that differ from the lockfile."""
    sanitize: bool | None
    """Remove invisible and control characters from tool descriptions and results."""
    cache: bool | float | None
    """How long lists of tools are cached."""
    default_tool_timeout: Seconds | None
    """Time limit of one call."""
    tool_timeouts: Mapping[str, Seconds] | None
    """Time limits of single tools, by name or glob."""
    validate_arguments: bool | None
    """Check arguments before they are sent, and repair what can be repaired."""
    policy: PolicySource | None
    """Which calls are allowed, need approval, or are denied."""
    on_approval: OnApproval | None
    """Answers the approval requests of the policy."""
    fallbacks: Mapping[str, str] | None
    """Backup servers: which server is called when another one fails."""
    before_fallback: BeforeFallback | None
    """Called before a backup is used; `False` prevents it."""
    result_cache: bool | float | Mapping[str, Any] | ResultCaching | None
    """Cache results of read-only tools; numbers are seconds in both spellings."""
    result_budget: int | str | Mapping[str, Any] | Limit | ResultBudget | None
    """How large results may be; larger ones are shortened."""
    limits: Mapping[str, Any] | IncomingLimits | None
    """What a server may send at most."""
    token_counter: TokenCounter | None
    """Counts tokens for budgets and deferred tools."""
    call_budget: int | Mapping[str, Any] | CallBudget | None
    """How many calls a run may make."""
    on_connection_error: (
        Literal["throw", "ignore"] | Callable[[str, PlaitError], Awaitable[None] | None] | None
    )
    """Require all servers, require none, or call a function for each server that fails."""
    on_message: OnNotification | None
    """Callback for log messages."""
    on_progress: OnAnyProgress | None
    """Callback for the progress of calls."""
    on_initialized: OnNotification | None
    """Callback for each session that is opened."""
    on_tools_list_changed: OnNotification | None
    """Callback for changes of a server's tools."""
    on_prompts_list_changed: OnNotification | None
    """Callback for changes of a server's prompts."""
    on_resources_list_changed: OnNotification | None
    """Callback for changes of a server's list of resources."""
    on_resources_updated: OnNotification | None
    """Callback for changes of a subscribed resource."""
    on_cancelled: OnNotification | None
    """Callback for requests that a server cancels."""
    on_elicitation_complete: OnNotification | None
    """Callback for URLs that are done with, which a server had asked the person to visit."""
    on_roots_list_changed: OnNotification | None
    """Callback for `notifications/roots/list_changed`, should a server send it."""
    watch: bool | None
    """Start, stop and replace servers when the file of the client changes."""
    log_level: types.LoggingLevel | None
    """Lowest level of log messages that servers send."""
    client_info: types.Implementation | Mapping[str, str] | None
    """Name and version under which the client introduces itself."""
    roots: Roots | None
    """Folders that servers may see."""
    observers: Sequence[Observer] | None
    """Observe the start and end of every attempt of every call."""
    record: str | os.PathLike[str] | Tape | None
    """Record the traffic with all servers in this file."""
    replay: str | os.PathLike[str] | Tape | None
    """Play the traffic recorded in this file; no server is contacted."""


class ToolboxOptions(ClientOptions, total=False):
    """The options of a `Toolbox`: those of every client, and callbacks in their plain form."""

    on_log: OnLog | None
    """Callback for log messages that gets the name of the server."""
    on_elicitation: Callable[[str], OnElicitation] | None
    """Returns the callback that answers elicitations of a server."""
    on_sampling: Sampler | Sampling | None
    """The model that servers may use, and its limits."""
    prefer_modern: bool
    """Prefer protocol 2026-07-28 on servers of both eras, also if they may ask something."""
    elicitation_modes: frozenset[str]
    """What `on_elicitation` can answer: `"form"`, `"url"`, or both, as without this option."""
    follow_tools: bool
    """Listen for changes of tools; pass `False` if you list tools once."""


CLIENT_OPTIONS = frozenset(ClientOptions.__annotations__)
"""The names of the options that every client has."""


def identity_from(options: Mapping[str, Any], *, receives_logs: bool) -> SessionOptions:
    """Read what the client declares to every server."""
    info: types.Implementation | Mapping[str, str] | None = options.get("client_info")
    roots: Roots | None = options.get("roots")
    return SessionOptions(
        client_info=None if info is None else types.Implementation.model_validate(info),
        # Modern servers send no log messages unless a level is set.
        log_level=options.get("log_level") or ("debug" if receives_logs else None),
        on_roots=None if roots is None else roots_callback(roots),
        tape=tape_from(options.get("record"), options.get("replay")),
    )


def catalog_options_from(options: Mapping[str, Any]) -> CatalogOptions:
    """Read which tools the client offers, and under which names."""
    cache = options.get("cache", True)
    ttl_seconds = None
    if cache is not True and cache is not None:
        setting = "cache (True, False, or seconds)"
        ttl_seconds = checked_seconds(0 if cache is False else cache, setting, may_be_zero=True)
    single = options.get("tool_name_prefix", False)
    double = options.get("prefix_tool_name_with_server_name", False)
    catalog_options = CatalogOptions(
        include=options.get("include"),
        exclude=options.get("exclude") or (),
        tool_filter=options.get("tool_filter"),
        names=NamePolicy(
            separator="__" if double else "_" if single else "",
            extra=options.get("additional_tool_name_prefix") or "",
            on_collision=options.get("on_collision") or "prefix",
        ),
        overrides=read_overrides(options.get("tool_overrides") or {}),
        ttl_seconds=ttl_seconds,
        unlisted=backups_only(options.get("fallbacks") or {}),
        fallbacks=options.get("fallbacks") or {},
        throw_on_load_error=options.get("throw_on_load_error", False),
        sanitize=options.get("sanitize", True),
        defer=options.get("defer"),
    )
    # Filters are built per server, later; building one here reports mistakes at once.
    ToolFilter.of(
        include=catalog_options.include,
        exclude=catalog_options.exclude,
        tool_filter=catalog_options.tool_filter,
    )
    return catalog_options


def lock_from(options: Mapping[str, Any], source: str | None) -> ToolLock | None:
    """Read the lockfile, if the client uses one; `source` is the file of the configuration."""
    mode = lock_mode(options)
    return None if mode == "off" else _read_lock(mode, options, source)


@off_loop
def _read_lock(mode: LockMode, options: Mapping[str, Any], source: str | None) -> ToolLock | None:
    path = lockfile_path(options, source)
    if mode == "warn" and not path.exists():
        logger.warning("there is no lockfile %s: plait lock writes it", path)
        return None
    return ToolLock(mode, path, read_lockfile(path))


def lock_mode(options: Mapping[str, Any]) -> LockMode:
    """Return the lock mode; with a lockfile and no mode it is "block"."""
    return options.get("lock") or ("block" if options.get("lockfile") else "off")


def lockfile_path(options: Mapping[str, Any], source: str | None) -> Path:
    """Return the path of the lockfile, whether it is used or not."""
    lockfile = options.get("lockfile")
    if isinstance(lockfile, str):
        return Path(lockfile)
    folder = Path.cwd() if source is None else workspace_of(Path(source))
    return folder / LOCKFILE_NAME


def call_settings_from(
    options: Mapping[str, Any], default_tool_timeout: float | None = None
) -> CallSettings:
    """Read how the client makes its calls."""
    return CallSettings(
        default_seconds=options.get("default_tool_timeout") or default_tool_timeout,
        validate_arguments=options.get("validate_arguments", True),
        fallbacks=options.get("fallbacks") or {},
        before_fallback=options.get("before_fallback"),
        result_caching=ResultCaching.of(options.get("result_cache")),
        call_budget=options.get("call_budget"),
        tool_seconds=options.get("tool_timeouts") or {},
        observers=tuple(options.get("observers") or ()),
        on_progress=options.get("on_progress"),
        policy_check=PolicyCheck(options.get("policy"), options.get("on_approval")),
    )


def check_fallbacks(options: Mapping[str, Any], servers: Collection[str]) -> None:
    """Raise `ConfigError` unless fallbacks name two different servers each."""
    fallbacks: Mapping[str, str] = options.get("fallbacks") or {}
    for server, backup in fallbacks.items():
        for name in (server, backup):
            if name not in servers:
                raise ConfigError(f"fallbacks: {unknown_server(name, servers)}", server=name)
        if server == backup:
            raise ConfigError(f"fallbacks: {server!r} cannot be its own backup", server=server)


def roots_callback(roots: Roots) -> OnRoots:
    """Create the callback that answers `roots/list`."""

    def root_list(folders: RootLike | Iterable[RootLike]) -> list[types.Root]:
        is_one = isinstance(folders, str | os.PathLike | types.Root)
        try:
            return [_root(one) for one in ([folders] if is_one else folders)]
        except (TypeError, ValidationError) as error:
            raise ConfigError(
                "roots takes folders, file URIs, or a function that returns them"
            ) from error

    fixed = None if callable(roots) else root_list(roots)

    async def answer(context: RequestContext) -> types.ListRootsResult:
        del context
        if fixed is not None or not callable(roots):
            return types.ListRootsResult(roots=fixed or [])
        return types.ListRootsResult(roots=root_list(await resolve(roots())))

    return answer


def _root(root: RootLike) -> types.Root:
    if isinstance(root, types.Root):
        return root
    text = os.fspath(root)
    uri = text if "://" in text else Path(text).resolve().as_uri()
    return types.Root(uri=FileUrl(uri), name=unquote(uri.rstrip("/").rpartition("/")[2]) or None)
