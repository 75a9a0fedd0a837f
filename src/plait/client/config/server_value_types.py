"""The kinds of values that only servers take: environment, headers, and reconnection."""

from __future__ import annotations

import re
from dataclasses import replace

from plait.client.config.durations import read_delay, read_seconds
from plait.client.config.key_table import Key, KeyTable, read_table
from plait.client.config.raw_value import UNSET, RawValue, Unset
from plait.client.config.timing import ReconnectPolicy
from plait.client.config.value_types import read_attempts, read_bool, read_fraction, read_texts

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""https://www.rfc-editor.org/rfc/rfc9110#name-tokens"""

RECONNECT_KEYS = KeyTable(
    keys=(
        Key("enabled", read_bool, "enabled"),
        Key("max_attempts", read_attempts, "max_attempts"),
        Key("delay", read_delay, "first_delay_seconds"),
        Key("delay_ms", read_delay, "first_delay_seconds", unit="milliseconds"),
        Key("max_delay", read_seconds, "longest_delay_seconds"),
        Key("max_delay_ms", read_seconds, "longest_delay_seconds", unit="milliseconds"),
        Key("jitter", read_fraction, "jitter"),
    ),
    noun="reconnect",
)


def read_env(raw: RawValue) -> object:
    """Read environment variables, or a function of the run that gives them.

    A number is taken as its text, and null leaves one out.
    """
    if callable(raw.value):
        return raw.value
    if not raw.is_object("an object of strings"):
        return UNSET
    env: dict[str, str] = {}
    for name, entry in raw.entries():
        value = _env_value(entry)
        if not name or re.search(r"[=\0]", name):
            entry.reject("bad_name", "is not a name for an environment variable")
        elif value is not UNSET:
            env[name] = value
    return env


def _env_value(entry: RawValue) -> str | Unset:
    value = entry.value
    if value is None:
        return UNSET
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    is_word = isinstance(value, bool)
    return entry.text(suggestion='write "true" or "false" in quotes' if is_word else None)


def read_inherit_env(raw: RawValue) -> bool | tuple[str, ...] | Unset:
    """Read which variables are passed on: all, none, or a list of names."""
    return read_bool(raw) if isinstance(raw.value, bool) else read_texts(raw)


def read_headers(raw: RawValue) -> object:
    """Read HTTP headers, or a function that gives them."""
    if callable(raw.value):
        return raw.value
    if not raw.is_object("an object of strings"):
        return UNSET
    headers: dict[str, str] = {}
    for name, entry in raw.entries():
        value = entry.text(suggestion="put it in quotes")
        if not _HEADER_NAME.fullmatch(name):
            entry.reject("bad_name", "is not a name for an HTTP header")
        elif value is not UNSET and re.search(r"[\r\n]", value):
            hint = "often a variable that was set from a file, with its last newline"
            entry.reject("bad_value", "the value holds a line break", hint)
        elif value is not UNSET:
            headers[name] = value
    return headers


def read_reconnect(raw: RawValue) -> ReconnectPolicy | Unset:
    """Read how a lost connection is restored: an object, or just true or false."""
    if isinstance(raw.value, ReconnectPolicy):
        return raw.value
    if isinstance(raw.value, bool):
        return ReconnectPolicy(enabled=raw.value)
    if not raw.is_object('an object with "enabled", "max_attempts", "delay"'):
        return UNSET
    policy = ReconnectPolicy(**read_table(raw, RECONNECT_KEYS))
    longest = max(policy.first_delay_seconds, policy.longest_delay_seconds)
    return replace(policy, longest_delay_seconds=longest)
