"""Shows what a configuration would do, before any of it is done: from the file as it is written."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from plait._support.dotenv import DotenvError, parse_dotenv
from plait._support.redact import HIDDEN, looks_secret
from plait.cli.terminal import visible
from plait.client.config.document import load_document, user_path
from plait.client.config.keys import SERVER_LISTS
from plait.client.config.raw_value import Location, Problems, as_list, as_mapping
from plait.client.config.read import Layout, find_layout
from plait.client.config.secrets import secret_values
from plait.client.config.servers import StdioServer
from plait.client.config.urls import public_url
from plait.client.config.variables import (
    InputRequest,
    Reference,
    TemplateError,
    Variables,
    parse_template,
)
from plait.errors import ConfigError

_LONGEST = 2000
"""Characters of one line; what is left out is counted."""

_BUILTIN = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"}
)
_PLAIN_SECRET = re.compile(r"[\w.+/=~-]+")
"""Only such a value is hidden in a command line: nothing in it could be a command of a shell."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a configuration would do, and a digest of everything that decides it."""

    path: Path
    digest: str
    servers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Each server, and for each thing it does a verb and an object."""

    def lines(self) -> Iterator[str]:
        """Yield lines that are safe for a terminal, without a line break in any of them."""
        for name, facts in self.servers:
            yield _one_line(name)
            for verb, text in facts:
                yield f"  {verb:<9} {_one_line(text)}"


def preview_of(path: Path) -> Preview:
    """Read a configuration, without starting, asking or contacting anything.

    Raises:
        ConfigError: It cannot be read.
    """
    problems = Problems()
    content = _bytes_of(path)
    document = load_document(path, problems)
    layout = find_layout(document.value, document.location) if document else None
    if problems.errors or document is None or layout is None:
        raise ConfigError.from_problems(problems.errors)
    variables = Variables.of(None, document.folder)
    digest = hashlib.sha256(_labelled("configuration", content))
    servers: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    for name, entry in layout.servers.items():
        servers.append((str(name), tuple(_facts(as_mapping(entry) or {}, variables))))
    options = {key: value for key, value in layout.options.items() if key not in SERVER_LISTS}
    if references := _references_in(options):
        servers.append(("options", (("use", ", ".join(references)),)))
    for file in _files_of(layout, variables):
        digest.update(_labelled(str(file), _bytes_of(file)))
    return Preview(path, f"sha256:{digest.hexdigest()}", tuple(servers))


def _labelled(label: str, content: bytes) -> bytes:
    return f"{len(label.encode())}:{label}:{len(content)}:".encode() + content


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _files_of(layout: Layout, variables: Variables) -> list[Path]:
    """Return the env files and the policy that the configuration names."""
    entries = [as_mapping(entry) or {} for entry in layout.servers.values()]
    named = {file for entry in entries for file in _env_files(entry, variables)}
    if (policy := _resolved(layout.options.get("policy"), variables)) is not None:
        named.add(policy)
    return sorted(named)


def _env_files(entry: Mapping[object, object], variables: Variables) -> list[Path]:
    named = [_resolved(entry.get(key), variables) for key in ("envFile", "env_file")]
    return [file for file in named if file is not None]


def _resolved(value: object, variables: Variables) -> Path | None:
    if not isinstance(value, str):
        return None
    name = variables.expand(value, Location(Problems()))
    if not name or "\0" in name:
        return None
    return Path(os.path.normpath(variables.folder.resolve() / user_path(name)))


def _facts(entry: Mapping[object, object], variables: Variables) -> Iterator[tuple[str, str]]:
    """Yield what one server does."""
    if entry.get("disabled") is True or entry.get("enabled") is False:
        yield "is", "disabled"
    command, args = entry.get("command"), as_list(entry.get("args")) or ()
    if command is not None:
        yield "runs", _command_line(str(command), tuple(map(str, args)))
    if (folder := entry.get("cwd")) is not None:
        yield "in", str(folder)
    if (url := entry.get("url")) is not None:
        yield "contacts", public_url(str(url))
    if settings := list(_settings_in(as_mapping(entry.get("env")) or {})):
        yield "sets", ", ".join(settings)
    for file in _env_files(entry, variables):
        yield "reads", f"{file} ({_names_in(file)})"
    inherited = entry.get("inheritEnv", entry.get("inherit_env"))
    if inherited:
        names = as_list(inherited)
        every = "every variable of your environment"
        yield "gets", every if names is None else ", ".join(map(str, names))
    if references := _references_in(entry):
        yield "gets", ", ".join(references)
    if entry.get("auth", entry.get("authProvider")) is not None:
        yield "signs in", "with OAuth"
    if entry.get("sampling"):
        yield "may", "use your model"
    if entry.get("trust_instructions", entry.get("trustInstructions")):
        yield "may", "instruct your agents"


def _command_line(command: str, args: tuple[str, ...]) -> str:
    """Return a command line as it is written, without literal secrets."""
    server = StdioServer(command=command, args=args)
    secrets = [one for one in secret_values(server) if _PLAIN_SECRET.fullmatch(one)]
    words: list[str] = []
    for word in (command, *args):
        shown = shlex.quote(word)
        for secret in secrets:
            shown = shown.replace(secret, HIDDEN)
        words.append(shown)
    return " ".join(words)


def _settings_in(env: Mapping[object, object]) -> Iterator[str]:
    """Yield the variables that are set to a literal value."""
    for name, value in env.items():
        if isinstance(value, str) and "${" in value:
            continue
        yield f"{name}={HIDDEN if looks_secret(str(name)) else shlex.quote(str(value))}"


def _names_in(file: Path) -> str:
    try:
        names = list(parse_dotenv(_bytes_of(file).decode("utf-8-sig")))
    except (DotenvError, UnicodeDecodeError):
        return "cannot be read"
    return f"sets {', '.join(names)}" if names else "sets nothing"


def _references_in(value: object) -> list[str]:
    """Return each variable of yours that a value uses, with its places."""
    places: dict[str, list[str]] = {}
    for place, text in _texts_in(value):
        try:
            parts = parse_template(text)
        except TemplateError:
            continue
        for reference in _references(parts):
            found = places.setdefault(reference, [])
            if place not in found:
                found.append(place)
    return [f"{name} ({', '.join(found)})" for name, found in places.items()]


def _texts_in(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif (entries := as_mapping(value)) is not None:
        for key, entry in entries.items():
            yield from _texts_in(entry, f"{place}.{key}" if place else str(key))
    elif (items := as_list(value)) is not None:
        for item in items:
            yield from _texts_in(item, place)


def _references(parts: tuple[str | Reference, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            continue
        if part.source == "input":
            yield f"${InputRequest(id=part.name).variable} or what you type"
        elif part.source == "env" or part.name not in _BUILTIN:
            yield f"${part.name}"
        yield from _references(part.default or ())


def _one_line(text: str) -> str:
    """Escape what would act on a terminal or break the line; shorten what would fill it."""
    for character, shown in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, shown)
    text = visible(text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… and {len(text) - _LONGEST:,} characters more: read the file"
    return text
