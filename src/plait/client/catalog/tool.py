"""A tool of a server, as a plain value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_core import from_json

from plait._support.threads import in_thread

if TYPE_CHECKING:
    import mcp_types as types

    from plait.client.catalog.overrides import ToolOverride
    from plait.client.config.policy import Trait
    from plait.client.protocol.tool_rows import RawRow, Row
    from plait.models.schemas.for_provider import Profile

_SAME: Final[dict[str, Any]] = {}
"""Marks a missing `wire_schema`, compared by identity."""

_SHARED: Final = "shared"
"""The key of a schema that is not a copy; no profile has this name."""

HINTS: Final = (
    ("title", "title"),
    ("readOnlyHint", "read_only_hint"),
    ("destructiveHint", "destructive_hint"),
    ("idempotentHint", "idempotent_hint"),
    ("openWorldHint", "open_world_hint"),
)
"""The annotations of a listed tool, and what they are called here."""


def _hints(row: Row) -> dict[str, Any]:
    listed: Mapping[str, Any] = row.get("annotations") or {}
    return {key: value for name, key in HINTS if (value := listed.get(name)) is not None}


def _extra(row: Row) -> dict[str, Any]:
    extra = {name: value for name, value in row.items() if name not in _FIELDS}
    listed: Mapping[str, Any] = row.get("annotations") or {}
    known = dict(HINTS)
    hints = {name: value for name, value in listed.items() if name not in known}
    return {**extra, "annotations": hints} if hints else extra


_FIELDS: Final = frozenset(
    {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"}
)
"""The fields of a listed tool that are read one by one."""
_READERS: Final[dict[str, Callable[[Row], Any]]] = {
    "title": lambda row: row.get("title") or _hints(row).get("title"),
    "description": lambda row: row.get("description") or "",
    "input_schema": lambda row: row["inputSchema"],
    "output_schema": lambda row: row.get("outputSchema"),
    "annotations": _hints,
    "meta": lambda row: row.get("_meta"),
    "icons": lambda row: tuple(row.get("icons") or ()),
    "extra": _extra,
}
"""What is read from a listed tool; from one that is still JSON, when it is first used."""


@lru_cache(maxsize=1)
def _parsed(listed: bytes) -> Row:
    """Parse a listed tool; it is kept until another one is read, since several reads are usual."""
    return from_json(listed)


@lru_cache(maxsize=1)
def _shared_schema(listed: bytes) -> dict[str, Any] | None:
    row = _parsed(listed)
    text = row.get("description") or _READERS["title"](row)
    return _described_if_plain(row["inputSchema"], text)


def _described_if_plain(schema: Mapping[str, Any], text: str | None) -> dict[str, Any] | None:
    from plait.models.schemas.json_schema import shared_if_plain  # noqa: PLC0415  # many modules

    shared = shared_if_plain(schema)
    return {**shared, "description": text} if shared is not None and text else shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, and where it comes from."""

    server: str
    wire_name: str
    """The server's name for it."""
    name: str
    """The public name: valid for every model provider, and unique."""
    title: str | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The schema for callers: the listed one, unless an override changes it."""
    wire_schema: Mapping[str, Any] = field(default_factory=lambda: _SAME, repr=False)
    """The listed schema, which the server checks arguments against; by default `input_schema`."""
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The server's hints, in snake_case."""
    meta: Mapping[str, Any] | None = None
    icons: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """What else the server lists for it, such as `execution`, under its own names."""
    mirrors_arguments: bool = False
    """Whether some of its arguments must be sent as HTTP headers too (`x-mcp-header`)."""
    override: ToolOverride | None = None
    """The override that was applied, which completes arguments."""
    schemas: dict[str, dict[str, Any] | None] = field(
        default_factory=dict[str, dict[str, Any] | None], init=False, repr=False, compare=False
    )
    """`input_schema` for families of models, made on first use."""
    source: bytes | Row | Tool | None = field(default=None, init=False, repr=False, compare=False)
    """The tool as it was listed, or under another name; `None` if anything was changed.

    Fields are read from listed JSON, or another tool, when they are first used.
    """

    if not TYPE_CHECKING:  # a type checker would take every attribute for defined

        def __getattr__(self, name: str) -> Any:
            source = self.source if name in _READ_LATER else None
            if source is None or isinstance(source, dict):
                raise AttributeError(name, name=name, obj=self)
            if isinstance(source, Tool):
                value = getattr(source, name)
            elif name == "schemas":
                value = {}
            elif name == "wire_schema":
                value = self.input_schema
            else:
                value = _READERS[name](_parsed(source))
            if name not in _NOT_KEPT:
                object.__setattr__(self, name, value)
            return value

    def __post_init__(self) -> None:
        if self.wire_schema is _SAME:
            object.__setattr__(self, "wire_schema", self.input_schema)

    @property
    def full_name(self) -> str:
        """The name with its server: `server/tool`."""
        return f"{self.server}/{self.wire_name}"

    def is_called(self, pattern: str) -> bool:
        """Return whether a name or a glob matches this tool.

        Only a glob with a slash is compared with `server/tool`: `f*` does not match every tool of
        a server called `files`.
        """
        if pattern in {self.wire_name, self.full_name} or fnmatchcase(self.wire_name, pattern):
            return True
        return "/" in pattern and fnmatchcase(self.full_name, pattern)

    @property
    def read_only(self) -> bool:
        """Whether the server declares that it changes nothing."""
        return self.annotations.get("read_only_hint") is True

    @property
    def destructive(self) -> bool:
        """Whether it may be destructive, which is assumed unless the server denies it."""
        return not self.read_only and self.annotations.get("destructive_hint") is not False

    @property
    def open_world(self) -> bool:
        """Whether it may reach external systems, which is assumed unless the server denies it."""
        return self.annotations.get("open_world_hint") is not False

    @property
    def idempotent(self) -> bool:
        """Whether the server declares that repeating a call has no further effect."""
        return self.read_only or self.annotations.get("idempotent_hint") is True

    def schema_for(self, profile: Profile | None) -> dict[str, Any]:
        """Return `input_schema` for a family of models; the same object every time."""
        profile = profile or "default"
        if (known := self.schemas.get(profile)) is not None:
            return known
        from plait.models.schemas.for_provider import schema_for_provider  # noqa: PLC0415  # many modules

        made = schema_for_provider(self.input_schema, profile).schema
        return self.schemas.setdefault(profile, made) or made

    def shared_schema(self) -> dict[str, Any] | None:
        """Return `input_schema` with the description, if models of no special family read it as is.

        Whoever gets it must not change it.
        """
        if isinstance(self.source, Tool):
            return self.source.shared_schema()
        if _SHARED not in self.schemas:
            if isinstance(self.source, bytes):
                return _shared_schema(self.source)
            text = self.description or self.title
            self.schemas[_SHARED] = _described_if_plain(self.input_schema, text)
        return self.schemas[_SHARED]

    def has_trait(self, trait: Trait) -> bool:
        """Return whether a trait holds, with defaults for missing hints."""
        return bool(getattr(self, trait))

    @classmethod
    def from_mcp(cls, server: str, tool: types.Tool) -> Self:
        """Convert a tool of the SDK; its public name is its wire name."""
        from plait.client.protocol.tool_rows import row_of  # noqa: PLC0415  # imports its types

        return cls.from_row(server, row_of(tool))

    @classmethod
    def from_row(cls, server: str, row: Row | RawRow, *, may_mirror: bool = True) -> Self:
        """Convert a listed tool; without `may_mirror`, it surely mirrors no arguments."""
        if isinstance(row, tuple):
            name, listed = row
            return cls._read_from(listed, server=server, wire_name=name, name=name)
        name = row["name"]
        if may_mirror:
            from plait.client.protocol.tool_rows import mirrors_arguments  # noqa: PLC0415  # as above

            may_mirror = mirrors_arguments(row["inputSchema"])
        read = {key: reader(row) for key, reader in _READERS.items()}
        tool = cls(server=server, wire_name=name, name=name, mirrors_arguments=may_mirror, **read)
        object.__setattr__(tool, "source", row)
        return tool

    @classmethod
    def _read_from(cls, source: bytes | Tool, **known: Any) -> Self:
        """Create a tool whose other fields are read from the source when they are first used."""
        tool = object.__new__(cls)
        for name, value in {**_NOT_READ, **known, "source": source}.items():
            object.__setattr__(tool, name, value)
        return tool

    def renamed(self, name: str) -> Tool:
        """Return the tool under another public name."""
        if name == self.name:
            return self
        source = self.source if isinstance(self.source, Tool) else self
        known = {key: getattr(self, key) for key in ("server", "wire_name", *_NOT_READ)}
        return Tool._read_from(source, **known, name=name)

    def to_dict(self) -> dict[str, Any]:
        """Return the tool as plain data."""
        plain = ("server", "name", "wire_name", "title", "description")
        return {
            **{name: getattr(self, name) for name in plain},
            "input_schema": dict(self.input_schema),
            "output_schema": None if self.output_schema is None else dict(self.output_schema),
            "annotations": dict(self.annotations),
            "meta": None if self.meta is None else dict(self.meta),
            "icons": [dict(icon) for icon in self.icons],
        }


MAX_CONVERTED_TOOLS: Final = 128
"""How many tools a model can have, by the lowest limit of a large provider."""
MAX_KEPT_TOOLS: Final = 2000
"""So many schemas are kept for the next binding, in some 10 kB each; no model has more tools."""
_NOT_READ: Final = {"override": None, "mirrors_arguments": False}
_READ_LATER: Final = {*_READERS, "wire_schema", "schemas"}
_NOT_KEPT: Final = {"title", "description"}
"""Read of every tool when tools are bound. Unless their schemas stay too, they would be small
pieces that keep much memory in use."""


async def prepare_schemas(tools: Sequence[Tool], profile: Profile | None) -> None:
    """Read and convert the schemas that models get, in a thread.

    Programs bind all tools to a model at once, in one turn of the event loop, and agents bind them
    again for each request.
    """
    made = profile or "default"
    converted: list[Tool] = []
    plain: list[tuple[Tool, bytes]] = []
    for tool in tools:
        origin = tool
        while isinstance(origin.source, Tool):
            origin = origin.source
        listed = origin.source
        # Whether it surely has to be converted; other checks would take as long as doing it.
        has_references = (
            b'"$ref"' in listed if isinstance(listed, bytes) else "$defs" in tool.input_schema
        )
        if made != "default" or has_references:
            if made not in tool.schemas and len(converted) < MAX_CONVERTED_TOOLS:
                converted.append(tool)
        elif (
            isinstance(listed, bytes)
            and _SHARED not in origin.schemas
            and len(plain) < MAX_KEPT_TOOLS
        ):
            plain.append((origin, listed))

    def prepare() -> None:
        for tool in converted:
            tool.schema_for(made)
        for tool, listed in plain:
            shared = _shared_schema(listed)
            if shared is not None:
                for name in _NOT_KEPT:
                    object.__setattr__(tool, name, getattr(tool, name))
                tool.schemas[_SHARED] = shared

    if converted or plain:
        await in_thread(prepare)
