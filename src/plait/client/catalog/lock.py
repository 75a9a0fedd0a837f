"""The lockfile: who a server is, what is locked about its tools, and how listed tools differ.

A server is identified by what it declares, and by its command or address without what may be
secret. An argument is shown only if it is surely harmless. Of the others a slow hash is kept, so
that a change is found; not of those that look secret, which may change at any time.

The file is readable JSON with minimal diffs. There is one change for each place that differs, with
both values.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, Final, Literal, NoReturn, NotRequired, Self, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from plait._support.files import write_atomically
from plait._support.redact import HIDDEN, Redactor, looks_secret
from plait._support.sanitize import escaped
from plait.client.catalog.tool import Tool
from plait.client.config.document import JsonSyntaxError, decode_text, parse_jsonc
from plait.client.config.secrets import secret_values, secrets_in_argument
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import public_url
from plait.errors import ConfigError, Problem
from plait.models.schemas.describe import outline
from plait.models.schemas.json_schema import NAMED_SCHEMAS, is_list, is_mapping

_RUNNERS = frozenset(
    {"npx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn", "bun", "uv", "deno", "node", "tsx"}
    | {"python", "python3", "docker", "podman", "go", "java", "ruby", "dotnet", "bash", "sh"}
)
"""Programs whose first argument names another program, which a reviewer wants to read."""
_SUBCOMMANDS = frozenset({"run", "exec", "dlx", "x", "tool"})
_SWITCHES = frozenset(
    {"-y", "--yes", "-q", "--quiet", "-i", "-t", "-it", "--rm", "--interactive", "-m", "-u", "-B"}
    | {"-I", "-E", "-S", "-s", "-jar", "--isolated", "--silent", "--no-cache", "--offline"}
)
"""Flags of those programs that take no value."""
_SHORT_SECRET = frozenset({"-p", "-P", "-k", "-t", "-s", "-a", "-w"})
"""Flags that are used for passwords, keys and tokens."""
_WORDS = frozenset(
    {"stdio", "http", "sse", "streamable-http", "serve", "start", "mcp", "server", "--", "-"}
    | {"true", "false", "yes", "no", "on", "off", "debug", "info", "warning", "error", "json"}
    | {"v1", "v2", "v3"}
    | _SUBCOMMANDS
)

_FLAG = re.compile(r"--[A-Za-z][\w.-]*|-[A-Za-z]|-jar|-it")
_PAIR = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)(=)(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d{1,5}|\d+(?:\.\d+){1,3}")
_FILES = "py|js|mjs|cjs|ts|rb|sh|jar|wasm|json|toml|yaml|yml|ini|db|sqlite|sqlite3"
_PATH = re.compile(rf"(?:~|\.{{1,2}})?(?:/[\w.@+ -]+)+/?|\.{{1,2}}|~|/|[\w./-]+\.(?:{_FILES})")
_PACKAGE = re.compile(r"@[a-z0-9~-][\w.~-]*/[\w.~-]+(?:@[\w.^~-]+)?")
_NAME = re.compile(r"(?:[a-z0-9.-]+(?::\d+)?/)*[A-Za-z][\w.-]*(?:\[\w+\])?(?:(?:@|:|==)[\w.+-]+)?")
_RANDOM = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[A-Za-z0-9_=+-]{20,}")
_VARIABLE = re.compile(r"\$\{[^{}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The name and version that a server declares, and where it is."""

    name: str | None = None
    version: str | None = None
    transport: str
    target: str = ""
    """The command or the URL, with variables as they are written, and without secrets."""
    cwd: str | None = None
    env: tuple[str, ...] = ()
    """The names of the variables that a program gets."""
    hidden: str | None = None
    """The hash of what is not shown in `target`, but for what looks secret."""

    @property
    def address(self) -> str:
        """Where the server is, in one line."""
        parts = [self.transport, self.target, f"in {self.cwd}" if self.cwd else ""]
        parts += [f"with {', '.join(self.env)}"] if self.env else []
        parts += [f"({self.hidden})"] if self.hidden else []
        return " ".join(filter(None, parts))


def identity_of(server: ServerConfig, declared: Mapping[str, str] | None, folder: Path) -> Identity:
    """Describe the identity of a server; paths are relative to the folder, or to the home.

    `declared` is the name and the version that the server reports.
    """
    home, redact = folder.resolve(), Redactor(secret_values(server))
    about = {key: redact(text) for key, text in (declared or {}).items()}
    target, hashed = "", list[str]()
    cwd, env = None, list[str]()
    if isinstance(server, RemoteOptions):
        url = server.templates.get(server.url, server.url)
        target, hashed = public_url(url), _plain_parameters(url)
    elif isinstance(server, StdioServer):
        target, hashed = _command_line(server, home)
        cwd = None if server.cwd is None else _portable(server.cwd, home)
        inherited = ["*"] if server.inherit_env is True else server.inherit_env or ()
        env = [*server.fixed_env, *inherited]
    return Identity(
        name=about.get("name"),
        version=about.get("version"),
        transport=server.transport,
        target=target,
        cwd=cwd,
        env=tuple(sorted(env)),
        hidden=_slow_hash("\0".join(hashed)) if hashed else None,
    )


def _command_line(server: StdioServer, folder: Path) -> tuple[str, list[str]]:
    """Return what is shown of a command, and what is only hashed."""
    words = [server.command]
    if " " in server.command and not _PATH.fullmatch(server.command):
        words = server.command.split()  # a whole command line
    program, *arguments = (
        _portable(server.templates.get(word, word), folder) for word in (*words, *server.args)
    )
    shown, hashed, flag = [program], list[str](), ""
    is_named = PurePath(program).stem.lower() not in _RUNNERS
    for word in arguments:
        before, flag = flag, word if _FLAG.fullmatch(word) else ""
        if flag:
            shown.append(word)
        elif (
            not is_named
            and before in ("", *_SWITCHES)
            and any(known.fullmatch(word) for known in (_NAME, _PACKAGE, _PATH))
            and not (_is_random(word) or any(secrets_in_argument(word)))
        ):
            is_named = word not in _SUBCOMMANDS
            shown.append(word)
        else:
            text, rest = _shown(word, "" if before in _SWITCHES - _SHORT_SECRET else before)
            shown.append(text)
            hashed += [] if rest is None else [f"{len(shown) - 1} {rest}"]
    line = " ".join(shown)
    for secret in server.secrets:
        line = line.replace(secret, HIDDEN)
    return line, hashed


def _shown(word: str, flag: str) -> tuple[str, str | None]:
    """Return what is shown of an argument, and what is hashed of it, if anything."""
    if (pair := _PAIR.fullmatch(word)) and "://" not in pair[1]:
        name, sign, value = pair.groups()
        text, rest = _shown(value, name if name.startswith("--") else f"--{name}")
        return f"{name}{sign}{text}", rest
    if flag in _SHORT_SECRET or (flag and looks_secret(flag.lstrip("-"))):
        return (word if _VARIABLE.fullmatch(word) else HIDDEN), None
    plain = _VARIABLE.sub("", word)
    is_number = flag.startswith("--") and _NUMBER.fullmatch(plain)
    is_word = plain.lower() in _WORDS or _PACKAGE.fullmatch(plain) or _PATH.fullmatch(plain)
    if not plain or is_number or (is_word and not _is_random(plain)):
        return word, None
    is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", word) is not None
    text, rest = _shown_url(word) if is_url else (HIDDEN, word)
    has_secret = any(secrets_in_argument(plain)) or Redactor()(plain) != plain
    return text, None if has_secret else rest


def _shown_url(url: str) -> tuple[str, str | None]:
    """Return a URL without its path, but for steps such as "mcp", and what is hashed.

    Programs get keys of any form in the path, also plain words: a bot's, a webhook's, a phrase.
    """
    scheme, _, place = public_url(url).partition("://")
    host, *steps = place.split("/")
    hidden = [step for step in steps if (plain := _VARIABLE.sub("", step)) and plain not in _WORDS]
    path = ["…" if step in hidden else step for step in steps]
    return "/".join([f"{scheme}://{host}", *path]), "&".join(
        [*hidden, *_plain_parameters(url)]
    ) or None


def _plain_parameters(url: str) -> list[str]:
    """Return the parameters of a URL that do not look secret, with variables as written."""
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    return [f"{name}={value}" for name, value in pairs if not looks_secret(name)]


def _is_random(word: str) -> bool:
    return any(_RANDOM.fullmatch(step) for step in re.split(r"[/@:]", word))


def _portable(argument: str, folder: Path) -> str:
    for place, short in ((folder, "."), (Path.home(), "~")):
        whole = str(place)
        if argument == whole or argument.startswith(f"{whole}/"):
            return short + argument.removeprefix(whole)
    return argument


@lru_cache(maxsize=256)
def _slow_hash(text: str) -> str:
    """Hash a text so that short values cannot be found by trying them all."""
    data = text.encode("utf-8", "surrogatepass")
    made = hashlib.scrypt(data, salt=b"plait lock", n=2**14, r=8, p=1, dklen=16)
    return f"scrypt:{made.hex()}"


LOCKFILE_NAME = "plait.lock.json"
_VERSION = 1

_UNORDERED = frozenset({"required", "type"})
"""Keywords of a schema whose list is a set."""
_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords of a schema whose value is data, in which a key means nothing special."""


def canonical(value: Any) -> Any:
    """Return the value as plain data with sorted keys and numbers in one form."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_mapping(value):
        return {str(key): canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(one) for one in cast("list[Any]", value)]
    return value


def canonical_schema(schema: Any) -> Any:
    """Return a schema in one form; lists that are sets are sorted too."""
    if isinstance(schema, list | tuple):
        return [canonical_schema(one) for one in cast("list[Any]", schema)]
    if not is_mapping(schema):
        return canonical(schema)
    made: dict[str, Any] = {}
    for key in sorted(schema):
        value = schema[key]
        if key in _DATA:
            made[key] = canonical(value)
        elif key in NAMED_SCHEMAS and is_mapping(value):
            made[key] = {name: canonical_schema(value[name]) for name in sorted(value)}
        elif key in _UNORDERED and is_list(value) and all(isinstance(one, str) for one in value):
            made[key] = sorted(value)
        else:
            made[key] = canonical_schema(value)
    return made


def text_of(value: Any) -> str:
    """Write a canonical value as one line of JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """Return the hash of a value that is in canonical form."""
    return f"sha256:{hashlib.sha256(text_of(value).encode('utf-8', 'surrogatepass')).hexdigest()}"


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTool:
    """Everything about a tool that a model reads or a client relies on, in canonical form."""

    name: str
    """What the server calls it."""
    title: str | None = None
    description: str = ""
    input_schema: Json = field(default_factory=dict[str, Any])
    output_schema: Json | None = None
    annotations: Json = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Create an entry from a tool as its server lists it."""
        output = None if tool.output_schema is None else canonical_schema(tool.output_schema)
        return cls(
            name=tool.wire_name,
            title=tool.title,
            description=tool.description,
            input_schema=canonical_schema(tool.wire_schema),
            output_schema=output,
            annotations=canonical(tool.annotations),
        )

    @property
    def content(self) -> dict[str, Any]:
        """Everything but the name."""
        parts = {item.name: getattr(self, item.name) for item in fields(self)[1:]}
        return {name: part for name, part in parts.items() if part not in (None, "")}

    @property
    def hash(self) -> str:
        """The hash of name and content."""
        return digest({"name": self.name, **self.content})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedServer:
    """A server and its tools."""

    identity: Identity
    tools: Mapping[str, LockedTool]
    """By the server's name for each."""

    @classmethod
    def of(cls, identity: Identity, tools: Iterable[Tool]) -> Self:
        """Create an entry from listed tools; of duplicates, the first counts."""
        locked: dict[str, LockedTool] = {}
        for tool in tools:
            locked.setdefault(tool.wire_name, LockedTool.of(tool))
        return cls(identity=identity, tools=locked)


@dataclass(frozen=True, slots=True)
class Lockfile:
    """The locked servers, by name."""

    servers: Mapping[str, LockedServer]


class _ToolEntry(TypedDict):
    hash: str
    title: NotRequired[str | None]
    description: NotRequired[str | list[str]]
    input_schema: NotRequired[dict[str, Any]]
    output_schema: NotRequired[dict[str, Any] | None]
    annotations: NotRequired[dict[str, Any]]


class _ServerEntry(TypedDict):
    identity: Identity
    tools: dict[str, _ToolEntry]


class _Document(TypedDict):
    version: Literal[1]
    servers: dict[str, _ServerEntry]


@cache
def _document() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)  # most clients need none


def read_lockfile(path: Path) -> Lockfile:
    """Read a lockfile."""
    try:
        text = decode_text(path.read_bytes())
    except FileNotFoundError:
        _reject(path, "lockfile_missing", "there is no lockfile", "write it: plait lock")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        _reject(path, "lockfile_unreadable", f"the lockfile cannot be read: {reason}")
    try:
        document = parse_jsonc(text)
    except JsonSyntaxError as error:
        where = f"{path}:{error.line}:{error.column}"
        _reject(where, "lockfile_broken", f"not valid JSON, {error.reason}", _again(path))
    if document.repeated_keys:
        # Which of them counts differs between readers: a reviewer may have read the other.
        name = document.repeated_keys[0]
        _raise_broken(text, path, name, f"the key {name!r} is there twice")
    return _lockfile_from(document.value, text, path)


def text_from_lockfile(lockfile: Lockfile) -> str:
    """Write a lockfile as text; the same content gives the same text."""
    servers: dict[str, Any] = {}
    for name, server in sorted(lockfile.servers.items()):
        optional = {"cwd", "env", "hidden"}
        identity = {
            key: value
            for key, value in asdict(server.identity).items()
            if value or key not in optional
        }
        tools: dict[str, Any] = {}
        for tool in sorted(server.tools):
            content = server.tools[tool].content
            if "\n" in content.get("description", ""):
                # One entry per line, so that a diff shows single lines.
                content["description"] = content["description"].split("\n")
            tools[tool] = {"hash": server.tools[tool].hash, **content}
        servers[name] = {"identity": identity, "tools": tools}
    value = {"version": _VERSION, "servers": servers}
    # A reviewer must see invisible characters.
    return escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def write_lockfile(lockfile: Lockfile, path: Path) -> None:
    """Replace the file in one step."""
    mode = None if path.exists() else 0o644
    try:
        write_atomically(path, text_from_lockfile(lockfile), mode=mode)
    except OSError as error:
        _reject(path, "lockfile_unwritable", f"cannot be written: {error.strerror}")


def _lockfile_from(value: object, text: str, path: Path) -> Lockfile:
    try:
        document = _document().validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        names = [str(step) for step in first["loc"] if not str(step).endswith("]")]
        message = f"{'.'.join(names) or 'the lockfile'}: {first['msg'].lower()}"
        if names == ["version"]:
            message = f"not a lockfile of version {_VERSION}, which this version of plait reads"
        _raise_broken(text, path, names[-1] if names else "", message)
    servers: dict[str, LockedServer] = {}
    for server, entry in document["servers"].items():
        tools: dict[str, LockedTool] = {}
        for name, listed in entry["tools"].items():
            content: dict[str, Any] = {key: part for key, part in listed.items() if key != "hash"}
            if isinstance(lines := listed.get("description"), list):
                content["description"] = "\n".join(lines)
            tools[name] = LockedTool(name=name, **content)
            if listed["hash"] != tools[name].hash:
                message = f"{server}/{name} does not match its hash"
                _raise_broken(text, path, listed["hash"], message)
        servers[server] = LockedServer(identity=entry["identity"], tools=tools)
    return Lockfile(servers)


def _raise_broken(text: str, path: Path, word: str, message: str) -> NoReturn:
    """Raise an error that names the first line with the word."""
    lines = enumerate(text.split("\n"), 1)
    number = next((number for number, line in lines if f'"{word}"' in line), 1)
    _reject(f"{path}:{number}", "lockfile_broken", message, _again(path))


def _again(path: Path) -> str:
    return f"restore it from version control, or delete it and run: plait lock --file {path}"


def _reject(where: Path | str, code: str, message: str, suggestion: str | None = None) -> NoReturn:
    problem = Problem(file=str(where), path="", code=code, message=message, suggestion=suggestion)
    raise ConfigError.from_problems([problem]) from None


Part = Literal[
    "title", "description", "argument", "result", "annotation", "name", "version", "address"
]
"""The part of a tool or a server that changed."""

How = Literal["changed", "added", "removed"]
"""How it changed."""

_ABSENT: Final[Any] = object()
"""Stands for a keyword or an argument that is not there; `None` is a JSON value."""
MAX_VALUE_CHARS: Final = 120
"""Longer values are cut, so that a change stays one readable line."""
MAX_KEPT_CHARS: Final = 60
"""Characters of an unchanged run that are shown on either side of a change."""
MAX_COMPARED_WORDS: Final = 4_000
"""Longer texts are compared line by line: words would take minutes."""
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference from the lockfile."""

    part: Part
    how: How = "changed"
    path: str = ""
    """Which argument or annotation, such as `address.zip` or `tags[]`."""
    before: Any = field(default=None, repr=False)
    after: Any = field(default=None, repr=False)
    loud: bool = False
    """Whether the tool may be more dangerous than before."""

    @property
    def label(self) -> str:
        """What changed, without quoting the server: for errors."""
        of_server = " of the server" if self.part in {"address", "version"} else ""
        return f"{self.part}{of_server} {self.how}"

    @property
    def text(self) -> str:
        """What changed, in one line, with both values, escaped."""
        where = f"{self.part} {escaped(self.path)}".strip()
        if self.how != "changed":
            value = outline(self.after if self.how == "added" else self.before)
            return f"{where} was {self.how} ({_short(value)})"
        values = self.before, self.after
        texts = [value if isinstance(value, str) else text_of(value) for value in values]
        # Cut to their beginnings, long values could look the same.
        is_long = None not in values and max(map(len, texts)) > MAX_VALUE_CHARS
        if self.is_prose or is_long:
            return f"{where}: {text_of_diff(word_diff(*texts))}"
        return f"{where}: {_short(self.before)} → {_short(self.after)}"

    @property
    def is_prose(self) -> bool:
        """Whether both values are texts that a model reads."""
        is_description = self.part == "description" or self.path.endswith("description")
        return is_description and isinstance(self.before, str) and isinstance(self.after, str)

    def to_dict(self) -> dict[str, Any]:
        """Describe the change as plain data."""
        return {**asdict(self), "text": self.text}


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = escaped(value if isinstance(value, str) else text_of(value))
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 1]}…"


def identity_changes(before: Identity, after: Identity) -> list[Change]:
    """Compare name, version and address of a server; only another version is not loud."""
    parts: tuple[Part, ...] = ("name", "version", "address")
    return [
        Change(part=part, before=old, after=new, loud=part != "version")
        for part in parts
        if (old := getattr(before, part)) != (new := getattr(after, part))
    ]


def tool_changes(before: LockedTool, after: LockedTool) -> tuple[Change, ...]:
    """Compare two tools in everything but the name; if they differ, there is a change."""
    parts: tuple[Part, ...] = ("title", "description")
    changes = [
        Change(part=part, before=old, after=new)
        for part in parts
        if (old := getattr(before, part)) != (new := getattr(after, part))
    ]
    changes += _schema_changes("argument", "", before.input_schema, after.input_schema)
    changes += _schema_changes("result", "", before.output_schema, after.output_schema)
    hints = before.annotations, after.annotations
    was, is_now = (
        Tool(server="", wire_name="", name="", annotations=known).destructive for known in hints
    )
    for name in sorted({*hints[0], *hints[1]}):
        old, new = (known.get(name) for known in hints)
        if text_of(old) != text_of(new):
            # It was declared harmless when somebody reviewed it.
            loud = is_now and not was and name in {"read_only_hint", "destructive_hint"}
            changes.append(Change(part="annotation", path=name, before=old, after=new, loud=loud))
    return tuple(changes)


def _schema_changes(
    part: Literal["argument", "result"],
    path: str,
    before: Any,
    after: Any,
    *,
    names: bool = False,
) -> Iterator[Change]:
    """Compare two schemas; with `names`, two objects of schemas by name."""
    if is_mapping(before) and is_mapping(after):
        for key in sorted({*before, *after}):
            old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
            where = f"{path}.{key}" if path else key
            if names and (old is _ABSENT or new is _ABSENT):
                how: How = "added" if old is _ABSENT else "removed"
                known = {"before": old, "after": new}
                given = {when: value for when, value in known.items() if value is not _ABSENT}
                yield Change(part=part, how=how, path=where, **given)
            elif names:
                yield from _schema_changes(part, where, old, new)
            elif key == "properties":
                yield from _schema_changes(part, path, old, new, names=True)
            else:
                place = f"{path}[]" if key == "items" else where
                yield from _schema_changes(part, place, old, new, names=key in NAMED_SCHEMAS)
    elif is_list(before) and is_list(after) and any(map(is_mapping, [*before, *after])):
        for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=_ABSENT), 1):
            yield from _schema_changes(part, f"{path}({number})", old, new)
    elif before is _ABSENT or after is _ABSENT or text_of(before) != text_of(after):
        old, new = (None if value is _ABSENT else value for value in (before, after))
        yield Change(part=part, path=path or "schema", before=old, after=new)


Span = tuple[Literal["same", "gone", "new"], str]
"""A run of words, and whether it is unchanged, removed or added."""


def word_diff(before: str, after: str) -> list[Span]:
    """Compare two texts; invisible characters are escaped, and long unchanged runs are cut."""
    old, new = (_WORD.findall(escaped(text)) for text in (before, after))
    if max(len(old), len(new)) > MAX_COMPARED_WORDS:
        old, new = (escaped(text).splitlines(keepends=True) for text in (before, after))
    spans: list[Span] = []
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for number, (kind, start, end, new_start, new_end) in enumerate(opcodes):
        text = "".join(old[start:end])
        if kind != "equal":
            if text:
                spans.append(("gone", text))
            if new_start < new_end:
                spans.append(("new", "".join(new[new_start:new_end])))
        elif len(text) <= 2 * MAX_KEPT_CHARS:
            spans.append(("same", text))
        else:
            head = text[:MAX_KEPT_CHARS] if number else ""
            tail = text[-MAX_KEPT_CHARS:] if number < len(opcodes) - 1 else ""
            spans.append(("same", f"{head} … {tail}"))
    return spans


def text_of_diff(spans: Sequence[Span]) -> str:
    """Write a comparison in one line: `Pay [-a bill-]{+any bill+}.`."""
    marks = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}
    parts = [f"{marks[kind][0]}{text}{marks[kind][1]}" for kind, text in spans]
    return " ".join("".join(parts).split())


DriftKind = Literal["added", "removed", "changed", "identity", "server_added", "server_removed"]
"""What happened to a tool, or to a server."""

_TEXTS: Mapping[DriftKind, tuple[str, str]] = {
    "added": ("it was not there when the tools were locked", "{tool} was added"),
    "removed": ("the server does not list it any more", "{tool} was removed"),
    "changed": ("it is not as it was locked: {changes}", "{tool} changed"),
    "identity": (
        "its server is not the one that was locked: {changes}",
        "the server has another version",
    ),
    "server_added": ("its server was not locked", "the server is not in the lockfile"),
    "server_removed": (
        "its server is not configured any more",
        "the server is in the lockfile, but not configured",
    ),
}
"""The label and the headline of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One tool, or one server, that differs from the lockfile."""

    server: str
    kind: DriftKind
    tool: str | None = None
    """The server's name for the tool; `None` for a server."""
    changes: tuple[Change, ...] = ()

    @property
    def loud(self) -> bool:
        """Whether it may be more dangerous than before."""
        return any(change.loud for change in self.changes)

    @property
    def where(self) -> str:
        """The tool or server, as `plait lock --update` takes it."""
        return self.server if self.tool is None else f"{self.server}/{self.tool}"

    @property
    def label(self) -> str:
        """What happened, without quoting the server."""
        changes = ", ".join(dict.fromkeys(change.label for change in self.changes))
        return _TEXTS[self.kind][0].format(changes=changes)

    @property
    def headline(self) -> str:
        """What happened, in one line, without the changes."""
        if self.kind == "identity" and self.loud:
            return "the server is not the one that was locked"
        return _TEXTS[self.kind][1].format(tool=f"`{escaped(self.tool or '')}`")

    @property
    def text(self) -> str:
        """What happened, with every change, in one line."""
        details = "; ".join(change.text for change in self.changes)
        alarm = "DANGER, it may destroy something now: " if self.loud and self.tool else ""
        return f"{alarm}{self.headline}{f': {details}' if details else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Describe it as plain data."""
        plain = {name: getattr(self, name) for name in ("server", "kind", "tool", "loud", "text")}
        return {**plain, "changes": [change.to_dict() for change in self.changes]}


def server_drift(server: str, before: LockedServer | None, after: LockedServer) -> list[Drift]:
    """Compare a server with its entry in the lockfile, tool by tool."""
    if before is None:
        return [Drift(server=server, kind="server_added")]
    drift: list[Drift] = []
    if changes := identity_changes(before.identity, after.identity):
        drift.append(Drift(server=server, kind="identity", changes=tuple(changes)))
    for name, tool in before.tools.items():
        now = after.tools.get(name)
        if now is None:
            drift.append(Drift(server=server, kind="removed", tool=name))
        elif now.hash != tool.hash:
            changed = tool_changes(tool, now)
            drift.append(Drift(server=server, kind="changed", tool=name, changes=changed))
    added = (name for name in after.tools if name not in before.tools)
    return [*drift, *(Drift(server=server, kind="added", tool=name) for name in added)]


def file_drift(
    lockfile: Lockfile, seen: Mapping[str, LockedServer], configured: Collection[str]
) -> list[Drift]:
    """Compare all listed servers; servers that are no longer configured are drift too."""
    drift = [
        one
        for name, server in seen.items()
        for one in server_drift(name, lockfile.servers.get(name), server)
    ]
    gone = [name for name in lockfile.servers if name not in configured]
    return [*drift, *(Drift(server=name, kind="server_removed") for name in gone)]


def relocked(
    lockfile: Lockfile, seen: Mapping[str, LockedServer], configured: Collection[str]
) -> Lockfile:
    """Accept all listed servers; those that could not be listed stay unchanged."""
    kept = {name: one for name, one in lockfile.servers.items() if name in configured}
    return Lockfile({**kept, **seen})


def updated(lockfile: Lockfile, seen: Mapping[str, LockedServer], names: Iterable[str]) -> Lockfile:
    """Accept only these: `server` with all its tools, or `server/tool`."""
    servers = dict(lockfile.servers)
    for name in names:
        server, slash, tool = name.partition("/")
        if server not in seen:
            raise ConfigError(f"there is no server {server!r} to update", server=server)
        now = seen[server]
        before = servers.get(server) or replace(now, tools={})
        if not slash:
            servers[server] = now
        elif tool in before.tools or tool in now.tools:
            tools = {known: one for known, one in before.tools.items() if known != tool}
            accepted = {tool: now.tools[tool]} if tool in now.tools else {}
            servers[server] = replace(before, tools=tools | accepted)
        else:
            raise ConfigError(f"{server} has no tool {tool!r} to update", server=server)
    return Lockfile(servers)


LockMode = Literal["off", "warn", "block"]
"""What happens to tools that differ from the lockfile."""


@dataclass(frozen=True, slots=True)
class LockCheck:
    """The result of comparing one listing with the lockfile."""

    server: str
    drift: tuple[Drift, ...] = ()
    blocks: bool = False
    """Whether tools that differ are not offered."""
    locked: frozenset[str] = frozenset()
    """The names in the lockfile."""

    def refusal(self, wire_name: str) -> str | None:
        """Return why a tool must not be called, or `None` if it may be."""
        if not self.blocks:
            return None
        see = f"see: plait lock --check {self.server}"
        for one in self.drift:
            # A new version alone is no reason to distrust every tool of a server.
            other_server = one.kind == "identity" and one.loud
            if one.tool == wire_name or one.kind == "server_added" or other_server:
                return f"{one.label}; to accept it: plait lock --update {one.where}"
        # One that the server does not list, it may still run.
        return None if wire_name in self.locked else f"it is not in the lockfile; {see}"


UNCHECKED = LockCheck("")


@dataclass(frozen=True, slots=True)
class ToolLock:
    """A lockfile, and its mode."""

    mode: LockMode
    path: Path
    file: Lockfile = field(repr=False)

    def check(self, server: str, identity: Identity, tools: Iterable[Tool]) -> LockCheck:
        """Compare the tools that a server lists with the lockfile."""
        before = self.file.servers.get(server)
        now = LockedServer.of(identity, tools)
        known = frozenset(before.tools if before is not None else ())
        drift = tuple(server_drift(server, before, now))
        return LockCheck(server, drift, self.mode == "block", known)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReport:
    """How the listed tools differ from the lockfile."""

    mode: LockMode = "off"
    file: str | None = None
    drift: tuple[Drift, ...] = ()
    unchecked: tuple[str, ...] = ()
    """Servers that did not list their tools yet."""

    @property
    def ok(self) -> bool:
        """Whether nothing is known to differ."""
        return not self.drift

    def to_dict(self) -> Mapping[str, Any]:
        """Describe the report as plain data."""
        drift, unchecked = [one.to_dict() for one in self.drift], list(self.unchecked)
        known = {"ok": self.ok, "mode": self.mode, "file": self.file}
        return {**known, "drift": drift, "unchecked": unchecked}
