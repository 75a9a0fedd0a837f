"""Who is compared, and where each runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contender:
    """A library in one way of using it."""

    id: str
    title: str
    short: str
    """The heading of its column."""
    environment: str | None
    """Its environment below `.bench`; `None` is that of this checkout."""
    is_node: bool = False
    is_quick: bool = True
    """Whether it is part of a quick run."""


LIMIT = Contender("limit", "hand-written limit", "limit", None)
SDK = Contender("mcp", "`mcp.Client`, session held", "mcp.Client", "mcp")
NODE = Contender("node", "@langchain/mcp-adapters on Node", "JS adapter", "node", is_node=True)
ADAPTERS = Contender(
    "adapters",
    "langchain-mcp-adapters, session held",
    "lc-adapters",
    "langchain-mcp-adapters",
)
PLAIT = Contender("plait", "plait, caller's loop", "plait", None)
OWN_LOOP = Contender("plait-own", "plait, its own loop", "plait own", None)
TOOLBOX = Contender("toolbox", "plait, Toolbox without LangChain", "Toolbox", None)

CONTENDERS: tuple[Contender, ...] = (
    LIMIT,
    PLAIT,
    OWN_LOOP,
    TOOLBOX,
    SDK,
    NODE,
    ADAPTERS,
    Contender(
        "adapters-per-call",
        "langchain-mcp-adapters, session per call",
        "lc-a./call",
        "langchain-mcp-adapters",
        is_quick=False,
    ),
    Contender("langchain.mcp", "langchain.mcp on fastmcp", "langchain.mcp", "langchain.mcp"),
    Contender("mcp-use", "mcp-use", "mcp-use", "mcp-use"),
)
