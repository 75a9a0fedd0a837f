"""What one server listed, and for how long that may be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from plait.client.catalog.lock.guard import UNCHECKED, Verdict
from plait.client.catalog.overrides import ToolOverride, apply_override, override_for
from plait.client.catalog.sanitize_tools import sanitize_tool
from plait.client.catalog.tool import Tool
from plait.client.connections.operations import ToolList

OWN_TTL_SECONDS = 300.0
"""How long a list holds where the server neither says so nor announces changes."""

ANNOUNCED_TTL_SECONDS = 3600.0
"""The same where the server announces changes: announcements can be lost."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server: all of them, whatever the filters say."""

    listed: Mapping[str, Tool]
    """As the server listed them, by wire name; of two with one name, the first.

    Their texts are harmless already, unless the client wants them as they are.
    """

    tools: Mapping[str, Tool]
    """The same with the user's overrides."""

    generation: int
    """In which session they were listed."""

    expires_at: float = float("inf")
    """The monotonic time after which they must be listed again."""

    public: bool = False
    """Whether the list is the same for all credentials."""

    left_out: tuple[str, ...] = ()
    """What is wrong with the tools that could not be taken."""

    hidden: tuple[str, ...] = ()
    """What was made harmless in the texts of the others."""

    verdict: Verdict = UNCHECKED
    """How the tools stand to the lockfile."""

    stored: bool = False
    """Whether this is what the server listed some time ago, to another client."""

    def holds(self, generation: int, now: float) -> bool:
        """Say whether the list can still be used."""
        return self.generation == generation and now < self.expires_at


def listing_from(
    server: str,
    listed: ToolList,
    *,
    overrides: Mapping[str, ToolOverride],
    generation: int,
    now: float,
    ttl_seconds: float,
    notes: Iterable[str],
    sanitize: bool = True,
    judge: Callable[[Iterable[Tool]], Verdict] | None = None,
    stored: bool = False,
) -> Listing:
    """Make a listing of what the server answered.

    `judge` holds the tools, exactly as they came, against a lockfile.

    Raises:
        ConfigError: An override does not fit its tool.
    """
    plain: dict[str, Tool] = {}
    for item in listed.tools:
        plain.setdefault(item.name, Tool.from_mcp(server, item))
    verdict = UNCHECKED if judge is None else judge(plain.values())
    hidden: list[str] = []
    if sanitize:
        for name, tool in plain.items():
            plain[name], found = sanitize_tool(tool)
            hidden += [f"{tool.full_name}: {note}" for note in found]
    changed = {name: override_for(overrides, tool) for name, tool in plain.items()}
    return Listing(
        plain,
        {
            name: tool if (override := changed[name]) is None else apply_override(tool, override)
            for name, tool in plain.items()
        },
        generation,
        now + ttl_seconds,
        listed.public,
        tuple(note for note in notes if note.startswith("tool ")),
        tuple(hidden),
        verdict,
        stored,
    )


def ttl_of(listed: ToolList, *, announces: bool, own: float | None) -> float:
    """Say for how many seconds a list holds; `own` is what the user asks for."""
    if own is not None:
        return own
    if listed.ttl_seconds is not None:
        return listed.ttl_seconds
    return ANNOUNCED_TTL_SECONDS if announces else OWN_TTL_SECONDS
