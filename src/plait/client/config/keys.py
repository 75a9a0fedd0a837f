"""The keys of servers and the options of clients, each with the function that reads its value."""

from __future__ import annotations

from functools import cache
from typing import Final

from plait.client.config import value_types as values
from plait.client.config.budgets import (
    read_call_budget,
    read_deferral,
    read_incoming_limits,
    read_result_budget,
    read_server_deferral,
)
from plait.client.config.oauth_settings import read_auth
from plait.client.config.policy import policy_from_raw
from plait.client.config.raw_value import Key, KeyTable, RawValue, keys_with
from plait.client.config.servers import TransportName, read_reconnect

_LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Negotiated in the handshake, so a configuration cannot choose one."""
_LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_PROTOCOL = values.one_of(
    *("auto", "legacy", "2026-07-28"),
    aliases={"modern": "2026-07-28"},
    hints=dict.fromkeys(_LEGACY_VERSIONS, 'write "legacy"'),
)

_SHARED = (
    *keys_with(values.read_bool, "required", "sampling", "trust_instructions"),
    Key("protocol", _PROTOCOL, aliases=("protocol_era",)),
    Key("connect_timeout", values.read_seconds, "timeouts.connect_seconds"),
    Key("list_timeout", values.read_seconds, "timeouts.list_seconds"),
    Key("read_timeout", values.read_seconds, "timeouts.read_seconds"),
    Key("close_timeout", values.read_seconds, "timeouts.close_seconds"),
    Key("default_tool_timeout", values.read_optional_seconds, "timeouts.call_seconds"),
    Key("tool_timeouts", values.read_seconds_by_tool, "timeouts.tool_seconds"),
    Key("max_call_seconds", values.read_seconds, "timeouts.longest_call_seconds", unit="seconds"),
    Key("reconnect", read_reconnect, aliases=("restart",)),
    Key("idle_timeout", values.read_idle_seconds, "idle_seconds", takes_null=True),
    Key("max_concurrency", values.read_count),
    Key("scope", values.one_of("client", "thread")),
    Key("sharing", values.one_of("client", "all")),
    *keys_with(values.read_patterns, "include", "exclude"),
    Key("output_handling", values.read_output_handling),
    Key("result_budget", read_result_budget),
    Key("limits", read_incoming_limits),
    Key("defer", read_server_deferral),
    Key("session_kwargs", values.read_session_options, "client_options", ("client_options",)),
)

_STDIO = (
    *keys_with(values.read_text, "command", "env_file", "cwd"),
    Key("args", values.read_texts),
    Key("env", values.read_env),
    Key("inherit_env", values.read_inherit_env),
    Key("encoding", values.read_encoding),
    Key("encoding_error_handler", values.one_of("strict", "ignore", "replace")),
    Key("stderr", values.one_of("pipe", "inherit", "ignore", "overlapped")),
)

_REMOTE = (
    Key("url", values.read_text),
    Key("headers", values.read_headers),
    Key("auth", read_auth, aliases=("auth_provider",)),
)

_EXCHANGES = (
    Key("timeout", values.read_seconds, "exchange_seconds"),
    Key("sse_read_timeout", values.read_seconds, "stream_read_seconds"),
    Key("max_sse_event_size", values.read_count, aliases=("maxSSEEventSize",)),
    Key(
        "httpx_client_factory",
        values.read_function,
        "http_client_factory",
        ("http_client_factory",),
    ),
)

_STREAMABLE = (
    Key("automatic_sse_fallback", values.read_bool, aliases=("automaticSSEFallback",)),
    Key("terminate_on_close", values.read_bool),
)

_CALLS = (Key("timeout", values.read_optional_seconds, "timeouts.call_seconds"),)

_KEYS: Final[dict[TransportName, tuple[Key, ...]]] = {
    "stdio": (*_SHARED, *_STDIO, *_CALLS),
    "http": (*_SHARED, *_REMOTE, *_EXCHANGES, *_STREAMABLE),
    "sse": (*_SHARED, *_REMOTE, *_EXCHANGES),
    "websocket": (*_SHARED, *_REMOTE, *_CALLS),
    "in-process": (*_SHARED, Key("server", values.read_object), *_CALLS),
}

STRUCTURE_KEYS = frozenset({"transport", "type", "disabled", "enabled"})
"""Keys of a server that decide whether and how the others are read."""

EDITOR_KEYS = frozenset(
    {"alwaysAllow", "autoApprove", "dev", "gallery", "source", "version", "$schema"}
    | {"comment", "description", "displayName", "icon", "icons", "id", "label", "name"}
    | {"note", "notes", "title", "_comment", "//"}
)
"""Keys of a server that belong to other programs, and do not restrict anything."""

SERVER_LISTS = ("mcpServers", "mcp_servers", "servers")
"""The keys that hold the servers in a configuration."""

CLIENT_KEYS = KeyTable(
    (
        *keys_with(values.read_bool, "tool_name_prefix", "prefix_tool_name_with_server_name"),
        *keys_with(
            values.read_bool, "throw_on_load_error", "sanitize", "watch", "validate_arguments"
        ),
        *keys_with(values.read_bool, "resources_as_tools", "use_standard_content_blocks", "watch"),
        *keys_with(values.read_patterns, "include", "exclude"),
        *keys_with(values.read_data, "cache", "result_cache", "client_info", "roots", "observers"),
        *keys_with(values.read_data, "record", "replay"),
        *keys_with(
            values.read_data, "tool_interceptors", "handle_tool_errors", "callbacks", "sampling"
        ),
        *keys_with(
            values.read_function, "tool_filter", "on_approval", "before_fallback", "token_counter"
        ),
        *keys_with(values.read_function, "before_tool_call", "after_tool_call", "on_message"),
        *keys_with(values.read_function, "on_progress", "on_initialized", "on_cancelled"),
        *keys_with(values.read_function, "on_elicitation_complete"),
        *keys_with(values.read_function, "on_tools_list_changed", "on_prompts_list_changed"),
        *keys_with(values.read_function, "on_resources_list_changed", "on_resources_updated"),
        *keys_with(values.read_function, "on_roots_list_changed"),
        Key("tool_overrides", values.read_data_map),
        Key("additional_tool_name_prefix", RawValue.text),
        Key("on_collision", values.one_of("prefix", "error")),
        Key("defer", read_deferral),
        Key("lockfile", values.read_lockfile_path),
        Key("lock", values.one_of("off", "warn", "block")),
        Key("default_tool_timeout", values.read_optional_seconds),
        Key("tool_timeouts", values.read_seconds_by_tool),
        Key("policy", policy_from_raw),
        Key("fallbacks", values.read_text_map),
        Key("result_budget", read_result_budget),
        Key("limits", read_incoming_limits),
        Key("call_budget", read_call_budget),
        Key("on_connection_error", values.function_or(values.one_of("throw", "ignore"))),
        Key(
            "log_level",
            values.one_of(*_LOG_LEVELS, aliases={one.upper(): one for one in _LOG_LEVELS}),
        ),
        Key("profile", values.one_of("default", "openai", "openai_strict", "anthropic", "gemini")),
        Key("on_auth_error", values.one_of("interrupt", "raise")),
        Key("output_handling", values.read_output_handling),
    ),
    noun="client",
    ignored=(*SERVER_LISTS, "inputs", "$schema", "version", "_comment"),
)
"""Every option in `ClientOptions` and `LangChainOptions`; a test compares them."""


@cache
def server_keys(transport: TransportName | None) -> KeyTable:
    """Return the keys of a server with this transport, or with any while it is not known."""
    everywhere = {
        spelling: key for keys in _KEYS.values() for key in keys for spelling in key.spellings
    }
    keys = _KEYS[transport] if transport else everywhere.values()
    article = "an" if transport == "in-process" else "a"
    return KeyTable(
        keys,
        noun="server",
        ignored=STRUCTURE_KEYS | EDITOR_KEYS,
        misplaced=dict.fromkeys(everywhere, f"has no meaning on {article} {transport} server"),
    )
