"""The options of a client that hold for every framework, made into what its parts need."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from plait.client.calls.approval import OnApproval
from plait.client.calls.callbacks import NOTIFICATION_CALLBACKS, OnAnyProgress, OnNotification
from plait.client.calls.executor import CallSettings
from plait.client.calls.fallback import backups_only
from plait.client.calls.policy_check import PolicyCheck
from plait.client.calls.result_cache import ResultCaching
from plait.client.catalog.deferral import TokenCounter
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.lock.file import LOCKFILE_NAME, read_lockfile
from plait.client.catalog.lock.guard import LockMode, ToolLock
from plait.client.catalog.names import NamePolicy
from plait.client.catalog.options import CatalogOptions
from plait.client.catalog.overrides import read_overrides
from plait.client.config.document import workspace_of
from plait.client.config.read_policy import PolicySource
from plait.client.connections.pool import unknown_server
from plait.errors import ConfigError
from plait.traces.observer import Observer

logger = logging.getLogger("plait.client.calls")

APPLIED = frozenset(
    {
        "additional_tool_name_prefix",
        "before_fallback",
        "cache",
        "call_budget",
        "defer",
        "exclude",
        "fallbacks",
        "include",
        "lock",
        "lockfile",
        "log_level",
        "on_approval",
        "on_collision",
        "on_connection_error",
        "policy",
        "prefix_tool_name_with_server_name",
        "result_budget",
        "result_cache",
        "sanitize",
        "throw_on_load_error",
        "token_counter",
        "tool_filter",
        "tool_name_prefix",
        "tool_overrides",
        "tool_timeouts",
        "validate_arguments",
        "on_progress",
        *NOTIFICATION_CALLBACKS,
    }
)


class ClientOptions(TypedDict, total=False):
    """What a client may set about tools and calls; the reference of options describes each."""

    include: Any
    exclude: Any
    tool_filter: Any
    tool_overrides: Mapping[str, Any]
    tool_name_prefix: bool
    prefix_tool_name_with_server_name: bool
    additional_tool_name_prefix: str
    on_collision: str
    tool_timeouts: Mapping[str, Any]
    on_connection_error: Any
    throw_on_load_error: bool
    fallbacks: Mapping[str, str]
    before_fallback: Any
    cache: bool | float
    result_cache: Any
    result_budget: Any
    token_counter: TokenCounter
    call_budget: Any
    defer: Any
    validate_arguments: bool
    policy: PolicySource
    on_approval: OnApproval
    on_message: OnNotification
    on_progress: OnAnyProgress
    on_initialized: OnNotification
    on_cancelled: OnNotification
    on_tools_list_changed: OnNotification
    on_prompts_list_changed: OnNotification
    on_resources_list_changed: OnNotification
    on_roots_list_changed: OnNotification
    on_resources_updated: OnNotification
    sanitize: bool
    lockfile: Any
    lock: LockMode


def unused_options(options: Iterable[str]) -> list[str]:
    """Name the options that only a framework's own client can use."""
    return sorted(set(options) - APPLIED)


def catalog_options_from(options: Mapping[str, Any]) -> CatalogOptions:
    """Read what the client wants of its catalogue.

    Raises:
        ConfigError: A filter, an override or a prefix makes no sense.
    """
    catalog_options = CatalogOptions(
        include=options.get("include"),
        exclude=options.get("exclude") or (),
        tool_filter=options.get("tool_filter"),
        names=_names(options),
        overrides=read_overrides(options.get("tool_overrides") or {}),
        ttl_seconds=_ttl(options.get("cache", True)),
        unlisted=backups_only(options.get("fallbacks") or {}),
        throw_on_load_error=options.get("throw_on_load_error", False),
        sanitize=options.get("sanitize", True),
        defer=options.get("defer"),
    )
    # Made again for each server; made here, once, so that mistakes show at once.
    ToolFilter.of(
        include=catalog_options.include,
        exclude=catalog_options.exclude,
        tool_filter=catalog_options.tool_filter,
    )
    return catalog_options


def lock_from(options: Mapping[str, Any], source: str | None) -> ToolLock | None:
    """Read the lockfile that the client wants its tools to be held against, if it wants one.

    `source` is the file the configuration was read from.

    Raises:
        ConfigError: The lockfile is broken, or is missing where it is insisted on.
    """
    mode = lock_mode(options)
    if mode == "off":
        return None
    path = lockfile_path(options, source)
    if mode == "warn" and not path.exists():
        logger.warning("there is no lockfile %s to hold tools against: plait lock writes it", path)
        return None
    return ToolLock(mode, path, read_lockfile(path))


def lock_mode(options: Mapping[str, Any]) -> LockMode:
    """Say how much a client insists on its lockfile: fully, unless something else is said."""
    return options.get("lock") or ("block" if options.get("lockfile") else "off")


def lockfile_path(options: Mapping[str, Any], source: str | None) -> Path:
    """Return where the lockfile of a client is, whether it is used or not."""
    given = options.get("lockfile")
    if isinstance(given, str):
        return Path(given)
    folder = Path.cwd() if source is None else workspace_of(Path(source))
    return folder / LOCKFILE_NAME


def call_settings_from(
    options: Mapping[str, Any], *, default_seconds: float | None, observers: Sequence[Observer]
) -> CallSettings:
    """Read how the client makes its calls."""
    return CallSettings(
        default_seconds=default_seconds,
        validate_arguments=options.get("validate_arguments", True),
        fallbacks=options.get("fallbacks") or {},
        before_fallback=options.get("before_fallback"),
        result_caching=ResultCaching.of(options.get("result_cache")),
        call_budget=options.get("call_budget"),
        observers=tuple(observers),
        on_progress=options.get("on_progress"),
        policy_check=PolicyCheck(options.get("policy"), options.get("on_approval")),
    )


def check_fallbacks(options: Mapping[str, Any], servers: Collection[str]) -> None:
    """Refuse fallbacks between servers that are not there.

    Raises:
        ConfigError: A server is unknown, or stands in for itself.
    """
    fallbacks: Mapping[str, str] = options.get("fallbacks") or {}
    for server, backup in fallbacks.items():
        for name in (server, backup):
            if name not in servers:
                raise ConfigError(f"fallbacks: {unknown_server(name, servers)}", server=name)
        if server == backup:
            raise ConfigError(f"fallbacks: {server!r} cannot stand in for itself", server=server)


def _names(options: Mapping[str, Any]) -> NamePolicy:
    single = options.get("tool_name_prefix", False)
    double = options.get("prefix_tool_name_with_server_name", False)
    return NamePolicy(
        separator="__" if double else "_" if single else "",
        extra=options.get("additional_tool_name_prefix") or "",
        on_collision=options.get("on_collision") or "prefix",
    )


def _ttl(cache: object) -> float | None:
    if cache is True or cache is None:
        return None
    if cache is False:
        return 0.0
    if isinstance(cache, int | float) and cache >= 0:
        return float(cache)
    raise ConfigError("cache takes True, False, or the seconds for which a list of tools holds")
