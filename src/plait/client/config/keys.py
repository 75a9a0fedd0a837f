"""The keys of servers and the options of clients, each with the function that reads its value."""

from __future__ import annotations

from functools import cache
from typing import Final

from plait.client.config.budgets import read_call_budget, read_result_budget
from plait.client.config.deferral import read_deferral, read_server_deferral
from plait.client.config.key_table import Key, KeyTable
from plait.client.config.oauth import read_auth
from plait.client.config.raw_value import Reader
from plait.client.config.read_policy import policy_from_raw
from plait.client.config.servers import TransportName
from plait.client.config.value_types import (
    function_or,
    one_of,
    read_any_text,
    read_bool,
    read_count,
    read_data,
    read_data_map,
    read_encoding,
    read_env,
    read_function,
    read_headers,
    read_idle_seconds,
    read_inherit_env,
    read_lockfile_path,
    read_object,
    read_optional_seconds,
    read_output_handling,
    read_patterns,
    read_reconnect,
    read_seconds,
    read_seconds_by_tool,
    read_text,
    read_text_map,
    read_texts,
)

_LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Negotiated in the handshake, so a configuration cannot choose one."""

_LOG_LEVELS = (
    *("debug", "info", "notice", "warning"),
    *("error", "critical", "alert", "emergency"),
)

_SHARED = (
    Key("required", read_bool, "required"),
    Key(
        "protocol",
        one_of(
            "auto",
            "legacy",
            "2026-07-28",
            aliases={"modern": "2026-07-28"},
            hints=dict.fromkeys(_LEGACY_VERSIONS, 'write "legacy"'),
        ),
        "protocol",
        ("protocol_era",),
    ),
    Key("connect_timeout", read_seconds, "timeouts.connect_seconds"),
    Key("list_timeout", read_seconds, "timeouts.list_seconds"),
    Key("read_timeout", read_seconds, "timeouts.read_seconds"),
    Key("close_timeout", read_seconds, "timeouts.close_seconds"),
    Key("default_tool_timeout", read_optional_seconds, "timeouts.call_seconds"),
    Key("tool_timeouts", read_seconds_by_tool, "timeouts.tool_seconds"),
    Key("max_call_seconds", read_seconds, "timeouts.longest_call_seconds", unit="seconds"),
    Key("reconnect", read_reconnect, "reconnect", ("restart",)),
    Key("idle_timeout", read_idle_seconds, "idle_seconds", takes_null=True),
    Key("max_concurrency", read_count, "max_concurrency"),
    Key("scope", one_of("client", "thread"), "scope"),
    Key("include", read_patterns, "include"),
    Key("exclude", read_patterns, "exclude"),
    Key("output_handling", read_output_handling, "output_handling"),
    Key("sampling", read_bool, "sampling"),
    Key("trust_instructions", read_bool, "trust_instructions"),
    Key("result_budget", read_result_budget, "result_budget"),
    Key("defer", read_server_deferral, "defer"),
    Key("session_kwargs", read_data_map, "client_options", ("client_options",)),
)

_STDIO = (
    Key("command", read_text, "command"),
    Key("args", read_texts, "args"),
    Key("env", read_env, "env"),
    Key("env_file", read_text, "env_file"),
    Key("inherit_env", read_inherit_env, "inherit_env"),
    Key("cwd", read_text, "cwd"),
    Key("encoding", read_encoding, "encoding"),
    Key(
        "encoding_error_handler",
        one_of("strict", "ignore", "replace"),
        "encoding_error_handler",
    ),
    Key("stderr", one_of("pipe", "inherit", "ignore", "overlapped"), "stderr"),
)

_REMOTE = (
    Key("url", read_text, "url"),
    Key("headers", read_headers, "headers"),
    Key("auth", read_auth, "auth", ("auth_provider",)),
)

_EXCHANGES = (
    Key("timeout", read_seconds, "exchange_seconds"),
    Key("sse_read_timeout", read_seconds, "stream_read_seconds"),
    Key("max_sse_event_size", read_count, "max_sse_event_size", ("maxSSEEventSize",)),
    Key("httpx_client_factory", read_function, "http_client_factory", ("http_client_factory",)),
)

_STREAMABLE = (
    Key("automatic_sse_fallback", read_bool, "automatic_sse_fallback", ("automaticSSEFallback",)),
    Key("terminate_on_close", read_bool, "terminate_on_close"),
)

_CALLS = (Key("timeout", read_optional_seconds, "timeouts.call_seconds"),)

_IN_PROCESS = (Key("server", read_object, "server"),)

_KEYS: Final[dict[TransportName, tuple[Key, ...]]] = {
    "stdio": (*_SHARED, *_STDIO, *_CALLS),
    "http": (*_SHARED, *_REMOTE, *_EXCHANGES, *_STREAMABLE),
    "sse": (*_SHARED, *_REMOTE, *_EXCHANGES),
    "websocket": (*_SHARED, *_REMOTE, *_CALLS),
    "in-process": (*_SHARED, *_IN_PROCESS, *_CALLS),
}

STRUCTURE_KEYS = frozenset({"transport", "type", "disabled", "enabled"})
"""Keys of a server that decide whether and how the others are read."""

EDITOR_KEYS = frozenset(
    {"alwaysAllow", "autoApprove", "dev", "gallery", "source", "version", "$schema"}
    | {"comment", "description", "displayName", "icon", "icons", "id", "label", "name"}
    | {"note", "notes", "title", "_comment", "//"}
)
"""Keys of a server that belong to other programs, and do not restrict anything."""

_OPTION_READERS: Final[dict[str, Reader]] = {
    "include": read_patterns,
    "exclude": read_patterns,
    "tool_filter": read_function,
    "tool_overrides": read_data_map,
    "tool_name_prefix": read_bool,
    "prefix_tool_name_with_server_name": read_bool,
    "additional_tool_name_prefix": read_any_text,
    "on_collision": one_of("prefix", "error"),
    "throw_on_load_error": read_bool,
    "defer": read_deferral,
    "lockfile": read_lockfile_path,
    "lock": one_of("off", "warn", "block"),
    "sanitize": read_bool,
    "cache": read_data,
    "default_tool_timeout": read_optional_seconds,
    "tool_timeouts": read_seconds_by_tool,
    "validate_arguments": read_bool,
    "policy": policy_from_raw,
    "on_approval": read_function,
    "fallbacks": read_text_map,
    "before_fallback": read_function,
    "result_cache": read_data,
    "result_budget": read_result_budget,
    "token_counter": read_function,
    "call_budget": read_call_budget,
    "on_connection_error": function_or(one_of("throw", "ignore")),
    "on_message": read_function,
    "on_progress": read_function,
    "on_initialized": read_function,
    "on_tools_list_changed": read_function,
    "on_prompts_list_changed": read_function,
    "on_resources_list_changed": read_function,
    "on_resources_updated": read_function,
    "on_cancelled": read_function,
    "on_roots_list_changed": read_function,
    "log_level": one_of(*_LOG_LEVELS),
    "client_info": read_data,
    "roots": read_data,
    "observers": read_data,
    "profile": one_of("default", "openai", "openai_strict", "anthropic", "gemini"),
    "resources_as_tools": read_bool,
    "tool_interceptors": read_data,
    "before_tool_call": read_function,
    "after_tool_call": read_function,
    "handle_tool_errors": read_data,
    "on_auth_error": one_of("interrupt", "raise"),
    "output_handling": read_output_handling,
    "use_standard_content_blocks": read_bool,
    "callbacks": read_data,
    "sampling": read_data,
}
"""A reader for every option in `ClientOptions` and `LangChainOptions`; a test compares them."""

SERVER_LISTS = ("mcpServers", "mcp_servers", "servers")
"""The keys that hold the servers in a configuration."""

CLIENT_KEYS = KeyTable(
    (Key(name, read, name) for name, read in _OPTION_READERS.items()),
    noun="client",
    ignored=(*SERVER_LISTS, "inputs", "$schema", "version", "_comment"),
)
"""The options of a client, in a file or passed to its constructor."""


@cache
def server_keys(transport: TransportName | None) -> KeyTable:
    """Return the keys of a server with this transport, or with any while it is not known."""
    everywhere = {
        spelling: key for keys in _KEYS.values() for key in keys for spelling in key.spellings
    }
    keys = _KEYS[transport] if transport else everywhere.values()
    return KeyTable(
        keys,
        noun="server",
        ignored=STRUCTURE_KEYS | EDITOR_KEYS,
        misplaced={
            spelling: f"has no meaning on {_named(transport)} server" for spelling in everywhere
        },
    )


def known_spellings() -> frozenset[str]:
    """Return every key that a configuration may have."""
    return server_keys(None).spellings | CLIENT_KEYS.spellings | STRUCTURE_KEYS | set(SERVER_LISTS)


def _named(transport: TransportName | None) -> str:
    return f"an {transport}" if transport == "in-process" else f"a {transport}"
