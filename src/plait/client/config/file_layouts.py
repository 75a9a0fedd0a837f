"""Finding servers, options and inputs in the file layouts of different programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plait._support.redact import looks_secret
from plait._support.suggestions import nearest
from plait.client.config.keys import CLIENT_KEYS, SERVER_LISTS
from plait.client.config.raw_value import Location, as_list, as_mapping, describe
from plait.client.config.variables import InputRequest

_APPLICATION_FILES = ("settings.json", ".claude.json", "claude_desktop_config.json")
"""Files that hold more than servers, so that unknown keys are not mistakes."""


@dataclass(frozen=True, slots=True)
class ConfigLayout:
    """The parts of a configuration."""

    servers: Mapping[object, object]
    location: Location
    """The location of the servers."""
    options: Mapping[object, object] = field(default_factory=dict[object, object])
    inputs: Mapping[str, InputRequest] = field(default_factory=dict[str, InputRequest])


def find_layout(value: object, location: Location) -> ConfigLayout | None:
    """Split a configuration: servers only, or a list of servers with options beside it."""
    entries = as_mapping(value)
    if entries is None:
        hint = 'write {"name": {"command": …}}, or pass the path of a file'
        location.error("wrong_type", f"expected an object, found {describe(value)}", hint)
        return None
    settings = as_mapping(entries.get("mcp"))
    if settings is not None and "servers" in settings and not is_server_entry(settings):
        return _whole(settings, location.at("mcp"), options={})
    if any(name in entries and not is_server_entry(entries[name]) for name in SERVER_LISTS):
        options = entries
        if location.file is not None and location.file.endswith(_APPLICATION_FILES):
            options = {key: entries[key] for key in entries if key in CLIENT_KEYS.spellings}
        return _whole(entries, location, options)
    return _servers_only(entries, location)


def is_server_entry(value: object) -> bool:
    """Return whether an object is a server itself."""
    entries = as_mapping(value)
    return entries is not None and any(
        isinstance(entries.get(name), str) for name in ("command", "url")
    )


def _whole(
    entries: Mapping[object, object], location: Location, options: Mapping[object, object]
) -> ConfigLayout | None:
    lists = [name for name in SERVER_LISTS if name in entries]
    if len(lists) > 1:
        message = f'there are servers under both "{lists[0]}" and "{lists[1]}"'
        location.error("duplicate_key", message, "keep one of them")
    servers = as_mapping(entries[lists[0]])
    servers_location = location.at(lists[0])
    inputs = _inputs_from(entries.get("inputs"), location.at("inputs"))
    if servers is None:
        hint = 'write {"name": {"command": …}}'
        servers_location.error(
            "wrong_type",
            f"expected an object of servers, found {describe(entries[lists[0]])}",
            hint,
        )
        return None
    if not servers:
        servers_location.error("no_servers", "there are no servers", 'add {"name": {"command": …}}')
    return ConfigLayout(servers, servers_location, options, inputs)


def _servers_only(entries: Mapping[object, object], location: Location) -> ConfigLayout | None:
    """Use an object without a server list as that list, unless it clearly is not one."""
    if not entries:
        location.error("no_servers", "there are no servers", 'add "mcpServers": {…}')
        return None
    if is_server_entry(entries):
        hint = 'give it a name: {"name": {…}}'
        location.error("missing_name", "this is one server without a name", hint)
        return None
    known = True
    for key, value in entries.items():
        meant = nearest(str(key), SERVER_LISTS)
        if meant and as_mapping(value) is not None and not is_server_entry(value):
            hint = f'did you mean "{meant}"?'
            location.at(str(key)).error("unknown_key", "is not a key of a configuration", hint)
            known = False
        elif key in CLIENT_KEYS.spellings and as_mapping(value) is None:
            hint = 'put the servers under "mcpServers" beside it'
            location.at(str(key)).error("no_servers", "is an option, not a server", hint)
            known = False
    return ConfigLayout(entries, location) if known else None


def _inputs_from(value: object, location: Location) -> dict[str, InputRequest]:
    """Read VS Code's list of values to prompt for."""
    if value is None:
        return {}
    items = as_list(value)
    if items is None:
        location.error("wrong_type", f"expected a list of inputs, found {describe(value)}")
        return {}
    requests = [_input_from(item, location.at(index)) for index, item in enumerate(items)]
    return {request.id: request for request in requests if request is not None}


def _input_from(value: object, location: Location) -> InputRequest | None:
    entries = as_mapping(value)
    name = entries.get("id") if entries is not None else None
    if entries is None or not isinstance(name, str) or not name:
        location.error("missing_key", 'an input needs an "id"')
        return None
    options = as_list(entries.get("options")) or ()
    return InputRequest(
        id=name,
        description=_text_or_none(entries.get("description")),
        password=entries.get("password") is True or looks_secret(name),
        default=_text_or_none(entries.get("default")),
        options=tuple(option for option in options if isinstance(option, str)),
    )


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
